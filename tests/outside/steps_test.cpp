/// @file
/// A user's codec behaves like a built-in one.

#include "steps.hpp"

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <hcomp/hcomp.hpp>
#include <span>
#include <string>
#include <support/laws.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace laws {

template <class T> struct stated<outside::steps<T>> {
  static constexpr bool drawn = false, zero_is_neutral = true, rotated = false;
  static double value(auto const& codec, double x) {
    return std::clamp(x, -codec.step * (1 << 20), codec.step * (1 << 20));
  }
  static double rounding(double y) { return 0.5e-3 + std::fabs(y) * 0x1p-23; }
  static bool overflows(double) { return false; }
};

}  // namespace laws

TEST_CASE("a codec from outside: keeps the laws of blocks") {
  using codec = outside::steps<float>;
  laws::size<codec>();
  laws::round_trip<codec>();
  laws::sum<codec>();
  laws::headroom<codec>();
  laws::order<codec>();
  laws::tail<codec>();
  laws::key<codec>();
  laws::contradictions<codec>();
}

TEST_CASE("a codec from outside: plans by type and by name give the exact sum") {
  registered_codecs<float>().add(outside::steps_row<float>());
  CHECK_THROWS_WITH_AS(registered_codecs<float>().add(outside::steps_row<float>()),
                       "codec_registry: there is a codec 'steps' already", std::invalid_argument);
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < 4; ++rank) x.push_back(integer_values(5000, 1, rank));
  auto exact = x[0];
  for (int rank = 1; rank < 4; ++rank)
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += x[static_cast<std::size_t>(rank)][i];
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    for (bool const by_name : {false, true}) {
      CAPTURE(how);
      CAPTURE(by_name);
      auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
        host_executor executor;
        plan_options const options{.algorithm = algorithm::from(how)};
        if (by_name)
          make_plan<float>("steps:0.5", mine.size(), transport, executor, options).all_reduce(mine);
        else
          plan(mine.size(), outside::steps<float>{0.5}, transport, executor, options)
              .all_reduce(mine);
      });
      for (auto const& one : found) CHECK(first_difference(one, exact) == nowhere);
    }
}

TEST_CASE("a codec from outside: automatic_plan can choose it") {
  codec_registry<float> rows({outside::steps_row<float>()});
  run_ranks(3, [&](in_process& transport) {
    host_executor executor;
    automatic_plan<float> sum(
        1000, transport, executor,
        {.allowed = {.codecs = {"steps:0.5", "steps:0.25"}},
         .measuring = {.values = 10'000, .codec_seconds = 1e-3, .link_seconds = 1e-2}},
        rows);
    CHECK(sum.choices().size() == 2 * 4);
    CHECK(sum.chosen().codec.starts_with("steps:0."));
    CHECK(sum.costs().of("steps:0.5").block_bytes == 32 + 4 * 1024);
    std::vector<float> x(1000, 1.5f);
    sum.all_reduce(x);
    CHECK(x == std::vector<float>(1000, 4.5f));
  });
}
