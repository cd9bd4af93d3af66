#include <doctest/doctest.h>

#include <algorithm>
#include <c/settings.hpp>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/few_cases.hpp>
#include <utility>
#include <vector>

using namespace hcomp::drop_in;
using hcomp::algorithm;
using hcomp::algorithm_kind;

namespace {

rule only_rule(std::string_view text) {
  auto const all = settings::from(text);
  REQUIRE(all.rules.size() == 1);
  return all.rules.front();
}

std::string error_of(std::string_view text) {
  try {
    settings::from(text);
  } catch (std::invalid_argument const& what) {
    return what.what();
  }
  return "none";
}

struct refusal {
  std::string_view text, error;
};

}  // namespace

TEST_CASE("settings: an empty text has no rules, and nothing is taken from MPI") {
  for (std::string_view const text : {"", " ", ";", " ; \n;\t"}) {
    CAPTURE(text);
    auto const all = settings::from(text);
    CHECK(all == settings{});
    CHECK(all.text() == "");
    CHECK(all.find(value_type::float32, std::size_t{1} << 40, 1000) == nullptr);
  }
}

TEST_CASE("settings: a codec's keys follow it after a colon or a space, with the same meaning") {
  for (auto const& [colon, space] : std::vector<std::pair<std::string, std::string>>{
           {"thc:bits=4", "thc bits=4"},
           {"thc:bits=4,transform=64", "thc bits=4 transform=64"},
           {"error_bounded:1e-4", "error_bounded 1e-4"},
           {"thc:bits=2 algorithm=direct min=1MiB", "thc bits=2 algorithm=direct min=1MiB"},
           {"thc:bits=2,feedback=no", "thc bits=2 feedback=no"}})
    CHECK(only_rule("float: " + colon) == only_rule("float: " + space));
  CHECK(only_rule("float:thc:bits=4").spec.keys == "bits=4");
  for (std::string const wrong : {"thc:", "thc:bits=4,", "thc:,bits=4", "thc::bits=4"})
    CHECK_THROWS_AS(settings::from("float: " + wrong), std::invalid_argument);
}

TEST_CASE("settings: names from before 0.1.0 mean the same as today's names") {
  for (auto const& [old, today] : std::vector<std::pair<std::string, std::string>>{
           {"fp16 algorithm=doubling", "fp16 algorithm=recursive_doubling"},
           {"sign algorithm=owner", "sign algorithm=sampled"},
           {"fp16 algorithm=hierarchical:doubling",
            "fp16 algorithm=hierarchical:recursive_doubling"},
           {"fp16 when=quicker", "fp16 when=faster"},
           {"lossless_dense", "lossless"},
           {"lossless fixed=32", "lossless_sparse:fixed=32"},
           {"lossless algorithm=doubling", "lossless_sparse algorithm=recursive_doubling"},
           {"lossless dense=no packed=no", "lossless_sparse:dense=no,packed=no"}})
    CHECK(only_rule("float: " + old) == only_rule("float: " + today));
}

TEST_CASE("settings: every key ends where it belongs") {
  auto const thc = only_rule(
      "float: thc bits=3 feedback=no algorithm=torus:2x4 turns=5 threads=6 min=1MiB max=2GB "
      "ranks=7 check=8");
  CHECK(thc.type == value_type::float32);
  CHECK(thc.spec.codec == "thc");
  CHECK(thc.spec.keys == "bits=3");
  CHECK_FALSE(thc.spec.feedback);
  CHECK(thc.spec.algorithm == algorithm{algorithm_kind::torus, 2, 4});
  CHECK(thc.spec.turns == 5);
  CHECK(thc.spec.threads == 6);
  CHECK(thc.min_bytes == 1 << 20);
  CHECK(thc.max_bytes == 2'000'000'000);
  CHECK(thc.min_ranks == 7);
  CHECK(thc.check_every == 8);
  CHECK_FALSE(thc.if_faster);
  CHECK(only_rule("float: thc feedback=no when=faster").if_faster);
  CHECK(only_rule("float: thc").takes_device);
  CHECK_FALSE(only_rule("float: thc device=no").takes_device);
  CHECK_FALSE(only_rule("float: thc when=always").if_faster);
  CHECK(only_rule("double: sign algorithm=sampled").type == value_type::float64);
  CHECK(only_rule("double: sign algorithm=sampled").spec.algorithm.kind == algorithm_kind::sampled);
  CHECK(only_rule("float: inceptionn E=6").spec.keys == "E=6");
  CHECK(only_rule("float: error_bounded bound=2.5e-3").spec.keys == "bound=0.0025");
  CHECK(only_rule("float: error_bounded 1e-4 algorithm=direct").spec.keys == "bound=1e-04");
  auto const program = settings::from("nonblocking=yes; feedback_memory = 3KiB; shadow=12");
  CHECK(program.nonblocking);
  CHECK(program.feedback_bytes == 3072);
  CHECK(program.shadow_calls == 12);
}

TEST_CASE("settings: defaults are as documented") {
  for (auto const& codec : codec_names()) {
    CAPTURE(codec);
    auto const text = (codec == "lossless_integers" ? "int32: " : "float: ") + codec +
                      (codec == "error_bounded" ? " bound=1" : "");
    auto const one = only_rule(text);
    CHECK(one.spec.codec == codec);
    CHECK(one.spec.feedback ==
          (codec.starts_with("sign") || codec.ends_with("thc") || codec == "top_k"));
    CHECK(one.spec.algorithm.kind == (codec == "lossless_sparse" || codec == "top_k"
                                          ? algorithm_kind::direct
                                          : algorithm_kind::ring));
    CHECK(one.min_bytes == (codec == "none" ? 0 : 65536));
    CHECK(one.max_bytes == static_cast<std::size_t>(-1));
    CHECK(one.min_ranks == 2);
    CHECK(one.check_every == 0);
    CHECK_FALSE(one.if_faster);
    CHECK(one.spec.turns == 1);
    CHECK(one.spec.threads == 1);
    CHECK_FALSE(about_codec(codec).empty());
  }
  CHECK(codec_names().size() == 15);
  CHECK(about_codec("gzip").empty());
}

TEST_CASE("settings: the first rule that matches a vector applies") {
  auto const all = settings::from(
      "float: none max=1000; float: thc min=1MiB ranks=4; float: fp16 min=10; double: bf16");
  auto const codec = [&](value_type type, std::size_t bytes, int ranks) {
    auto const* const one = all.find(type, bytes, ranks);
    return one ? one->spec.codec : "MPI's own";
  };
  using enum value_type;
  CHECK(codec(float32, 0, 2) == "none");
  CHECK(codec(float32, 1000, 2) == "none");
  CHECK(codec(float32, 1001, 2) == "fp16");
  CHECK(codec(float32, (1 << 20) - 1, 4) == "fp16");
  CHECK(codec(float32, 1 << 20, 4) == "thc");
  CHECK(codec(float32, 1 << 20, 3) == "fp16");
  CHECK(codec(float32, 1001, 1) == "MPI's own");
  CHECK(codec(float64, 65535, 2) == "MPI's own");
  CHECK(codec(float64, 65536, 2) == "bf16");
}

TEST_CASE("settings: the reason why no rule matches a vector") {
  auto const all =
      settings::from("float: thc max=2000 min=1000 ranks=4; float: fp16 min=1MiB max=2MiB");
  auto const why = [&](value_type type, std::size_t bytes, int ranks) {
    REQUIRE(all.find(type, bytes, ranks) == nullptr);
    return std::string(all.why_none(type, bytes, ranks));
  };
  using enum value_type;
  CHECK(why(float64, 1 << 20, 4) == "no rule for this type");
  CHECK(why(float32, 1 << 20, 1) == "fewer ranks than any rule asks for");
  CHECK(why(float32, 999, 4) == "smaller than min of its rules (default 64KiB)");
  CHECK(why(float32, 1500, 3) == "smaller than min of its rules (default 64KiB)");
  CHECK(why(float32, 3 << 20, 4) == "larger than max of its rules");
  CHECK(why(float32, 2001, 4) == "no rule for this size");
}

TEST_CASE("settings: `all` means both types, but float alone if the codec is for float only") {
  auto const both = settings::from("all: fp16").rules;
  REQUIRE(both.size() == 2);
  CHECK(both[0].type == value_type::float32);
  CHECK(both[1].type == value_type::float64);
  for (std::string_view const text : {"all: lossless_sparse", "all: inceptionn"}) {
    CAPTURE(text);
    CHECK(only_rule(text).type == value_type::float32);
  }
  CHECK(settings::from("all: error_bounded 1e-3 magnitude_bits=20").rules.size() == 2);
}

TEST_CASE("settings: integers have rules of their own, of codecs for integers") {
  auto const all = settings::from(
      "int32: none max=1000; int32: lossless_integers min=0; int64: lossless_integers; "
      "all: fp16");
  using enum value_type;
  REQUIRE(all.rules.size() == 5);
  CHECK(all.text() ==
        "int32: none max=1000; int32: lossless_integers min=0; "
        "int64: lossless_integers min=64KiB; float: fp16 min=64KiB; double: fp16 min=64KiB");
  CHECK(all.find(int32, 1000, 2)->spec.codec == "none");
  CHECK(all.find(int32, 1001, 2)->spec.codec == "lossless_integers");
  CHECK(all.find(int64, 65535, 2) == nullptr);
  CHECK(all.find(int64, 65536, 2)->spec.codec == "lossless_integers");
  CHECK(all.find(float32, 65536, 2)->spec.codec == "fp16");
  CHECK(settings::from("all: fp16").why_none(int64, 65536, 2) ==
        std::string("no rule for this type"));
  CHECK(size_of(int32) == 4);
  CHECK(size_of(int64) == 8);
}

TEST_CASE("settings: spaces and the spelling of a size change nothing") {
  auto const plain = settings::from("float: thc bits=4 min=1048576;double:none");
  CHECK(settings::from("\n float :thc\tmin=1MiB  bits=4\n ;; double:\tnone ; ") == plain);
  CHECK(settings::from("float: thc min=1024KiB; double: none").text() == plain.text());
  CHECK(plain.text() == "float: thc:bits=4 feedback=yes min=1MiB; double: none");
}

TEST_CASE("settings: sizes") {
  struct {
    std::string_view text;
    std::size_t bytes;
  } const sizes[] = {{"0", 0},
                     {"1", 1},
                     {"64KiB", 65536},
                     {"3MiB", 3145728},
                     {"1GiB", 1073741824},
                     {"5kB", 5000},
                     {"6MB", 6000000},
                     {"7GB", 7000000000},
                     {"18446744073709551615", static_cast<std::size_t>(-1)},
                     {"17179869183GiB", static_cast<std::size_t>(-1) - ((1 << 30) - 1)}};
  for (auto const& one : sizes) {
    CAPTURE(one.text);
    CHECK(only_rule("float: fp16 min=" + std::string(one.text)).min_bytes == one.bytes);
  }
  for (std::string_view const text :
       {"KiB", "-1", "1.5MiB", "1 KiB", "1kiB", "1KB", "1MiBs", "0x10", "18446744073709551616",
        "17179869184GiB", "18446744073709552kB"}) {
    CAPTURE(text);
    auto const error = error_of("float: fp16 min=" + std::string(text));
    CHECK(error.find("'float: fp16 min=" + std::string(text) + "'") != error.npos);
    CHECK(error.find(text.find(' ') == text.npos ? "'min=" + std::string(text) + "': " : "'KiB'") !=
          error.npos);
  }
}

TEST_CASE("settings: text() is complete, and equal settings have equal texts") {
  std::vector<std::string> texts{"",
                                 "nonblocking=yes",
                                 "nonblocking=no",
                                 "shadow=3; feedback_memory=0",
                                 "feedback_memory=1GiB",
                                 "feedback_memory=1000000001",
                                 "float: none",
                                 "float: none min=64KiB",
                                 "double: none max=1 ranks=1",
                                 "all: none; shadow=1",
                                 "float: thc min=64KiB",
                                 "all: fp16 when=always",
                                 "all: fp16 when=faster",
                                 "all: fp16 device=yes",
                                 "all: fp16 device=no",
                                 "double: sign feedback=no check=3 when=faster min=0",
                                 "float: thc; all: fp16; double: none min=0"};
  std::vector<std::string> const strategies{"",
                                            " algorithm=ring",
                                            " algorithm=torus",
                                            " algorithm=torus:3x2",
                                            " algorithm=direct",
                                            " algorithm=recursive_doubling",
                                            " algorithm=sampled"};
  std::vector<std::string> const keys{"",
                                      " bits=4",
                                      " bits=8",
                                      " E=10",
                                      " E=3",
                                      " bound=0.1",
                                      " bound=8.1e-28",
                                      " bound=3.3333333333333335e-7",
                                      " feedback=yes",
                                      " feedback=no"};
  std::vector<std::string> common{
      "", " turns=2", " threads=3 min=0", " min=65537 max=65537", " max=4GiB", " ranks=5 check=9"};
  std::size_t for_none = 3;  // of those: without turns, threads and checks
  if (hcomp::testing::few_cases) {
    common = {" threads=3 min=0", " min=65537 max=65537"};
    for_none = 1;
  }
  for (std::string const type : {"float: ", "double: ", "all: ", "int32: ", "int64: "})
    for (auto const& codec : codec_names())
      for (auto const& strategy : strategies)
        for (auto const& key : keys)
          for (auto const& more : common) {
            auto const text = type + codec + strategy + key + more;
            if (error_of(text) == "none") texts.push_back(text);
          }
  // Counted by hand: (float, all) none; identity, fp16, bf16, reproducible, lossless 6 algorithms;
  // sign 7 algorithms * 3 keys, sign_count 6 * 3; thc, uniform_thc 6 algorithms * 5 keys; top_k 6
  // algorithms * 3 keys; inceptionn 5 algorithms * 3 keys; error_bounded 5 algorithms * 3 keys;
  // lossless 5 algorithms; all with `common`. double has not lossless, top_k and inceptionn.
  // (int32, int64) none, lossless_integers 5 algorithms.
  std::size_t const n = common.size(),
                    both = for_none + n * (4 * 6 + 7 * 3 + 6 * 3 + 2 * 6 * 5 + 5 * 3 + 5),
                    float_only = n * (6 + 6 * 3 + 5 * 3), integers = for_none + n * 5;
  CHECK(texts.size() == 17 + 3 * both + 2 * float_only + 2 * integers);

  std::vector<std::pair<std::string, settings>> seen;
  for (auto const& text : texts) {
    CAPTURE(text);
    auto const all = settings::from(text);
    auto const canonical = all.text();
    CAPTURE(canonical);
    REQUIRE(settings::from(canonical) == all);
    REQUIRE(settings::from(canonical).text() == canonical);
    seen.emplace_back(canonical, all);
  }
  std::ranges::sort(seen, {}, &std::pair<std::string, settings>::first);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    CAPTURE(seen[i].first);
    if (seen[i].first == seen[i - 1].first) REQUIRE(seen[i].second == seen[i - 1].second);
  }
}

TEST_CASE("settings: a codec's text contains the parameters that differ from its defaults") {
  CHECK(only_rule("float: thc").spec.text() == "thc:bits=4 feedback=yes");
  for (std::string const text :
       {"fp16 algorithm=hierarchical", "fp16 algorithm=hierarchical:direct",
        "lossless_sparse algorithm=hierarchical:torus:2x2",
        "lossless_sparse algorithm=hierarchical",
        "lossless_sparse algorithm=hierarchical:direct"}) {
    auto const sum = only_rule("float: " + text).spec;
    CHECK(sum.algorithm.hierarchical);
    CHECK(sum.text() == text);
  }
  CHECK(only_rule("float: fp16 algorithm=hierarchical:ring").spec.text() ==
        "fp16 algorithm=hierarchical");
  CHECK(only_rule("float: sign feedback=no algorithm=sampled").spec.text() ==
        "sign feedback=no algorithm=sampled");
  CHECK(only_rule("float: lossless_sparse").spec.text() == "lossless_sparse");
  CHECK(only_rule("float: inceptionn threads=2").spec.text() == "inceptionn:E=10 threads=2");
  CHECK(only_rule("float: error_bounded 0.001").spec.text() == "error_bounded:bound=0.001");
  CHECK(only_rule("float: thc 2 transform=1024").spec.text() ==
        "thc:bits=2,transform=1024 feedback=yes");
  CHECK(only_rule("float: sparse fixed=32").spec.text() == "lossless_sparse:fixed=32");
  CHECK(only_rule("float: fp16 max=2KiB min=1").text() == "float: fp16 min=1 max=2KiB");
}

TEST_CASE("settings: an error names the clause, the word, and the words allowed there") {
  refusal const refusals[] = {
      {"float: fp16; double: thcc",
       "HCOMP_CONFIG: clause 2 'double: thcc': no codec is called 'thcc'; there are: none, "
       "identity, fp16, bf16, sign, sign_count, thc, uniform_thc, reproducible, error_bounded, "
       "lossless"},
      {"float: thcc:bits=2",
       "HCOMP_CONFIG: clause 1 'float: thcc:bits=2': no codec is called 'thcc'; "
       "there are: none, identity, fp16, bf16, sign, sign_count, "
       "thc, uniform_thc, reproducible, lossless_sparse, top_k, inceptionn, error_bounded, "
       "lossless"},
      {"half: thc",
       "HCOMP_CONFIG: clause 1 'half: thc': no type is called 'half'; there are: float, double, "
       "int32, int64, all"},
      {"int64:",
       "HCOMP_CONFIG: clause 1 'int64:': a codec is missing behind the ':'; there are: none, "
       "lossless_integers"},
      {"int32: gzip",
       "HCOMP_CONFIG: clause 1 'int32: gzip': no codec is called 'gzip'; there are: none, "
       "lossless_integers"},
      {"int32: thc",
       "HCOMP_CONFIG: clause 1 'int32: thc': codec 'thc' is for float and double, not for int32; "
       "there are: none, lossless_integers"},
      {"all: lossless_integers",
       "HCOMP_CONFIG: clause 1 'all: lossless_integers': codec 'lossless_integers' is for int32 "
       "and int64, not for float and double; there are: none, identity, fp16, bf16, sign, "
       "sign_count, thc, uniform_thc, reproducible, lossless_sparse, top_k, inceptionn, "
       "error_bounded, "
       "lossless"},
      {"float:",
       "HCOMP_CONFIG: clause 1 'float:': a codec is missing behind the ':'; there are: none, "
       "identity, fp16, bf16, sign, sign_count, thc, uniform_thc, reproducible, lossless_sparse, "
       "top_k, "
       "inceptionn, error_bounded, lossless"},
      {"thc",
       "HCOMP_CONFIG: clause 1 'thc': it is neither 'TYPE: CODEC KEY=VALUE...', where TYPE is "
       "one of float, double, int32, int64, all, nor 'KEY=VALUE'"},
      {"float: thc;; min=4",
       "HCOMP_CONFIG: clause 3 'min=4': for the whole program there is no key 'min'; there are: "
       "nonblocking, feedback_memory, shadow; 'min' goes into a rule, such as 'float: thc "
       "min=...', without ';' before it"},
      {"blocking=no",
       "HCOMP_CONFIG: clause 1 'blocking=no': for the whole program there is no key 'blocking'; "
       "there are: nonblocking, feedback_memory, shadow"},
      {"float: sign bits=2",
       "HCOMP_CONFIG: clause 1 'float: sign bits=2': 'bits=2': codec 'sign' has no key 'bits'; "
       "there are: feedback, algorithm, turns, threads, min, max, ranks, when, device, check"},
      {"all: none check=1",
       "HCOMP_CONFIG: clause 1 'all: none check=1': 'check=1': codec 'none' has no key 'check'; "
       "there are: min, max, ranks"},
      {"float: thc bits=9",
       "HCOMP_CONFIG: clause 1 'float: thc bits=9': 'bits=9': bits is a whole number from 1 to 8"},
      {"float: thc bits = 4",
       "HCOMP_CONFIG: clause 1 'float: thc bits = 4': 'bits' is no key=value; there must be no "
       "space beside the '='"},
      {"float: thc feedback=on",
       "HCOMP_CONFIG: clause 1 'float: thc feedback=on': 'feedback=on': feedback is yes or no"},
      {"float: fp16 min=1 min=1",
       "HCOMP_CONFIG: clause 1 'float: fp16 min=1 min=1': 'min=1': 'min' stands here a second "
       "time"},
      {"shadow=1; shadow=1",
       "HCOMP_CONFIG: clause 2 'shadow=1': 'shadow=1': 'shadow' stands here a second time"},
      {"float: fp16 min=2KiB max=2kB",
       "HCOMP_CONFIG: clause 1 'float: fp16 min=2KiB max=2kB': min is 2048 bytes and max 2000, so "
       "it is for no vector"},
      {"float: lossless_sparse algorithm=sampled",
       "HCOMP_CONFIG: clause 1 'float: lossless_sparse algorithm=sampled': 'algorithm=sampled': "
       "codec "
       "'lossless_sparse' supports the algorithms direct, ring, torus, torus:RxC, "
       "recursive_doubling, aggregator"},
      {"float: inceptionn algorithm=recursive_doubling",
       "HCOMP_CONFIG: clause 1 'float: inceptionn algorithm=recursive_doubling': "
       "'algorithm=recursive_doubling': codec "
       "'inceptionn' supports the algorithms ring, torus, torus:RxC, direct, aggregator"},
      {"float: thc algorithm=sampled",
       "HCOMP_CONFIG: clause 1 'float: thc algorithm=sampled': 'algorithm=sampled': codec 'thc' "
       "supports the algorithms ring, torus, torus:RxC, direct, recursive_doubling, aggregator"},
      {"float thc bits=4",
       "HCOMP_CONFIG: clause 1 'float thc bits=4': a ':' is missing behind 'float'"},
      {"all thc:bits=4", "HCOMP_CONFIG: clause 1 'all thc:bits=4': a ':' is missing behind 'all'"},
      {"float: error_bounded",
       "HCOMP_CONFIG: clause 1 'float: error_bounded': codec 'error_bounded': it needs bound, "
       "largest error of a value of the result: a number from 8.08e-28 to 1.27e+30; or rel, bound "
       "as a share of the largest value: a number from 8.67e-19 to 1"},
      {"float: error_bounded 1e-4 rel=1e-4",
       "HCOMP_CONFIG: clause 1 'float: error_bounded 1e-4 rel=1e-4': codec 'error_bounded': it "
       "takes bound or rel, not both"},
      {"float: thc transform=100",
       "HCOMP_CONFIG: clause 1 'float: thc transform=100': codec 'thc': thc: transforms of 100 "
       "values asked for; powers of two from 64 to 16384 are possible"},
      {"float: thc granularity=256",
       "HCOMP_CONFIG: clause 1 'float: thc granularity=256': 'granularity=256': granularity is a "
       "whole number from 0 to 255"},
      {"double: fp16 bits=3",
       "HCOMP_CONFIG: clause 1 'double: fp16 bits=3': 'bits=3': codec 'fp16' has no key 'bits'; "
       "there are: algorithm, turns, threads, min, max, ranks, when, device, check"},
      {"float: error_bounded 1e-4 bound=1e-4",
       "HCOMP_CONFIG: clause 1 'float: error_bounded 1e-4 bound=1e-4': 'bound=1e-4': 'bound' "
       "stands here a second time"},
      {"double: lossless_sparse",
       "HCOMP_CONFIG: clause 1 'double: lossless_sparse': codec 'lossless_sparse' is for float "
       "only, not for "
       "double; there are: none, identity, fp16, bf16, sign, sign_count, thc, uniform_thc, "
       "reproducible, error_bounded, lossless"},
      {"float: thc ranks=4; float: fp16 min=1MiB ranks=4",
       "HCOMP_CONFIG: clause 2 'float: fp16 min=1MiB ranks=4': it never counts, because clause 1 "
       "'float: thc ranks=4' takes all of its vectors"},
      {"int64: lossless_integers when=slower",
       "HCOMP_CONFIG: clause 1 'int64: lossless_integers when=slower': 'when=slower': when is "
       "always "
       "or faster"},
      {"float: sign when=faster",
       "HCOMP_CONFIG: clause 1 'float: sign when=faster': when=faster conflicts with "
       "feedback=yes, the default of 'sign': all-reduces left to MPI would omit the residual; set "
       "feedback=no or when=always"},
      {"double: thc:bits=1,truncation=0.03125",
       "HCOMP_CONFIG: clause 1 'double: thc:bits=1,truncation=0.03125': codec "
       "'thc:bits=1,granularity=1,truncation=0.03125' loses 3.702 of a vector's energy, and error "
       "feedback works below 0.75; set feedback=no or other keys"},
      {"float: none when=faster",
       "HCOMP_CONFIG: clause 1 'float: none when=faster': 'when=faster': codec 'none' has no key "
       "'when'; there are: min, max, ranks"},
      {"all: fp16; all: lossless_sparse",
       "HCOMP_CONFIG: clause 2 'all: lossless_sparse': it never counts, because clause 1 'all: "
       "fp16' "
       "takes all of its vectors"}};
  for (auto const& one : refusals) {
    CAPTURE(one.text);
    CHECK(error_of(one.text) == one.error);
  }
  CHECK(error_of("float: thc bits=1 truncation=0.03125 feedback=no") == "none");
  CHECK(error_of("float: thc bits=1") == "none");
  CHECK(error_of("float: fp16 algorithm=star").find("no algorithm is called 'star'") !=
        std::string::npos);
  for (std::string_view const codec : {"lossless_sparse", "inceptionn", "top_k"})
    CHECK(error_of("double: " + std::string(codec)).find("for float only") != std::string::npos);
}

TEST_CASE("settings: values out of range are refused") {
  for (std::string_view const text : {"thc bits=0",
                                      "thc bits=4x",
                                      "thc bits=",
                                      "thc =4",
                                      "thc bits=99999999999999999999",
                                      "inceptionn E=0",
                                      "inceptionn E=15",
                                      "error_bounded 0",
                                      "error_bounded -1",
                                      "error_bounded inf",
                                      "error_bounded nan",
                                      "error_bounded 1e999",
                                      "error_bounded 1e-4x",
                                      "error_bounded bound=1e-999",
                                      "error_bounded 8e-28",
                                      "error_bounded 1.3e30",
                                      "fp16 turns=0",
                                      "fp16 turns=1000001",
                                      "fp16 threads=0",
                                      "fp16 threads=1025",
                                      "fp16 check=-1",
                                      "fp16 ranks=0",
                                      "fp16 algorithm=torus:0x4",
                                      "fp16 feedback=yes",
                                      "fp16 fp16",
                                      "none algorithm=ring",
                                      "fp16 E=3"}) {
    CAPTURE(text);
    auto const error = error_of("float: " + std::string(text));
    CHECK(error.starts_with("HCOMP_CONFIG: clause 1 'float: " + std::string(text) + "': "));
  }
  for (std::string_view const text :
       {"nonblocking=maybe", "shadow=-1", "feedback_memory=much", "=", "=yes", "shadow="}) {
    CAPTURE(text);
    CHECK(error_of(text).starts_with("HCOMP_CONFIG: clause 1 '"));
  }
}

TEST_CASE("settings: help() names every codec and key, at 100 columns") {
  auto const text = help();
  for (auto const& codec : codec_names()) CHECK(text.find("\n  " + codec) != text.npos);
  for (std::string const key :
       {"min", "max", "ranks", "algorithm", "bits", "E", "bound", "rel", "feedback", "turns",
        "threads", "when", "check", "nonblocking", "feedback_memory", "shadow"})
    CHECK(text.find("\n  " + key + "=") != text.npos);
  for (std::size_t begin = 0; begin < text.size();) {
    auto const end = text.find('\n', begin);
    REQUIRE(end != text.npos);
    CHECK_MESSAGE(end - begin <= 100, text.substr(begin, end - begin));
    begin = end + 1;
  }
}

TEST_CASE("settings: no text crashes the parser") {
  // Words of the language in random order, from a fixed seed.
  std::uint32_t state = 20240607;
  auto const next = [&](std::uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  std::vector<std::string_view> const words{"float",
                                            "all",
                                            ":",
                                            ";",
                                            "=",
                                            " ",
                                            "thc",
                                            "fp16",
                                            "error_bounded",
                                            "bits",
                                            "min",
                                            "max",
                                            "1e-4",
                                            "64KiB",
                                            "7",
                                            "shadow",
                                            "algorithm",
                                            "torus:2x2",
                                            "yes",
                                            "none",
                                            "\n",
                                            "-",
                                            "lossless_sparse",
                                            "bits=3 ",
                                            "float: ",
                                            "double: ",
                                            "int64: ",
                                            "lossless_integers"};
  int understood = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = next(9); n-- > 0;) text += words[next(static_cast<std::uint32_t>(words.size()))];
    auto const error = error_of(text);
    if (error == "none") {
      ++understood;
      CAPTURE(text);
      auto const all = settings::from(text);
      REQUIRE(settings::from(all.text()) == all);
    } else {
      REQUIRE(error.starts_with("HCOMP_CONFIG: clause "));
    }
  }
  CHECK(understood > 100);
}

TEST_CASE("settings for NCCL: types, codecs and keys") {
  auto const from = [](std::string_view text) { return settings::from(text, calls_of::nccl); };
  auto const all = from("all: thc:bits=4 min=1MiB; feedback_memory=2GiB");
  REQUIRE(all.rules.size() == 3);
  CHECK(all.rules[0].type == value_type::float32);
  CHECK(all.rules[1].type == value_type::float16);
  CHECK(all.rules[2].type == value_type::bfloat16);
  CHECK_FALSE(all.rules[0].spec.feedback);
  CHECK(from(all.text()) == all);
  CHECK(from("bfloat16: sign feedback=yes").rules[0].spec.feedback);
  CHECK(from("float: fp16 algorithm=hierarchical").rules[0].spec.algorithm.hierarchical);
  struct {
    char const *text, *error;
  } const cases[] = {
      {"double: fp16", "no type is called 'double'; there are: float, float16, bfloat16, all"},
      {"float: lossless",
       "codec 'lossless' has no fixed rate; over NCCL there are: none, identity"},
      {"float: fp16 algorithm=ring", "over NCCL algorithm is hierarchical"},
      {"float: fp16 when=faster", "codec 'fp16' has no key 'when'; there are: algorithm, min, max"},
      {"shadow=3", "over NCCL the whole program has the key feedback_memory only"}};
  for (auto const& one : cases)
    CHECK_THROWS_WITH_AS(from(one.text), doctest::Contains(one.error), std::invalid_argument);
}
