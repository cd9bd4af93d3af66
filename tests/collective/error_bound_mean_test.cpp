// max_simd: avx2 baseline
/// @file
/// Means of error_bounded: wherever a float is within bound / P of the exact mean, the result is.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <string>
#include <support/few_cases.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

struct verdict {
  std::size_t beyond = 0;      ///< further off than the bound, although a float is within it
  std::size_t impossible = 0;  ///< no float is within the bound
  std::size_t unreported = 0;  ///< further off than the report says
  std::size_t flagged = 0;     ///< reports of is_beyond_bound()
};

/// Means of values of `ranks` ranks, all within 1/8 of `center`: their sums are exact in long
/// double.
verdict judge(int ranks, double center, double bound, std::uint64_t seed,
              std::string const& how = "ring") {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank)
    for (auto& value : x.emplace_back(uniform_values(few_cases ? 300 : 3000, seed, rank)))
      value = static_cast<float>(center * (1 + value / 8));
  report stats;
  auto const found = on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan mean(mine.size(), error_bounded({.bound = bound}), transport, executor,
              plan_options{.algorithm = algorithm::from(how)});
    auto const one = mean.all_reduce(std::span(mine), {.op = reduce_op::mean});
    if (transport.rank() == 0) stats = one;
  });
  CHECK(stats.bound == bound / ranks);
  // fallback_grid: a bound next to a power of two may be missed by 2^-20 of itself
  long double const limit = static_cast<long double>(bound) / ranks * (1 + 0x1p-20L);
  verdict all;
  all.flagged = stats.is_beyond_bound();
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    long double exact = 0;
    for (auto const& mine : x) exact += static_cast<long double>(mine[i]);
    exact /= ranks;
    auto const off = [&](float value) { return std::abs(static_cast<long double>(value) - exact); };
    bool const is_possible = off(static_cast<float>(exact)) <= limit;
    all.impossible += !is_possible;
    all.beyond += is_possible && off(found[0][i]) > limit;
    all.unreported += off(found[0][i]) > static_cast<long double>(stats.error);
  }
  return all;
}

}  // namespace

TEST_CASE("error bound of means: within it wherever a float is, for floats near the bound") {
  std::size_t means = 0, impossible = 0, flagged = 0;
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (double const center : {50.0, 300.0, -700.0})
      for (double const steps : {0.3, 0.6, 0.75, 1.0, 1.1, 1.3, 1.7, 1.9, 1.99, 2.0, 3.5}) {
        // a bound of the mean in half units in the last place of the center
        int exponent;
        std::frexp(center, &exponent);
        double const bound = ranks * steps * std::ldexp(1.0, exponent - 25);
        CAPTURE(ranks);
        CAPTURE(center);
        CAPTURE(steps);
        auto const all =
            judge(ranks, center, bound, means, means % 3 == 0 ? "aggregator" : "direct");
        ++means;
        CHECK(all.beyond == 0);
        CHECK(all.unreported == 0);
        impossible += all.impossible;
        flagged += all.flagged;
      }
  std::printf("%zu calls, %zu reported beyond the bound\n", means, flagged);
  CHECK(impossible > 0);
  CHECK(flagged < means / 2);
}

TEST_CASE("error bound of means: never reported beyond it where floats are dense") {
  for (int const ranks : {2, 3, 7})
    for (double const center : {0.01, 1.0, 10.0}) {
      CAPTURE(ranks);
      CAPTURE(center);
      for (auto const how : {"ring", "direct", "aggregator"}) {
        auto const all = judge(ranks, center, 1e-3, 5, how);
        CHECK(all.beyond == 0);
        CHECK(all.impossible == 0);
        CHECK(all.unreported == 0);
        CHECK(all.flagged == 0);
      }
    }
}
