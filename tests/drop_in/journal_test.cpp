#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <drop_in/journal.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/version.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace hcomp::drop_in;

namespace {

std::string const version = std::to_string(HCOMP_VERSION_MAJOR) + '.' +
                            std::to_string(HCOMP_VERSION_MINOR) + '.' +
                            std::to_string(HCOMP_VERSION_PATCH);

call_site const thc_site{"MPI_Allreduce",
                         "train+0x1234",
                         "float",
                         4,
                         "thc bits=4 feedback=yes",
                         "rule 'float: thc bits=4 feedback=yes min=1MiB'"};
call_site const fp16_site{
    "MPI_Reduce_scatter_block", "libdata.so.3+0x99", "double", 4, "fp16", "by hand"};

/// `calls` calls of 1048576 values on one of 4 ranks; a tenth of them compared.
site_stats thc_stats(std::uint64_t calls) {
  return {
      .calls = calls,
      .smallest = 1048576,
      .largest = 1048576,
      .bytes_plain = calls * 6291456,
      .bytes_sent = calls * 838861,
      .seconds = 0.0153 * static_cast<double>(calls),
      .seconds_codec = 0.006 * static_cast<double>(calls),
      .compared = calls / 10,
      .first = {1, 0.5, 0.25, 4},
      .later = {calls / 10, 0.0153 * static_cast<double>(calls / 10),
                0.006 * static_cast<double>(calls / 10), 0.03 * static_cast<double>(calls / 10)},
      .worst_error = 1.2e-3,
      .worst_relative = 4.5e-2};
}
site_stats passed(std::uint64_t calls, std::uint64_t smallest, std::uint64_t largest) {
  site_stats f;
  f.calls = calls, f.smallest = smallest, f.largest = largest;
  return f;
}

/// Fills the journals of 4 ranks.
void fill(journal& all) {
  for (int rank = 0; rank < 4; ++rank) {
    all.add(thc_site, thc_stats(100));
    all.add(fp16_site, {.calls = 3,
                        .smallest = 100,
                        .largest = 25000000,
                        .bytes_plain = 6000000,
                        .bytes_sent = 1500000,
                        .seconds = 0.003,
                        .seconds_codec = 0.0003,
                        .told_error = rank == 2 ? 1.2e-4 : 1e-5,
                        .beyond_bound = 2});
    all.add({"MPI_Allreduce", "train+0x12", "float", 4, "MPI", "not MPI_SUM"}, passed(7, 1, 1));
    all.add({"MPI_Allreduce", "train+0x14", "float", 4, "MPI", "not MPI_SUM"}, passed(2, 5, 90));
    all.add({"MPI_Allreduce", "train+0x14", "other", 1, "MPI", "one rank"}, passed(12345, 8, 8));
  }
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    auto const end = text.find('\n', begin);
    REQUIRE(end != text.npos);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("journal: stats of a site add up, and extremes stay") {
  site_stats sum;
  sum.add({.calls = 2,
           .smallest = 5,
           .largest = 9,
           .bytes_plain = 10,
           .bytes_sent = 4,
           .seconds = 1.5,
           .seconds_codec = 0.5,
           .compared = 1,
           .first = {1, 8, 4, 2},
           .worst_error = 0.25,
           .worst_relative = 0.125,
           .told_error = 0.5,
           .residual = 0.25,
           .beyond_bound = 1});
  CHECK(sum.smallest == 5);
  sum.add({.calls = 1,
           .smallest = 7,
           .largest = 30,
           .bytes_plain = 1,
           .bytes_sent = 2,
           .seconds = 1,
           .seconds_codec = 0.25,
           .compared = 3,
           .first = {1, 1, 2, 4},
           .later = {2, 6, 5, 7},
           .worst_error = 0.125,
           .worst_relative = 0.5,
           .told_error = 0.25,
           .residual = 3,
           .beyond_bound = 1});
  sum.add({});  // without calls there is no smallest value
  CHECK(sum.calls == 3);
  CHECK(sum.smallest == 5);
  CHECK(sum.largest == 30);
  CHECK(sum.bytes_plain == 11);
  CHECK(sum.bytes_sent == 6);
  CHECK(sum.seconds == 2.5);
  CHECK(sum.seconds_codec == 0.75);
  CHECK(sum.compared == 4);
  auto const are = [](compared_seconds const& all, compared_seconds const& expected) {
    return all.calls == expected.calls && all.own == expected.own && all.codec == expected.codec &&
           all.plain == expected.plain;
  };
  CHECK(are(sum.first, {2, 9, 6, 6}));
  CHECK(are(sum.later, {2, 6, 5, 7}));
  CHECK(are(sum.of_a_call(), {1, 3, 2.5, 3.5}));  // excludes the first calls, which take longer
  sum.later = {};
  CHECK(are(sum.of_a_call(), {1, 4.5, 3, 3}));
  CHECK(are(site_stats{}.of_a_call(), {}));
  CHECK(sum.worst_error == 0.25);
  CHECK(sum.worst_relative == 0.5);
  CHECK(sum.told_error == 0.5);
  CHECK(sum.residual == 3);
  CHECK(sum.beyond_bound == 2);
  for (bool const first : {false, true}) {
    site_stats nan = passed(1, 1, 1), other = passed(1, 1, 1);
    (first ? nan : other).worst_error = std::nan("");
    nan.add(other);
    CHECK(std::isnan(nan.worst_error));
  }
}

TEST_CASE("journal: ranks exchange journals without loss") {
  journal mine;
  CHECK(mine.empty());
  CHECK(mine.to_json() == "[]");
  fill(mine);
  mine.add({"MPI_Reduce", "a \"b\" \\ \n\x01", "float", 2, "sign", "third"},
           {.calls = std::numeric_limits<std::uint64_t>::max() - 1,
            .smallest = 0,
            .largest = std::uint64_t{1} << 63,
            .seconds = 1.0 / 3,
            .seconds_codec = 4.9e-324,
            .worst_error = std::numeric_limits<double>::infinity(),
            .worst_relative = std::numeric_limits<double>::max(),
            .told_error = std::numeric_limits<double>::infinity(),
            .residual = 1e30,
            .beyond_bound = 3});
  CHECK_FALSE(mine.empty());

  mine.add({"MPI_Allreduce", "c", "float", 2, "thc", "third"},
           {.calls = 1, .told_error = hcomp::unknown_error});
  CHECK(mine.to_json().find("\"told_error\":\"unknown\"") != std::string::npos);
  CHECK(mine.summary(1).find("error unknown: the codec states none") != std::string::npos);

  journal theirs;
  theirs.merge_json(mine.to_json());
  CHECK(theirs.to_json() == mine.to_json());
  CHECK(theirs.summary(4) == mine.summary(4));
  CHECK(mine.summary(4).find("error feedback: residuals of up to 1.0e+30 of the energy of the "
                             "values") != std::string::npos);
  CHECK(theirs.prediction(4) == mine.prediction(4));

  journal nothing;
  nothing.merge_json("[]");
  CHECK(nothing.empty());
}

TEST_CASE("journal: the merged journals of four ranks equal one common journal") {
  journal all, first;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    journal one;
    one.add(thc_site, thc_stats(10 * rank));
    one.add(fp16_site, passed(rank + 1, 100 - rank, 100 + rank));
    all.add(thc_site, thc_stats(10 * rank));
    all.add(fp16_site, passed(rank + 1, 100 - rank, 100 + rank));
    first.merge_json(one.to_json());
  }
  CHECK(first.to_json() == all.to_json());
}

TEST_CASE("journal: a malformed journal is refused and changes nothing") {
  journal one;
  one.add(fp16_site, passed(1, 1, 1));
  auto const good = one.to_json();
  for (std::string const& bad :
       {std::string(), std::string("{}"), std::string("null"), std::string("7"), std::string("[7]"),
        std::string("[{}]"), good.substr(0, good.size() - 1), good + good, "[" + good + "]",
        good.substr(0, good.size() - 1) + R"(,{"function":"MPI_Reduce","caller":3}])"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(one.merge_json(bad), std::invalid_argument);
    CHECK(one.to_json() == good);
  }
  CHECK_THROWS_WITH_AS(one.merge_json("["), doctest::Contains("a journal of 1 bytes"),
                       std::invalid_argument);
}

TEST_CASE("journal: the summary") {
  journal all;
  fill(all);
  CHECK(all.summary(4) ==
        "hcomp " + version +
            R"(: reductions of 4 ranks; calls and seconds per rank, bytes of all ranks

    calls function                 type   ranks         values     plain      sent   ratio      time
      100 MPI_Allreduce            float      4        1048576   2.52 GB 335.54 MB   7.50x    1.53 s
          by rule 'float: thc bits=4 feedback=yes min=1MiB'
          from train+0x1234; 39 % of the time in the codec
          worst error 1.2e-03 (relative 4.5e-02) in 10 calls compared
          a call took 15.30 ms, MPI's own 30.00 ms (1.96x)
        3 MPI_Reduce_scatter_block double     4   100-25000000  24.00 MB   6.00 MB   4.00x   3.00 ms
          by fp16, by hand
          from libdata.so.3+0x99; 10 % of the time in the codec
          values off by up to 1.2e-04, in 2 calls by more than the bound
      103 all                                                    2.54 GB 341.54 MB   7.44x    1.53 s

    calls left to MPI              type                 values because
        9 MPI_Allreduce            float                  1-90 not MPI_SUM
    12345 MPI_Allreduce            other                     8 one rank
)");
}

TEST_CASE("journal: a summary without reductions, and one with values that are hard to print") {
  journal none;
  CHECK(none.summary(1) == "hcomp " + version +
                               ": reductions of 1 rank; calls and seconds per rank, bytes of all "
                               "ranks\n\n  no reduction "
                               "was taken over\n");
  // half a call per rank, nothing sent, an error that is not finite, a reason of two lines
  journal odd;
  auto stats = passed(1, 0, 0);
  stats.compared = 1;
  stats.worst_error = std::nan("");
  odd.add({"MPI_Reduce", "?", "float", 2, "sign", "first\nsecond"}, stats);
  auto const lines = lines_of(odd.summary(2));
  REQUIRE(lines.size() == 9);
  CHECK(lines[3].starts_with("      0.5 MPI_Reduce "));
  CHECK(lines[3].find("0 B       0 B       -    0.0 us") != std::string::npos);
  CHECK(lines[4] == "          by sign, first");
  CHECK(lines[5] == "          second");
  CHECK(lines[6] == "          from ?");
  CHECK(lines[7] == "          worst error not finite (relative 0.0e+00) in 0.5 calls compared");
  CHECK(lines[8] == "          a call took 0.0 us, MPI's own 0.0 us (-)");
}

TEST_CASE("journal: the JSON report is readable whatever the names of files") {
  journal all;
  fill(all);
  auto const json = nlohmann::json::parse(all.report_json(4, "float: thc bits=4"));
  CHECK(json.at("tool") == "hcomp");
  CHECK(json.at("version") == version);
  CHECK(json.at("settings") == "float: thc bits=4");
  CHECK(json.at("ranks") == 4);
  REQUIRE(json.at("sites").size() == 5);
  int found = 0;
  for (auto const& site : json.at("sites"))
    if (site.at("strategy") == "thc bits=4 feedback=yes") {
      ++found;
      CHECK(site.at("function") == "MPI_Allreduce");
      CHECK(site.at("caller") == "train+0x1234");
      CHECK(site.at("calls") == 400);
      CHECK(site.at("bytes_plain") == 400 * std::uint64_t{6291456});
      CHECK(site.at("compared") == 40);
      CHECK(site.at("worst_relative") == 4.5e-2);
      CHECK(site.size() == 21);
    }
  CHECK(found == 1);

  journal strange;
  strange.add({"MPI_Reduce", "caf\xe9+0x1", "float", 2, "sign", ""}, passed(1, 1, 1));
  auto const read = nlohmann::json::parse(strange.report_json(2, "\xff"));
  CHECK(read.at("sites").at(0).at("caller") == "caf\xef\xbf\xbd+0x1");
  journal other;
  other.merge_json(strange.to_json());
  CHECK_FALSE(other.empty());
}

TEST_CASE("journal: the prediction is codec seconds plus bytes at a rate") {
  journal all;
  fill(all);
  CHECK(all.prediction(4) ==
        "hcomp " + version + R"(: what compression would gain on 4 ranks; seconds of a call
  links send and receive at their rate at once, and wait for nothing; codecs as fast as here

  MPI_Allreduce of 1048576 float values on 4 ranks, from train+0x1234
  by rule 'float: thc bits=4 feedback=yes min=1MiB'
  838.86 kB instead of 6.29 MB sent per rank (7.50x)
  worst error 1.2e-03 (relative 4.5e-02) in 10 calls compared
  here a call took 15.30 ms, MPI's own 30.00 ms (1.96x)
      Gbit/s       plain  compressed     gain
           1    50.33 ms    12.71 ms    3.96x
          10     5.03 ms     6.67 ms    0.75x
          25     2.01 ms     6.27 ms    0.32x
         100    503.3 us     6.07 ms    0.08x
         400    125.8 us     6.02 ms    0.02x
)");
}

TEST_CASE("journal: without a comparison nothing is predicted") {
  journal all;
  all.add(fp16_site, passed(3, 1, 1));
  auto mpi = thc_site;
  mpi.strategy = "MPI";
  all.add(mpi, thc_stats(10));  // compared, but reduced by MPI
  CHECK(all.prediction(4) ==
        "hcomp: no reduction was compared with MPI's own, so nothing is known about gains\n");
}

TEST_CASE("journal: threads of a rank write concurrently") {
  journal all;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&all, t] {
      for (int i = 0; i < 500; ++i) all.add(t % 2 == 0 ? thc_site : fp16_site, passed(1, 1, 1));
    });
  for (auto& one : threads) one.join();
  journal expected;
  expected.add(thc_site, passed(1000, 1, 1));
  expected.add(fp16_site, passed(1000, 1, 1));
  CHECK(all.to_json() == expected.to_json());
}
