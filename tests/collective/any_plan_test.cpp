
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;
constexpr std::size_t many = 5000;

std::vector<std::vector<float>> inputs() {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(many, 4, rank));
  return x;
}
/// The codec's name with its required settings.
std::string named(codec_info const& codec) {
  return codec.name == "error_bounded" ? "error_bounded:1e-3" : codec.name;
}
std::string text_of(std::string const& name) {
  return outcome_of([&] { codec_from(registered_codecs<float>(), name); }).text;
}

}  // namespace

TEST_CASE("codec registry: names are unique, and every entry describes itself") {
  std::set<std::string> names;
  registered_codecs<float>().for_each([&](codec_entry<float> const& row) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    for (auto const& other : row.also) CHECK(names.insert(other).second);
    CHECK_FALSE(row.about.empty());
    CHECK_FALSE(row.algorithms.empty());
    CHECK_FALSE((row.wants_feedback && !row.takes_feedback));
    for (auto const& key : row.keys) {
      CAPTURE(key.name);
      CHECK_FALSE(key.about.empty());
      CHECK(key.least < key.most);
      if (key.usual) CHECK(key.read(key.text(*key.usual)) == *key.usual);
    }
    // the canonical spelling reads back as itself
    auto const once = codec_from(registered_codecs<float>(), named(row));
    CHECK(codec_from(registered_codecs<float>(), once.text()).text() == once.text());
  });
  CHECK(registered_codecs<double>().find("thc"));
  CHECK_FALSE(registered_codecs<double>().find("inceptionn"));
}

TEST_CASE("codec names: settings by key or, for the first setting, by position") {
  auto const read = [](std::string const& text) {
    return codec_from(registered_codecs<float>(), text).text();
  };
  CHECK(read("thc") == "thc");
  CHECK(read("thc:bits=4") == "thc");  // the default
  CHECK(read("thc:2") == "thc:bits=2");
  CHECK(read("thc:transform=1024,bits=8") == "thc:bits=8,transform=1024");
  CHECK(read("thc:bits=4,hop_bits=8") == "thc:hop_bits=8");
  CHECK(read("uniform_thc:hop_bits=0") == "uniform_thc");
  CHECK(read("float_cast:bf16") == "bf16");
  CHECK(read("sparse") == "lossless_sparse");
  CHECK(read("error_bounded:2.5e-3") == "error_bounded:bound=0.0025");
  CHECK(read("inceptionn:6,fitted=no") == "inceptionn:E=6,fitted=no");
}

TEST_CASE("codec names: invalid settings are refused, and the text lists the valid ones") {
  CHECK(text_of("gzip").starts_with("no codec is called 'gzip'; hcomp has: identity, fp16, "));
  CHECK(text_of("").starts_with("no codec is called ''; "));
  CHECK(text_of("thc:bits=9") ==
        "codec 'thc:bits=9': 'bits=9': bits is a whole number from 1 to 8");
  CHECK(text_of("thc:bits=2.5") ==
        "codec 'thc:bits=2.5': 'bits=2.5': bits is a whole number from 1 to 8");
  CHECK(codec_from(registered_codecs<float>(), "thc bits=4 transform=64").text() ==
        codec_from(registered_codecs<float>(), "thc:bits=4,transform=64").text());
  CHECK(text_of("lossless_sparse:dense=1") ==
        "codec 'lossless_sparse:dense=1': 'dense=1': dense is yes or no");
  CHECK(text_of("thc:level=3") ==
        "codec 'thc:level=3': it has no key 'level'; it has: bits, granularity, truncation, "
        "transform, hop_bits");
  CHECK(text_of("thc:") == "codec 'thc:': '' is no key=value");
  CHECK(text_of("thc:2,") == "codec 'thc:2,': '' is no key=value");
  CHECK(text_of("thc:2,bits=3") == "codec 'thc:2,bits=3': 'bits' is given twice");
  CHECK(text_of("thc:2,3") == "codec 'thc:2,3': '3' is no key=value");
  CHECK(text_of("identity:4") == "codec 'identity:4': '4' is no key=value");
  CHECK(text_of("fp16:bits=4") == "codec 'fp16:bits=4': it has no key 'bits'; it has none");
  CHECK(text_of("error_bounded")
            .starts_with("codec 'error_bounded': it needs bound, largest error of a value of "
                         "the result: a number from "));
  // each setting is in range, but the combination is impossible
  CHECK(text_of("sparse:fixed=16") == "codec 'sparse:fixed=16': fixed is 0, 32 or 64, not 16");
  CHECK(text_of("thc:transform=100") ==
        "codec 'thc:transform=100': thc: transforms of 100 values asked for; powers of two from 64 "
        "to 16384 are possible");
  CHECK(text_of("thc:hop_bits=15") ==
        "codec 'thc:hop_bits=15': 'hop_bits=15': hop_bits is a whole number from 0 to 14");
  CHECK(text_of("thc:hop_bits=3") ==
        "codec 'thc:hop_bits=3': thc: sums in 3 bits asked for; with 4 bits of one rank 4 to 14 "
        "are possible, and 0: as many as they need");
}

TEST_CASE("any_plan: every codec with every algorithm of its entry gives all ranks the same bits") {
  registered_codecs<float>().for_each([](codec_entry<float> const& row) {
    for (auto const kind : row.algorithms) {
      algorithm const how{kind};
      CAPTURE(row.name);
      CAPTURE(how.name());
      auto const found = on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
        host_executor executor;
        auto sum = make_plan<float>(named(row), many, transport, executor, {.algorithm = how});
        auto moved = std::move(sum);
        CHECK(moved.values() == many);
        moved.set_magnitude(0.5);
        CHECK(moved.all_reduce(mine).weight == ranks);
      });
      for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
      CHECK(first_difference(found[0], inputs()[0]) != nowhere);
    }
  });
}

TEST_CASE("make_plan: without an algorithm in the options, uses the first one of its codec") {
  run_ranks(ranks, [](in_process& transport) {
    host_executor executor;
    std::vector<float> x(many, 1.0f);
    for (std::string const name : {"identity", "lossless_sparse"}) {
      auto const how = registered_codecs<float>().at(name).algorithms.front();
      auto const by_itself = make_plan<float>(name, many, transport, executor).all_reduce(x);
      auto const asked =
          make_plan<float>(name, many, transport, executor, {.algorithm = {how}}).all_reduce(x);
      auto const other = make_plan<float>(name, many, transport, executor,
                                          {.algorithm = algorithm::from("aggregator")})
                             .all_reduce(x);
      CAPTURE(name);
      CHECK(by_itself.bytes_sent == asked.bytes_sent);
      CHECK(by_itself.bytes_sent != other.bytes_sent);
    }
  });
  CHECK(registered_codecs<float>().at("lossless_sparse").algorithms.front() ==
        algorithm_kind::direct);
}

TEST_CASE(
    "any_plan: gives the bits of its codec's plan, also in two steps and with error feedback") {
  auto const summed = [](bool by_name, bool over_any) {
    return on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor(2);
      any_transport over(transport);
      error_feedback<float> feedback(many);
      auto const run = [&](auto& sum) {
        for (std::uint64_t step = 0; step < 3; ++step) {
          sum.all_reduce(mine, feedback, {.step = step, .op = reduce_op::mean});
          sum.reduce_scatter(mine, feedback, {.step = step});
          sum.all_gather(mine, {.step = step});
          mine[sum.shard().first] += 1;
        }
      };
      if (by_name) {
        auto sum = over_any ? make_plan<float>("thc:bits=2", many, over, executor)
                            : make_plan<float>("thc:bits=2", many, transport, executor);
        CHECK(sum.codec() == "thc:bits=2");
        run(sum);
      } else {
        plan sum(many, fit(thc<float>({.bits = 2}), ranks), transport, executor);
        run(sum);
      }
    });
  };
  auto const by_type = summed(false, false);
  CHECK(summed(true, false) == by_type);
  CHECK(summed(true, true) == by_type);
}

TEST_CASE(
    "any_plan: error feedback that a codec cannot use is refused on all ranks, and no rank waits") {
  for (bool const scatters : {false, true})
    for (std::string const name : {"inceptionn", "error_bounded:1e-3", "sparse"}) {
      CAPTURE(name);
      auto const outcomes = [&](std::string const& of_rank_1) {
        return outcomes_on(ranks, [&](in_process& transport) {
          host_executor executor;
          std::vector<float> x(many);
          error_feedback<float> feedback(many);
          auto sum = make_plan<float>(transport.rank() == 1 ? of_rank_1 : name, many, transport,
                                      executor, {.algorithm = {algorithm_kind::ring}});
          scatters ? sum.reduce_scatter(x, feedback) : sum.all_reduce(x, feedback);
        });
      };
      auto const alike = outcomes(name);
      CAPTURE(to_text(alike));
      CHECK(all_ended_alike(alike, "invalid_argument"));
      CHECK(alike[0].text.find("takes no feedback") != std::string::npos);
      CHECK(all_ended_alike(outcomes("thc"), "disagreement_error"));
    }
}
