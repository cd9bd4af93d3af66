#pragma once
/// @file
/// Values of error_bounded_fallback: 64-bit integers, and doubles for values that need more bits.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_format.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail::error_bounded {

/// The share of a bound that is left for errors before the rounding to float; see fallback_grid.
inline double share_before_rounding(double bound) {
  int exponent;
  double const mantissa = 2 * std::frexp(bound, &exponent);  // E / h
  double const least = std::fmin(mantissa - 1, 2 - mantissa) / mantissa;
  return std::fmax(0x1p-20, std::fmin(0.25, least));
}
/// Options with which means of all ranks are within bound / ranks: a smaller bound, if the rounding
/// of means leaves less room than that of the bound.
template <class T> error_bounded_options options_of_means(error_bounded_options options) {
  if constexpr (std::is_same_v<T, float>) {
    double const room = share_before_rounding(options.bound / options.ranks);
    if (room >= share_before_rounding(options.bound)) return options;
    auto smaller = options;
    int exponent;
    std::frexp(4 * room * options.bound / 1.5, &exponent);
    smaller.bound = std::ldexp(1.5, exponent - 1);  // a quarter of it is left
    if (is_possible<T>(smaller)) return smaller;
  }
  return options;
}

/// Multiples of a power of two, equal on all ranks.
///
/// Proof of the bound: let E be the bound of P ranks, S an exact sum, and d the largest error
/// before rounding. Each rank has an error of half a step, so d = P step / 2. For doubles, d is at
/// most (1 - 2^-10) E. The rest of the bound covers their rounding for results up to 2^43 E.
///
/// The spacing of floats is often larger than the bound. Let h be the largest power of two not
/// above E. If floats near S are at most 2h apart, rounding adds at most h. The result is within
/// the bound if d <= E - h.
///
/// If floats near S are at least 4h apart and one of them is within the bound of S, the result is
/// that float if E + d < 2h. So d is below both limits, E - h and 2h - E. The fraction d / E is at
/// least 2^-20: a bound closer to a power of two may be missed by this fraction.
///
/// A mean is rounded once, too, from S / P: the limits are those of E / P. Plans choose a smaller
/// bound for means where E / P is closer to a power of two: see options_of_means.
template <class T> struct fallback_grid {
  double step;
  double inverse;        ///< 1 / step; its products with floats are exact
  double beyond;         ///< smallest magnitude of one rank that stays a double, in steps
  std::int64_t largest;  ///< largest magnitude of one rank's integers, in steps

  explicit fallback_grid(error_bounded_options const& o) {
    int exponent;
    double share = 1 - 0x1p-10;
    if constexpr (std::is_same_v<T, float>) share *= share_before_rounding(o.bound);
    std::frexp(2 * share * (o.bound / o.ranks), &exponent);
    step = std::ldexp(1.0, exponent - 1);
    inverse = 1 / step;
    int const bits = 62 - bit_length(o.ranks - 1);
    beyond = std::ldexp(1.0, bits);
    largest = std::int64_t{1} << bits;
  }
  /// The same grid for another type of values.
  template <class U>
  explicit fallback_grid(fallback_grid<U> const& o)
      : step(o.step), inverse(o.inverse), beyond(o.beyond), largest(o.largest) {}

  /// SIMD kernels process full blocks whose values are below this number of steps.
  double most_by_vectors() const { return beyond < 0x1p46 ? beyond : 0x1p46; }
};

/// Largest errors of any value, and the largest magnitude.
struct fallback_findings {
  double error = 0;     ///< of rounding the values of one rank to steps
  double lost = 0;      ///< of additions of doubles
  double rounding = 0;  ///< of rounding to the value type
  double largest = 0;   ///< largest |value|, rounded

  HCOMP_HD static void raise(double& most, double by) { most = by > most ? by : most; }
  /// Notes the magnitude of a value and its rounding error.
  /// @param size      rounded magnitude; may be infinite for a finite value
  /// @param by_type   error of rounding to the value type
  HCOMP_HD void note(double size, double by_type) {
    raise(largest, size);
    raise(rounding, is_finite(size) ? by_type : size);
  }
};

/// A value: an integer in steps, or a double.
template <class T> struct fallback_number {
  using grid_type = fallback_grid<T>;

  std::int64_t q = 0;  ///< integer in steps, or the bits of a double
  bool is_double = false;

  HCOMP_HD double as_double() const { return same_bits<double>(q); }
  HCOMP_HD T value(grid_type const& grid) const {
    if (!is_double) return rounded(grid, q);
    return with_one_nan(static_cast<T>(as_double()));
  }
  /// value(grid) divided by `parts`, rounded once if the integer has at most 53 bits.
  HCOMP_HD T value(grid_type const& grid, T parts) const {
    double const sum = is_double ? as_double() : static_cast<double>(q) * grid.step;
    return with_one_nan(static_cast<T>(sum / static_cast<double>(parts)));
  }
  /// Value of an integer. It rounds only once, because the step is a power of two.
  HCOMP_HD static T rounded(grid_type const& grid, std::int64_t q) {
    return static_cast<T>(q) * static_cast<T>(grid.step);
  }
  HCOMP_HD void set_double(double value) {
    q = same_bits<std::int64_t>(with_one_nan(value));
    is_double = true;
  }
  /// Quantizes a value to the nearest integer, or keeps it as a double. Returns the error.
  HCOMP_HD double set(grid_type const& grid, double value) {
    double const multiple = value * grid.inverse;
    if (!is_finite(value) || std::fabs(multiple) >= grid.beyond) {
      set_double(value);
      return 0;
    }
    q = nearest(multiple);
    is_double = false;
    return std::fabs(multiple - static_cast<double>(q)) * grid.step;
  }
  HCOMP_HD void add(grid_type const& grid, fallback_number const& other, fallback_findings& found) {
    if (is_double || other.is_double)
      fallback_findings::raise(found.lost, add_doubles(grid, other));
    else  // modulo 2^64, because damaged input may overflow
      q = static_cast<std::int64_t>(static_cast<std::uint64_t>(q) +
                                    static_cast<std::uint64_t>(other.q));
  }
  /// Magnitude of an integer; 0 for a double.
  HCOMP_HD std::uint64_t steps() const {
    auto const bits = static_cast<std::uint64_t>(is_double ? 0 : q);
    return bits >> 63 != 0 ? 0 - bits : bits;
  }
  /// Notes the error of rounding a double to T.
  HCOMP_HD void note_rounding_of_double(fallback_findings& found) const {
    double const one = std::fabs(as_double());
    double const size = static_cast<double>(static_cast<T>(one));
    if (is_finite(one)) found.note(size, std::fabs(one - size));
  }

 private:
  /// Nearest integer, ties to even.
  HCOMP_HD static std::int64_t nearest(double multiple) {
    if (std::fabs(multiple) >= 0x1p50) return static_cast<std::int64_t>(std::rint(multiple));
    // the last 51 bits of the sum, see rounded_multiple
    return static_cast<std::int64_t>(same_bits<std::uint64_t>(multiple + 0x1.8p52) << 13) >> 13;
  }
  /// The value as a double.
  /// @param error  raised by the error of converting an integer to double
  HCOMP_HD double addend(grid_type const& grid, double& error) const {
    if (is_double) return as_double();
    auto const near = static_cast<double>(q);
    if (std::fabs(near) <= 0x1p62)
      error += std::fabs(static_cast<double>(q - static_cast<std::int64_t>(near))) * grid.step;
    return near * grid.step;
  }
  /// Adds another value, if at least one of the two is a double. Returns the error of the addition.
  HCOMP_HD double add_doubles(grid_type const& grid, fallback_number const& other) {
    double error = 0;
    double const a = addend(grid, error), b = other.addend(grid, error), sum = a + b;
    if (!is_finite(sum)) {
      set_double(sum);
      return 0;
    }
    // exact rounding error of a + b: D. E. Knuth, The Art of Computer Programming, vol. 2, 4.2.2
    double const of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
    return error + std::fabs(lost) + set(grid, sum);
  }
};

/// Largest magnitude of integers, and largest error of rounding them to the value type, in steps.
template <class T> struct fallback_roundings {
  std::int64_t largest = 0, rest = 0;

  HCOMP_HD void note(std::uint64_t steps) {
    auto const size = static_cast<std::int64_t>(steps);
    std::int64_t const known = is_sum(size) ? size : 0;
    std::int64_t const off = known - static_cast<std::int64_t>(static_cast<T>(known));
    largest = known > largest ? known : largest;
    rest = off > rest ? off : -off > rest ? -off : rest;
  }
  HCOMP_HD void note_in(fallback_grid<T> const& grid, fallback_findings& found) const {
    note_in(grid, largest, static_cast<double>(rest), found);
  }
  HCOMP_HD static void note_in(fallback_grid<T> const& grid, std::int64_t largest, double rest,
                               fallback_findings& found) {
    found.note(static_cast<double>(fallback_number<T>::rounded(grid, largest)), rest * grid.step);
  }

 private:
  /// False only for integers of damaged input.
  HCOMP_HD static bool is_sum(std::int64_t size) {
    return size >= 0 && size <= std::int64_t{1} << 62;
  }
};

/// A block of up to 32 values.
template <class T> struct fallback_block {
  using grid_type = fallback_grid<T>;
  using mode = fallback_mode;
  static constexpr std::size_t values = 32;
  /// Size of the largest payload, in bytes.
  static constexpr std::size_t most_bytes = sizeof(std::uint32_t) + values * sizeof(std::int64_t);
  std::int64_t q[values];     ///< fallback_number::q of each value; 0 after the last
  std::uint32_t doubles = 0;  ///< one bit per value: it is a double

  HCOMP_HD fallback_number<T> number(std::size_t i) const {
    return {q[i], (doubles >> i & 1u) != 0};
  }
  HCOMP_HD void put_number(std::size_t i, fallback_number<T> const& one) {
    q[i] = one.q;
    doubles = (doubles & ~(std::uint32_t{1} << i)) | std::uint32_t{one.is_double} << i;
  }
  HCOMP_HD T value(grid_type const& grid, std::size_t i) const { return number(i).value(grid); }
  /// @param parts  divisor; 0: none
  HCOMP_HD T value(grid_type const& grid, std::size_t i, T parts) const {
    return parts != 0 ? number(i).value(grid, parts) : value(grid, i);
  }
  /// Quantizes `values` values.
  HCOMP_HD void set(grid_type const& grid, T const* x, fallback_findings& found) {
    doubles = 0;
    for (std::size_t i = 0; i < values; ++i) {
      fallback_number<T> one;
      fallback_findings::raise(found.error, one.set(grid, static_cast<double>(x[i])));
      put_number(i, one);
    }
  }

  HCOMP_HD void add(grid_type const& grid, fallback_block const& other, fallback_findings& found) {
    std::uint32_t const not_integers = doubles | other.doubles;
    for (std::size_t i = 0; i < values; ++i)
      if ((not_integers >> i & 1u) == 0)  // modulo 2^64, because damaged input may overflow
        q[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(q[i]) +
                                         static_cast<std::uint64_t>(other.q[i]));
    if (not_integers == 0) return;
    for (std::size_t i = 0; i < values; ++i)
      if ((not_integers >> i & 1u) != 0) {
        auto one = number(i);
        one.add(grid, other.number(i), found);
        put_number(i, one);
      }
  }

  /// True if no integer exceeds `most` steps.
  HCOMP_HD bool is_within(std::uint64_t most) const {
    bool all = true;
    for (std::size_t i = 0; i < values; ++i) all &= number(i).steps() <= most;
    return all;
  }
  /// Notes the errors of rounding the values to T.
  HCOMP_HD void note_rounding(grid_type const& grid, fallback_findings& found) const {
    fallback_roundings<T> of_integers;
    for (std::size_t i = 0; i < values; ++i) of_integers.note(number(i).steps());
    of_integers.note_in(grid, found);
    for (std::uint32_t left = doubles; left != 0; left &= left - 1)
      number(static_cast<std::size_t>(lowest_one(left))).note_rounding_of_double(found);
  }

  // ---- Encoded form

  HCOMP_HD fallback_mode best_mode(std::size_t n) const {
    if (doubles != 0) return {fallback_mode::doubles};
    std::uint64_t zigzags = 0;
    std::size_t not_zero = 0;
    for (std::int64_t const one : q) {
      zigzags |= fallback_mode::zigzag(one);
      not_zero += one != 0;
    }
    return fallback_mode::of(zigzags, not_zero, n);
  }
  HCOMP_HD void put(fallback_mode mode, std::size_t n, std::byte* out) const {
    if (!mode.has_doubles()) return put_integers(q, mode, n, out);
    store(out, 0, doubles);
    memcpy(out + sizeof(doubles), q, n * sizeof(q[0]));
  }
  /// Decodes n values of a valid payload.
  HCOMP_HD void take(fallback_mode mode, std::size_t n, std::byte const* in) {
    doubles = 0;
    for (std::size_t i = n; i < values; ++i) q[i] = 0;
    if (!mode.has_doubles()) return take_integers(in, mode, n, q);
    doubles = load<std::uint32_t>(in);
    memcpy(q, in + sizeof(doubles), n * sizeof(q[0]));
  }
};

// ---- SIMD: full blocks of integers of up to 48 bits

inline constexpr int most_vector_bits = 48;
/// Blocks of a full chunk.
inline constexpr std::size_t fallback_most_blocks = 32;
/// A block in an encoded chunk.
struct fallback_payload {
  std::byte const* in = nullptr;
  fallback_mode mode{};

  /// True if SIMD kernels can process it as a full block.
  bool is_fast() const { return mode.bits() <= most_vector_bits; }
};
/// Summands of blocks: x or the payloads `a`, plus the payloads `b` unless null.
template <class T> struct fallback_summands {
  fallback_grid<T> const& grid;
  T const* x;  ///< used if `a` is null
  fallback_payload const *a, *b;

  /// The summands from block k on.
  fallback_summands behind(std::size_t k) const {
    return {grid, x ? x + k * fallback_block<T>::values : nullptr, a ? a + k : nullptr,
            b ? b + k : nullptr};
  }
  bool are_fast(std::size_t k) const { return (!a || a[k].is_fast()) && (!b || b[k].is_fast()); }
  /// Bit k is set if block k of the sum may have nonzero values.
  /// @param blocks  1 to 32
  std::uint32_t not_zero(std::size_t blocks) const {
    std::uint32_t const all = ~std::uint32_t{0} >> (fallback_most_blocks - blocks);
    if (x) return all;
    std::uint32_t which = 0;
    for (std::size_t k = 0; k < blocks; ++k)
      which |= std::uint32_t{(a[k].mode.byte | (b ? b[k].mode.byte : 0)) != 0} << k;
    return which;
  }
  /// The summands of one block.
  struct payloads {
    fallback_payload const* first;   ///< null if it is x
    fallback_payload const* second;  ///< null if absent, or if all its values are 0
  };
  [[gnu::always_inline]] payloads of(std::size_t k) const {
    fallback_payload const *first = a ? a + k : nullptr, *second = b ? b + k : nullptr;
    if (first && second && first->mode.byte == 0) {
      second = first;
      first = b + k;
    }
    return {first, second && second->mode.byte != 0 ? second : nullptr};
  }
};
/// Output of the kernels that add blocks.
struct fallback_sums {
  std::byte* modes;
  std::byte* payload;         ///< place of the next block
  fallback_findings found{};  ///< of all blocks
  std::uint64_t largest = 0;  ///< largest magnitude, in steps

  /// Advances past a block that was written.
  [[gnu::always_inline]] void put(fallback_mode mode, std::size_t n) {
    *modes++ = static_cast<std::byte>(mode.byte);
    payload += mode.payload_bytes(n);
  }
};

}  // namespace hcomp::detail::error_bounded
