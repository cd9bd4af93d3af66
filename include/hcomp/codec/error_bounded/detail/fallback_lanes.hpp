#pragma once
/// @file
/// Values of error_bounded_fallback: integers of 64 bits, and doubles where these are too short.

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

/// Multiples of a power of two, the same on all ranks.
///
/// Let E be the bound of P ranks, S an exact sum and d a bound on how far what is added up is off:
/// every rank by half a step, d = P step / 2. Of doubles, d is (1 - 2^-10) E at most. What is left
/// is enough for their rounding, up to sums of 2^43 E.
///
/// Floats are often no denser than the bound. Let h be the largest power of two not above E. Where
/// floats near S are 2h apart or less, rounding adds at most h: the answer is within the bound if d
/// <= E - h. Where they are 4h apart or more and one of them is within the bound of S, that is the
/// answer if E + d < 2h. So d is less than both. Its share of the bound is at least 2^-20: a bound
/// that is so close to a power of two may be missed by as much.
template <class T> struct fallback_grid {
  double step;
  double inverse;        ///< 1 / step; its products with floats are exact
  double beyond;         ///< steps of one rank that are no integers of 62 bits / P
  std::int64_t largest;  ///< steps of one rank

  explicit fallback_grid(error_bounded_options const& o) {
    int exponent;
    double share = 1 - 0x1p-10;
    if constexpr (std::is_same_v<T, float>) {
      double const mantissa = 2 * std::frexp(o.bound, &exponent);  // E / h
      double const least = std::fmin(mantissa - 1, 2 - mantissa) / mantissa;
      share *= std::fmax(0x1p-20, std::fmin(0.25, least));
    }
    std::frexp(2 * share * (o.bound / o.ranks), &exponent);
    step = std::ldexp(1.0, exponent - 1);
    inverse = 1 / step;
    int const bits = 62 - bit_length(o.ranks - 1);
    beyond = std::ldexp(1.0, bits);
    largest = std::int64_t{1} << bits;
  }
  /// Whole blocks of values of fewer steps are done by vectors.
  double most_by_vectors() const { return beyond < 0x1p46 ? beyond : 0x1p46; }
};

/// What has changed values at most, and how large they are.
struct fallback_findings {
  double error = 0;     ///< by roundings of one rank's values to steps
  double lost = 0;      ///< by additions of doubles
  double rounding = 0;  ///< by the rounding to the type of values
  double largest = 0;   ///< |value|, rounded

  HCOMP_HD static void raise(double& most, double by) { most = by > most ? by : most; }
  /// @param size      a rounded value, which may be infinite where the value is not
  /// @param by_type   what its rounding changes
  HCOMP_HD void note(double size, double by_type) {
    raise(largest, size);
    raise(rounding, is_finite(size) ? by_type : size);
  }
};

/// A value.
template <class T> struct fallback_number {
  using grid_type = fallback_grid<T>;

  std::int64_t q = 0;  ///< steps, or the bits of a double
  bool is_double = false;

  HCOMP_HD double as_double() const { return same_bits<double>(q); }
  HCOMP_HD T value(grid_type const& grid) const {
    if (!is_double) return rounded(grid, q);
    return with_one_nan(static_cast<T>(as_double()));
  }
  /// Once: the step is a power of two.
  HCOMP_HD static T rounded(grid_type const& grid, std::int64_t q) {
    return static_cast<T>(q) * static_cast<T>(grid.step);
  }
  HCOMP_HD void set_double(double value) {
    q = same_bits<std::int64_t>(with_one_nan(value));
    is_double = true;
  }
  /// The nearest integer, or a double. Returns how much that changes the value.
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
    else  // damaged codes may hold anything
      q = static_cast<std::int64_t>(static_cast<std::uint64_t>(q) +
                                    static_cast<std::uint64_t>(other.q));
  }
  /// Magnitude of an integer, 0 of a double.
  HCOMP_HD std::uint64_t steps() const {
    auto const bits = static_cast<std::uint64_t>(is_double ? 0 : q);
    return bits >> 63 != 0 ? 0 - bits : bits;
  }
  /// Notes what becomes of a double when it is rounded.
  HCOMP_HD void note_rounding_of_double(fallback_findings& found) const {
    double const one = std::fabs(as_double());
    double const size = static_cast<double>(static_cast<T>(one));
    if (is_finite(one)) found.note(size, std::fabs(one - size));
  }

 private:
  /// Ties to even.
  HCOMP_HD static std::int64_t nearest(double multiple) {
    if (std::fabs(multiple) >= 0x1p50) return static_cast<std::int64_t>(std::rint(multiple));
    // the last 51 bits of the sum, see nearest_integer
    return static_cast<std::int64_t>(same_bits<std::uint64_t>(multiple + 0x1.8p52) << 13) >> 13;
  }
  /// As a double.
  /// @param error  that of its rounding is added
  HCOMP_HD double addend(grid_type const& grid, double& error) const {
    if (is_double) return as_double();
    auto const near = static_cast<double>(q);
    if (std::fabs(near) <= 0x1p62)
      error += std::fabs(static_cast<double>(q - static_cast<std::int64_t>(near))) * grid.step;
    return near * grid.step;
  }
  /// Adds another value, where one of them is a double. Returns the error of that.
  HCOMP_HD double add_doubles(grid_type const& grid, fallback_number const& other) {
    double error = 0;
    double const a = addend(grid, error), b = other.addend(grid, error), sum = a + b;
    if (!is_finite(sum)) {
      set_double(sum);
      return 0;
    }
    // D. E. Knuth, The Art of Computer Programming, vol. 2, 4.2.2: what a + b loses, exactly
    double const of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
    return error + std::fabs(lost) + set(grid, sum);
  }
};

/// Magnitudes of integers, and what the rounding to the type of values changes, in steps.
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
  /// Only damaged codes hold others.
  HCOMP_HD static bool is_sum(std::int64_t size) {
    return size >= 0 && size <= std::int64_t{1} << 62;
  }
};

/// 32 values or less.
template <class T> struct fallback_block {
  using grid_type = fallback_grid<T>;
  using mode = fallback_mode;
  static constexpr std::size_t values = 32;
  /// No payload is longer.
  static constexpr std::size_t most_bytes = sizeof(std::uint32_t) + values * sizeof(std::int64_t);
  std::int64_t q[values];     ///< as of fine_number; behind the last value, 0
  std::uint32_t doubles = 0;  ///< which are doubles

  HCOMP_HD fallback_number<T> number(std::size_t i) const {
    return {q[i], (doubles >> i & 1u) != 0};
  }
  HCOMP_HD void put_number(std::size_t i, fallback_number<T> const& one) {
    q[i] = one.q;
    doubles = (doubles & ~(std::uint32_t{1} << i)) | std::uint32_t{one.is_double} << i;
  }
  HCOMP_HD T value(grid_type const& grid, std::size_t i) const { return number(i).value(grid); }
  /// @param x  `values` of them
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
      if ((not_integers >> i & 1u) == 0)  // damaged codes may hold anything
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

  /// No integer is beyond so many steps.
  HCOMP_HD bool is_within(std::uint64_t most) const {
    bool all = true;
    for (std::size_t i = 0; i < values; ++i) all &= number(i).steps() <= most;
    return all;
  }
  /// Notes what becomes of values when they are rounded.
  HCOMP_HD void note_rounding(grid_type const& grid, fallback_findings& found) const {
    fallback_roundings<T> of_integers;
    for (std::size_t i = 0; i < values; ++i) of_integers.note(number(i).steps());
    of_integers.note_in(grid, found);
    for (std::uint32_t left = doubles; left != 0; left &= left - 1)
      number(static_cast<std::size_t>(lowest_one(left))).note_rounding_of_double(found);
  }

  // ---- In a code

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
  /// Of a sound code.
  HCOMP_HD void take(fallback_mode mode, std::size_t n, std::byte const* in) {
    doubles = 0;
    for (std::size_t i = n; i < values; ++i) q[i] = 0;
    if (!mode.has_doubles()) return take_integers(in, mode, n, q);
    doubles = load<std::uint32_t>(in);
    memcpy(q, in + sizeof(doubles), n * sizeof(q[0]));
  }
};

// ---- Whole blocks of integers of up to 48 bits, by vectors

inline constexpr int most_vector_bits = 48;
/// In a chunk.
inline constexpr std::size_t fallback_most_blocks = 32;
/// A block of a code.
struct fallback_payload {
  std::byte const* in = nullptr;
  fallback_mode mode{};

  /// Whether vectors can have a whole block.
  bool is_fast() const { return mode.bits() <= most_vector_bits; }
};
/// What blocks are the sums of: x or those of a, and those of b if there are any.
template <class T> struct fallback_summands {
  fallback_grid<T> const& grid;
  T const* x;  ///< if there is no a
  fallback_payload const *a, *b;

  /// From block k on.
  fallback_summands behind(std::size_t k) const {
    return {grid, x ? x + k * fallback_block<T>::values : nullptr, a ? a + k : nullptr,
            b ? b + k : nullptr};
  }
  bool are_fast(std::size_t k) const { return (!a || a[k].is_fast()) && (!b || b[k].is_fast()); }
  /// Bit k: the sum may have values that are not 0, for 1 to 32 blocks.
  std::uint32_t not_zero(std::size_t blocks) const {
    std::uint32_t const all = ~std::uint32_t{0} >> (fallback_most_blocks - blocks);
    if (x) return all;
    std::uint32_t which = 0;
    for (std::size_t k = 0; k < blocks; ++k)
      which |= std::uint32_t{(a[k].mode.byte | (b ? b[k].mode.byte : 0)) != 0} << k;
    return which;
  }
  /// The payloads that add up to block k.
  struct payloads {
    fallback_payload const* first;   ///< null: it is x
    fallback_payload const* second;  ///< null: there is none, or it is all 0
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
/// Where sums of blocks are put.
struct fallback_sums {
  std::byte* modes;
  std::byte* payload;         ///< of the next block
  fallback_findings found{};  ///< of all
  std::uint64_t largest = 0;  ///< magnitude, in steps

  /// Notes a block that was put.
  [[gnu::always_inline]] void put(fallback_mode mode, std::size_t n) {
    *modes++ = static_cast<std::byte>(mode.byte);
    payload += mode.payload_bytes(n);
  }
};

}  // namespace hcomp::detail::error_bounded
