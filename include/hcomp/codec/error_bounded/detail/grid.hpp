#pragma once
/// @file
/// Quantization of floats to the integers of error_bounded, and arithmetic on floats that are too
/// large for them.

#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

/// Multiples of a step, equal on all ranks.
///
/// Proof of the bound: let E be the bound of P ranks, d = 2^(magnitude_bits - 23), and the step at
/// most 2 (1 - d) E / P. Each rank has an error of half a step, all ranks together (1 - d) E.
///
/// The integer sum Q is exact, and |Q| < P * 2^magnitude_bits. So |Q * step| is below
/// 2^(24 - 23 + magnitude_bits) (1 - d) E. Rounding to float adds at most 2^-24 of that, which is
/// d (1 - d) E. The total is (1 - d^2) E. The rest of the bound far exceeds the rounding errors of
/// double, 2^-50 E. A mean rounds Q * (step / P) to float, once: all errors are divided by P.
struct step_grid {
  double step;
  /// 1 / step, with so few bits that its product with any float is exact. Results are therefore
  /// independent of fused multiply-add.
  double inverse;
  std::int32_t limit;  ///< largest integer of one rank
  /// Bits of the largest power of two not above limit * step. Every smaller float becomes an
  /// integer, so smaller words represent integers. There are more such words than integer sums.
  std::uint32_t first_float;
  float parts = 0;  ///< divisor of the values; 0: none. `step` is divided already

  step_grid(double bound_per_rank, int magnitude_bits)
      : limit((std::int32_t{1} << magnitude_bits) - 1) {
    double const wanted = 2 * bound_per_rank * (1 - std::ldexp(1.0, magnitude_bits - 23));
    constexpr std::uint64_t unused = (std::uint64_t{1} << 24) - 1;
    inverse = same_bits<double>((same_bits<std::uint64_t>(1 / wanted) + unused) & ~unused);
    step = 1 / inverse;
    auto const exponent = same_bits<std::uint64_t>(limit * step) >> 52;
    first_float = static_cast<std::uint32_t>(exponent - 1023 + 127) << 23;
  }
  /// For decoding values divided by `by`; 0: no division.
  HCOMP_HD step_grid divided_by(float by) const {
    step_grid grid = *this;
    grid.parts = by;
    if (by != 0) grid.step /= static_cast<double>(by);
    return grid;
  }
};

inline constexpr std::int32_t no_integer = 0x7fffffff;

/// Nearest integer, ties to even; unspecified for magnitudes of 2^31 or more.
HCOMP_HD inline std::int32_t rounded_multiple(double multiple) {
  // 1.5 * 2^52: the last bits of the sum are the integer, under any float optimization
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(same_bits<std::uint64_t>(multiple + 0x1.8p52)));
}
/// multiple - q, where q is rounded_multiple(multiple); unspecified if that is.
HCOMP_HD inline double off_by(double multiple, [[maybe_unused]] std::int32_t q) {
#if defined(__CUDA_ARCH__)  // converting q takes four times as long as an addition
  return multiple - (multiple + 0x1.8p52 - 0x1.8p52);
#else
  return multiple - q;
#endif
}
/// Nearest integer of x in steps; no_integer if it exceeds the limit or x is not finite.
HCOMP_HD inline std::int32_t nearest_integer(step_grid const& grid, float x) {
  constexpr std::int32_t none = no_integer;
  double const multiple = static_cast<double>(x) * grid.inverse;
  if (!is_finite(x) || std::fabs(multiple) > grid.limit + 1) return none;
  std::int32_t const q = rounded_multiple(multiple);
  return q > grid.limit || q < -grid.limit ? none : q;
}

/// Value of an integer.
HCOMP_HD inline float float_of(step_grid const& grid, std::int32_t q) {
  return static_cast<float>(q * grid.step);
}

// ---- Words: an integer or a float in 32 bits. A magnitude below first_float marks an integer.

HCOMP_HD inline std::uint32_t word_of(std::int32_t q) {
  return q < 0 ? 0x80000000u | (0u - static_cast<std::uint32_t>(q)) : static_cast<std::uint32_t>(q);
}
HCOMP_HD inline bool is_integer(step_grid const& grid, std::uint32_t word) {
  return (word & 0x7fffffffu) < grid.first_float;
}
/// Integer of a word.
/// @param word  satisfies is_integer
HCOMP_HD inline std::int32_t integer_of(std::uint32_t word) {
  auto const magnitude = static_cast<std::int32_t>(word & 0x7fffffffu);
  return word >> 31 ? -magnitude : magnitude;
}
HCOMP_HD inline float value_of(step_grid const& grid, std::uint32_t word) {
  if (is_integer(grid, word)) return float_of(grid, integer_of(word));
  auto const value = same_bits<float>(word);
  return grid.parts != 0 ? divided(value, grid.parts) : value;
}
/// Bits of a sum. Every NaN becomes the same NaN, so the order of the summands does not matter.
HCOMP_HD inline std::uint32_t bits_of_sum(float sum) {
  return same_bits<std::uint32_t>(with_one_nan(sum));
}
/// Sum of two words, at least one of them a float: added in double, rounded to float. If they
/// cancel, the result is an integer.
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

/// Statistics of additions of words.
struct word_sums {
  std::uint64_t float_additions = 0;  ///< number of additions that were not exact
  std::uint32_t largest_float = 0;    ///< bits of the largest |result| of these that is a float
  bool cancels = false;               ///< true if a result of these is an integer
  /// If not 0: the first integer sum that no number of ranks can have. Damaged input causes it.
  std::int64_t impossible = 0;
};

/// a + b for words.
HCOMP_HD inline std::uint32_t sum_of_words(step_grid const& grid, std::uint32_t a, std::uint32_t b,
                                           word_sums& sums) {
  // magnitudes below the smallest possible first_float: both are integers
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
