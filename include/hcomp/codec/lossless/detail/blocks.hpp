#pragma once
/// @file
/// Blocks of lossless, which store bits shared by their values once.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail::lossless {

inline constexpr std::size_t block_values = 64;

/// Form of a block: two bytes. A chunk stores the forms of all blocks before the payloads.
///
/// The payload of a form:
/// - zeros: empty; all values are +0
/// - plain: the values
/// - offsets: the smallest magnitude, which is the bits of a value without its sign; one sign bit
///   per value unless all signs are equal; one bit per value that marks zeros, if any; the distance
///   of each magnitude from the smallest, where a zero has 0 (decoders accept any integer)
/// - differences: the first value, then the difference of each value from its predecessor; values
///   are converted from sign and magnitude to two's complement first
///
/// Offsets and differences are integers of `width` bits, without `left_out` trailing zero bits.
template <class T> struct block_form {
  static constexpr std::uint16_t zeros = 0x3000, plain = 0x3001;

  std::uint16_t bits = zeros;

  HCOMP_HD static block_form of_offsets(int width, int left_out, bool has_negative,
                                        bool has_positive, bool has_zeros) {
    int const sign = has_negative + (has_negative & !has_positive);
    return {static_cast<std::uint16_t>(width | left_out << 6 | sign << 12 | has_zeros << 14)};
  }
  HCOMP_HD static block_form of_differences(int width, int left_out) {
    return {static_cast<std::uint16_t>(width | left_out << 6 | 1 << 15)};
  }

  HCOMP_HD bool is_plain() const { return bits == plain; }
  HCOMP_HD bool is_zeros() const { return bits == zeros; }
  HCOMP_HD bool has_differences() const { return bits >> 15 != 0; }
  HCOMP_HD bool has_zeros() const { return (bits >> 14 & 1) != 0; }
  HCOMP_HD bool all_negative() const { return sign() == 2; }
  HCOMP_HD bool has_signs() const { return sign() == 1; }
  HCOMP_HD int width() const { return bits & 63; }
  HCOMP_HD int left_out() const { return bits >> 6 & 63; }

  HCOMP_HD bool is_valid() const {
    bool const is_one = has_differences() ? (bits >> 12 & 7) == 0 : sign() < 3,
               fits = width() + left_out() <= static_cast<int>(8 * sizeof(T));
    return is_plain() || is_zeros() || (is_one && fits);
  }
  HCOMP_HD std::size_t payload_bytes(std::size_t n) const {
    if (is_zeros()) return 0;
    if (is_plain()) return n * sizeof(T);
    return integer_bytes(width(), has_signs(), has_zeros(), n);
  }
  /// Size of a payload of offsets or differences, in bytes.
  [[gnu::always_inline]] HCOMP_HD static std::size_t integer_bytes(int width, bool has_signs,
                                                                   bool has_zeros, std::size_t n) {
    std::size_t const bits = has_signs + has_zeros;  // per value
    return sizeof(T) + bits * sizeof(std::uint64_t) + packed_bytes(width, n);
  }

 private:
  HCOMP_HD int sign() const { return bits >> 12 & 3; }
};

/// A block of up to 64 values.
template <class T> struct value_block {
  using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using mode = block_form<T>;
  static constexpr std::size_t values = block_values;
  /// Largest payload, also of damaged input, in bytes.
  static constexpr std::size_t most_bytes =
      values * sizeof(T) + sizeof(word) + 2 * sizeof(std::uint64_t);
  static constexpr int value_bits = 8 * static_cast<int>(sizeof(T));
  static constexpr std::uint64_t sign = std::uint64_t{1} << (value_bits - 1);

  T x[block_values];  ///< +0 after the last value

  /// Form, and the fields stored before the integers.
  struct front {
    mode form;
    std::uint64_t first;            ///< the smallest magnitude, or the first value
    std::uint64_t negative, zeros;  ///< one bit per value
  };

  /// Range of bits outside which all integers of a set are 0.
  struct bit_range {
    int begin = 0, end = 0;

    HCOMP_HD int width() const { return end - begin; }
  };
  /// Properties of a block that determine its form.
  struct findings {
    std::uint64_t least;            ///< smallest nonzero magnitude
    std::uint64_t first;            ///< ordered() of the first value
    std::uint64_t negative, zeros;  ///< one bit per value
    bit_range offsets;              ///< distances of nonzero magnitudes from the smallest
    bit_range steps;                ///< differences of ordered(), in two's complement
  };

  /// a + b; every NaN becomes the same NaN.
  HCOMP_HD static T sum(T a, T b) { return with_one_nan(a + b); }

  HCOMP_HD static std::uint64_t magnitude(T value) { return same_bits<word>(value) & ~sign; }
  HCOMP_HD static bool is_negative(T value) { return (same_bits<word>(value) & sign) != 0; }
  /// Integer with the same order as the values, NaN excepted.
  HCOMP_HD static std::uint64_t ordered(T value) {
    return is_negative(value) ? 0 - magnitude(value) : magnitude(value);
  }
  HCOMP_HD static T value_of(std::uint64_t magnitude, bool is_negative) {
    return same_bits<T>(static_cast<word>((magnitude & ~sign) | (is_negative ? sign : 0)));
  }
  /// Inverse of ordered.
  HCOMP_HD static T value_of(word order) {
    bool const below = order >> (value_bits - 1) != 0;
    return value_of(below ? 0 - order : order, below);
  }

  /// Returns the shortest form of the first n values.
  HCOMP_HD front look(std::size_t n) const {
    findings found{~std::uint64_t{0}, ordered(x[0]), 0, 0, {}, {}};
    std::uint64_t steps = 0, zigzags = 0, offsets = 0;
    for (std::size_t i = 0; i < block_values; ++i) {
      std::uint64_t const one = magnitude(x[i]), bit = std::uint64_t{1} << i;
      found.negative |= is_negative(x[i]) ? bit : 0;
      found.zeros |= one == 0 ? bit : 0;
      std::uint64_t const candidate = one == 0 ? ~std::uint64_t{0} : one;
      found.least = candidate < found.least ? candidate : found.least;
    }
    found.zeros &= all_of(n);
    for (std::size_t i = 0; i < block_values; ++i) {
      std::uint64_t const one = magnitude(x[i]);
      offsets |= one == 0 ? 0 : one - found.least;
    }
    for (std::size_t i = 1; i < block_values; ++i) {
      std::uint64_t const step = i < n ? ordered(x[i]) - ordered(x[i - 1]) : 0;
      steps |= step;
      zigzags |= step << 1 ^ (0 - (step >> 63));
    }
    if (offsets != 0) found.offsets = {lowest_one(offsets), bit_length(offsets)};
    if (steps != 0) found.steps = {lowest_one(steps), bit_length(zigzags)};
    return shortest(found, n);
  }
  [[gnu::always_inline]] HCOMP_HD static front shortest(findings const& of, std::size_t n) {
    std::uint64_t const all = all_of(n);
    bool const is_zero = of.zeros == all;
    mode const form = shortest_form({of.negative != 0, of.negative != all, of.zeros != 0, is_zero,
                                     (of.zeros & of.negative) != 0},
                                    of.offsets, of.steps, n);
    std::uint64_t const least = is_zero ? 0 : of.least;
    return {form, form.has_differences() ? of.first : least, of.negative, of.zeros};
  }
  /// Properties that determine the form, apart from widths.
  struct kinds {
    bool has_negative, has_positive, has_zeros, is_zero, has_negative_zeros;
  };
  [[gnu::always_inline]] HCOMP_HD static mode shortest_form(kinds const& of, bit_range offset,
                                                            bit_range step, std::size_t n) {
    std::size_t const plain = n * sizeof(T),
                      offsets = mode::integer_bytes(
                          offset.width(), of.has_negative & of.has_positive, of.has_zeros, n),
                      steps = mode::integer_bytes(step.width(), false, false, n);
    // ordered() does not keep the sign of -0
    bool const has_steps =
        (step.end <= (value_bits < 63 ? value_bits : 63)) & !of.has_negative_zeros;
    bool const is_offsets = offsets < plain,
               is_steps = has_steps & (steps < (is_offsets ? offsets : plain));
    // selections instead of branches: the shortest form is not predictable
    mode form{mode::plain};
    form = is_offsets ? mode::of_offsets(offset.width(), offset.begin, of.has_negative,
                                         of.has_positive, of.has_zeros)
                      : form;
    form = is_steps ? mode::of_differences(step.width(), step.begin) : form;
    return of.is_zero && !of.has_negative ? mode{mode::zeros} : form;
  }

  HCOMP_HD void put(front const& f, std::size_t n, std::byte* out) const {
    if (f.form.is_zeros()) return;
    if (f.form.is_plain()) {
      memcpy(out, x, n * sizeof(T));
      return;
    }
    store(out, 0, static_cast<word>(f.first));
    out += sizeof(word);
    if (f.form.has_signs()) {
      store(out, 0, f.negative);
      out += sizeof(f.negative);
    }
    if (f.form.has_zeros()) {
      store(out, 0, f.zeros);
      out += sizeof(f.zeros);
    }
    std::int64_t q[block_values];
    int const behind = f.form.left_out();
    if (f.form.has_differences()) {
      q[0] = 0;
      for (std::size_t i = 1; i < block_values; ++i)
        q[i] = static_cast<std::int64_t>(ordered(x[i]) - ordered(x[i - 1])) >> behind;
    } else {
      for (std::size_t i = 0; i < block_values; ++i)
        q[i] = static_cast<std::int64_t>((magnitude(x[i]) - f.first) >> behind);
    }
    pack_integers(q, f.form.width(), n, out);
  }
  /// Decodes n values of a validated payload. Damaged integers give arbitrary values.
  HCOMP_HD void take(mode form, std::size_t n, std::byte const* in) {
    if (form.is_zeros() || n < block_values)
      for (std::size_t i = 0; i < block_values; ++i) x[i] = 0;
    if (form.is_zeros()) return;
    if (form.is_plain()) {
      memcpy(x, in, n * sizeof(T));
      return;
    }
    std::uint64_t const first = load<word>(in);
    in += sizeof(word);
    std::uint64_t negative = form.all_negative() ? ~std::uint64_t{0} : 0, zeros = 0;
    if (form.has_signs()) {
      negative = load<std::uint64_t>(in);
      in += sizeof(negative);
    }
    if (form.has_zeros()) {
      zeros = load<std::uint64_t>(in);
      in += sizeof(zeros);
    }
    std::int64_t q[block_values];
    unpack_integers(in, form.width(), n, q);
    int const behind = form.left_out(), width = form.width();
    if (form.has_differences()) {
      auto at = static_cast<word>(first);
      for (std::size_t i = 0; i < n; ++i) {
        at += static_cast<word>(static_cast<std::uint64_t>(q[i]) << behind);
        x[i] = value_of(at);
      }
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        bool const is_zero = (zeros >> i & 1) != 0;
        x[i] = value_of(is_zero ? 0 : first + (without_sign(q[i], width) << behind),
                        (negative >> i & 1) != 0);
      }
    }
  }

  /// Mask of n values.
  HCOMP_HD static std::uint64_t all_of(std::size_t n) {
    return n == 0 ? 0 : ~std::uint64_t{0} >> (block_values - n);
  }
};

/// Blocks of a full chunk.
inline constexpr std::size_t most_blocks = 16;

}  // namespace hcomp::detail::lossless
