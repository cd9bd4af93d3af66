// part: full
// optimise: -O1
// optimise sanitized: -O1
/// @file
/// As many sums of error_bounded as HCOMP_BOUND_VALUES says, of values of any size: none is further off
/// than its bound.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/merging_algorithms.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <support/number_in.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

__extension__ typedef __float128 float128;  ///< of 113 bits

template <class T> struct sizes {
  static constexpr bool is_float = std::is_same_v<T, float>;
  /// Bounds are 2^-97 to 2^97, which is 58 orders of magnitude, and 2^-890 to 2^890.
  static constexpr int most_bound = is_float ? 97 : 890;
  /// Values are up to so many powers of two above the bound, where a T is within it of any sum.
  static constexpr int most_above = is_float ? 19 : 45;
  /// And the others so many below the largest: all sums are exact in `wide`.
  static constexpr int most_below = is_float ? 24 : 50;
  using wide = std::conditional_t<is_float, double, float128>;
};

/// One sum of vectors that are drawn by `seed`.
/// @return how many values are further off than the bound
template <class T> std::size_t beyond_bound(std::uint64_t seed, std::size_t n) {
  random_numbers draws(seed, 100);
  int const ranks = draws.integer(2, 6),
            bound_power = draws.integer(-sizes<T>::most_bound, sizes<T>::most_bound),
            highest = bound_power + draws.integer(-2, sizes<T>::most_above),
            lowest = highest - draws.integer(0, sizes<T>::most_below),
            zeros_in_ten = draws.integer(0, 12) - 3;
  // Steps of doubles are powers of two: a little above one, the bound is used up.
  auto const bound =
      std::ldexp(draws.integer(0, 1) == 0 ? 1.001 : 1 + draws.uniform() / 2, bound_power);
  std::vector<std::vector<T>> x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    for (auto& value : x.emplace_back(n)) {
      if (numbers.integer(0, 9) < zeros_in_ten) continue;
      value = static_cast<T>(std::ldexp(numbers.uniform(), numbers.integer(lowest, highest)));
    }
  }
  auto const strategies = merging_algorithms(ranks);
  auto const& options = strategies[seed % strategies.size()];
  CAPTURE(seed);
  CAPTURE(ranks);
  CAPTURE(bound);
  CAPTURE(options.algorithm.name());
  std::vector<double> said(x.size());
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
    host_executor executor;
    plan sum(mine.size(), error_bounded<T>({.bound = bound}), transport, executor, options);
    said[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine).error;
  });
  for (auto const& one : found) CHECK(one == found[0]);
  CHECK(said[0] <= bound);
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < n; ++i) {
    typename sizes<T>::wide off = -found[0][i];
    for (auto const& mine : x) off += mine[i];
    beyond += off > bound || -off > bound;
  }
  CHECK(beyond == 0);
  return beyond;
}

}  // namespace

TEST_CASE_TEMPLATE("error bound: a campaign of sums of any size, and none is beyond it", T, float,
                   double) {
  std::size_t const wanted = number_in("HCOMP_BOUND_VALUES", 200'000), each = 20'000;
  std::size_t beyond = 0, sums = 0;
  for (std::uint64_t seed = 1; sums < wanted; ++seed, sums += each)
    beyond += beyond_bound<T>(seed, each);
  MESSAGE(sums << " sums, " << beyond << " beyond their bounds");
  CHECK(beyond == 0);
}
