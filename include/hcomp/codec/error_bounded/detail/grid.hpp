#pragma once
/// @file
/// The integers that error_bounded makes of floats, and what becomes of floats that are too
/// large for them.

#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

/// Multiples of a step, the same on all ranks.
///
/// Let E be the bound of P ranks, d = 2^(magnitude_bits - 23), and the step at most
/// 2 (1 - d) E / P. Every rank is off by half a step, in all (1 - d) E. The integer sum Q is exact,
/// and |Q| < P * 2^magnitude_bits; so |Q * step| < 2^(24 - 23 + magnitude_bits) (1 - d) E, and
/// rounding it to float adds at most 2^-24 of that: d (1 - d) E. Together that is (1 - d^2) E; what
/// is left is far more than the roundings of double, 2^-50 E, can take.
struct step_grid {
  double step;
  /// 1 / step, of so few bits that its product with any float is exact: then it makes no
  /// difference whether a compiler fuses multiplications with additions.
  double inverse;
  std::int32_t limit;  ///< the largest integer of one rank
  /// Bits of the largest power of two not above limit * step: of the floats below it, there are
  /// none that are not integers here, and more of them than sums can have values.
  std::uint32_t first_float;

  step_grid(double bound_per_rank, int magnitude_bits)
      : limit((std::int32_t{1} << magnitude_bits) - 1) {
    double const wanted = 2 * bound_per_rank * (1 - std::ldexp(1.0, magnitude_bits - 23));
    constexpr std::uint64_t unused = (std::uint64_t{1} << 24) - 1;
    inverse = same_bits<double>((same_bits<std::uint64_t>(1 / wanted) + unused) & ~unused);
    step = 1 / inverse;
    auto const exponent = same_bits<std::uint64_t>(limit * step) >> 52;
    first_float = static_cast<std::uint32_t>(exponent - 1023 + 127) << 23;
  }
};

inline constexpr std::int32_t no_integer = 0x7fffffff;

/// The nearest integer, ties to even, of what is less than 2^31; of others any.
HCOMP_HD inline std::int32_t rounded_multiple(double multiple) {
  // 1.5 * 2^52: the sum's last bits are the integer, whatever the compiler may assume of floats
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(same_bits<std::uint64_t>(multiple + 0x1.8p52)));
}
/// What `multiple` is more than its rounded_multiple q, if it has one.
HCOMP_HD inline double off_by(double multiple, [[maybe_unused]] std::int32_t q) {
#if defined(__CUDA_ARCH__)  // to convert q takes four times as long as to add
  return multiple - (multiple + 0x1.8p52 - 0x1.8p52);
#else
  return multiple - q;
#endif
}
/// That of x in steps; none if it is beyond the limit or x is not finite.
HCOMP_HD inline std::int32_t nearest_integer(step_grid const& grid, float x) {
  constexpr std::int32_t none = no_integer;
  double const multiple = static_cast<double>(x) * grid.inverse;
  if (!is_finite(x) || std::fabs(multiple) > grid.limit + 1) return none;
  std::int32_t const q = rounded_multiple(multiple);
  return q > grid.limit || q < -grid.limit ? none : q;
}

/// What an integer stands for.
HCOMP_HD inline float float_of(step_grid const& grid, std::int32_t q) {
  return static_cast<float>(q * grid.step);
}

// ---- Words: an integer or a float, in 32 bits. Magnitudes below first_float are those of
// integers.

HCOMP_HD inline std::uint32_t word_of(std::int32_t q) {
  return q < 0 ? 0x80000000u | (0u - static_cast<std::uint32_t>(q)) : static_cast<std::uint32_t>(q);
}
HCOMP_HD inline bool is_integer(step_grid const& grid, std::uint32_t word) {
  return (word & 0x7fffffffu) < grid.first_float;
}
/// Of a word that is an integer.
HCOMP_HD inline std::int32_t integer_of(std::uint32_t word) {
  auto const magnitude = static_cast<std::int32_t>(word & 0x7fffffffu);
  return word >> 31 ? -magnitude : magnitude;
}
HCOMP_HD inline float value_of(step_grid const& grid, std::uint32_t word) {
  return is_integer(grid, word) ? float_of(grid, integer_of(word)) : same_bits<float>(word);
}
/// NaNs become one NaN, so that it does not matter which of two came first.
HCOMP_HD inline std::uint32_t bits_of_sum(float sum) {
  return same_bits<std::uint32_t>(with_one_nan(sum));
}
/// Floats are added in double and rounded to float; should they cancel, what remains is an integer.
HCOMP_HD inline std::uint32_t add_floats(step_grid const& grid, std::uint32_t a, std::uint32_t b) {
  double sum;
  if (!is_integer(grid, a) && !is_integer(grid, b))
    sum = static_cast<double>(same_bits<float>(a)) + static_cast<double>(same_bits<float>(b));
  else if (is_integer(grid, a))
    sum = std::fma(integer_of(a), grid.step, static_cast<double>(same_bits<float>(b)));
  else
    sum = std::fma(integer_of(b), grid.step, static_cast<double>(same_bits<float>(a)));
  std::uint32_t const bits = bits_of_sum(static_cast<float>(sum));
  if (!is_integer(grid, bits)) return bits;
  return word_of(static_cast<std::int32_t>(std::lrint(sum * grid.inverse)));
}

/// What adding words has met.
struct word_sums {
  std::uint64_t float_additions = 0;  ///< those that were not exact integer sums
  std::uint32_t largest_float = 0;    ///< bits of the largest |sum| of these that is a float
  bool cancels = false;               ///< one of them became an integer
  /// Not 0: the first sum of integers that no ranks have, which damaged codes may make.
  std::int64_t impossible = 0;
};

/// a + b, of words.
HCOMP_HD inline std::uint32_t sum_of_words(step_grid const& grid, std::uint32_t a, std::uint32_t b,
                                           word_sums& sums) {
  // below all floats that there can be
  if (((a | b) & 0x7fffffffu) < 1u << 28) return word_of(integer_of(a) + integer_of(b));
  if (integer_of(a) == 0) return b;
  if (integer_of(b) == 0) return a;
  if (!is_integer(grid, a) || !is_integer(grid, b)) {
    ++sums.float_additions;
    std::uint32_t const sum = add_floats(grid, a, b);
    if (is_integer(grid, sum))
      sums.cancels = true;
    else if ((sum & 0x7fffffffu) > sums.largest_float)
      sums.largest_float = sum & 0x7fffffffu;
    return sum;
  }
  std::int64_t const sum = std::int64_t{integer_of(a)} + integer_of(b);
  bool const is_possible = (sum < 0 ? -sum : sum) < grid.first_float;
  if (!is_possible && sums.impossible == 0) sums.impossible = sum;
  return word_of(static_cast<std::int32_t>(sum));
}

}  // namespace hcomp::detail::error_bounded
