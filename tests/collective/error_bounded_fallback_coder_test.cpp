// optimise: -O1
/// @file
/// Codes of error_bounded_fallback by executors: the host's bytes, values and complaints.

#include <doctest/doctest.h>

#include <cmath>
#include <collective/coder.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <support/error_bounded.hpp>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <support/worker_executor.hpp>
#include <vector>

using hcomp::error_bounded_fallback;
using hcomp::testing::check_coder;
using hcomp::testing::check_damage;
using hcomp::testing::few_cases;
using hcomp::testing::guarded_executor;

namespace {

/// Blocks of integers of all widths, zeros, and what stays doubles, among them NaN and infinity.
template <class T> std::vector<T> of_all_forms(std::size_t n, std::uint64_t seed, double step) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = hcomp::mix(seed * 1000 + i);
    auto const form = static_cast<double>(hcomp::mix(seed * 77 + i / 32) % 8);
    double const laplace = bounded_values::laplace(seed, i);
    x[i] = static_cast<T>(form == 0 ? 0 : std::exp2(9 * form) * step * laplace);
    if (form == 7 && random % 40 == 1)
      x[i] = random % 80 == 1 ? -std::numeric_limits<T>::infinity()
                              : std::numeric_limits<T>::quiet_NaN();
  }
  return x;
}

template <class E, class T>
void check_forms(E& executor, error_bounded_fallback<T> const& codec, std::size_t n) {
  check_coder(executor, codec, of_all_forms<T>(n, n + 1, codec.step()),
              of_all_forms<T>(n, n + 2, codec.step()));
}

}  // namespace

TEST_CASE_TEMPLATE(
    "variable_rate_coder of error_bounded_fallback: the host's bytes and values, by any workers "
    "and "
    "threads",
    T, float, double) {
  workers::sharing_executor<5> five;
  workers::sharing_executor<32> warp;
  workers::sharing_executor<128> block;
  hcomp::host_executor one, three(3);
  hcomp::reference_executor threads(3);
  for (double const bound : few_cases ? std::vector{1e-3} : std::vector{1e-20, 1e-3, 1e4}) {
    error_bounded_fallback<T> const codec({.bound = bound, .ranks = 3});
    for (std::size_t const n : {0, 1, 31, 33, 1024, 1025, 5000, 17'000}) {
      CAPTURE(bound);
      CAPTURE(n);
      guarded_executor device;  // whose memory the host does not touch
      check_forms(device, codec, n);
      check_forms(one, codec, n);
      check_forms(three, codec, n);
      check_forms(threads, codec, n);
      if (n > 5000) continue;
      check_forms(five, codec, n);
      if (n == 5000) continue;
      check_forms(warp, codec, n);
      if (n == 1025 && bound == 1e-3) check_forms(block, codec, n);
    }
  }
}

TEST_CASE_TEMPLATE("variable_rate_coder of error_bounded_fallback: damage is told as on the host",
                   T, float, double) {
  error_bounded_fallback<T> const codec({.bound = 1e-3, .ranks = 3});
  for (std::size_t const n : {0, 33, 3000})
    check_damage(codec, of_all_forms<T>(n, 3, codec.step()));
}
