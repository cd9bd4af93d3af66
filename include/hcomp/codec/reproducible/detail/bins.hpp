#pragma once
/// @file
/// The sum of one value of the codec `reproducible`: three integers that add without rounding.
///
/// Fixed powers of two divide all numbers into bins. Bin k holds the multiple of its unit 2^(lowest
/// + k * width) that is nearest to the rest that higher bins leave. A number fills three bins
/// without loss. A sum keeps the three bins of its largest summand and drops lower bins when a
/// larger summand arrives. The kept part of a summand depends only on the largest summand of the
/// sum, never on the order.
/// Source: J. Demmel and H. D. Nguyen, Parallel Reproducible Summation, IEEE Trans. Computers 64
/// (2015) 2060-2070, with integers in place of their floats.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <limits>
#include <type_traits>

namespace hcomp::detail::binned {

/// Values per tile. A tile stores the first words of all its values, then their second words, and
/// so on.
inline constexpr int tile_values = 16;

/// The bins of a sum of type A (float or double), and its layout in memory.
template <class A> struct format;

/// Three words. Each has the 30 bits of a bin above 2 bits of the place.
template <> struct format<float> {
  using bits = std::uint32_t;
  static constexpr int mantissa_bits = 23, exponent_bits = 8;
  static constexpr int width = 13, lowest = -151;  ///< bin k has the unit 2^(lowest + k * width)
  static constexpr int words = 3;
  static constexpr std::uint32_t most_summands = (1u << 15) - 1;          ///< a sum has 53 bits
  static constexpr std::uint32_t reciprocal = 158, reciprocal_bits = 11;  ///< of the width
  static constexpr std::uint32_t highest = 19, nonfinite = 31;            ///< places
};

/// Four words: three with the lower 32 of the 40 bits of a bin, one with the upper 8 bits of all
/// three bins and the place.
template <> struct format<double> {
  using bits = std::uint64_t;
  static constexpr int mantissa_bits = 52, exponent_bits = 11;
  static constexpr int width = 27, lowest = -1075;
  static constexpr int bin_bits = 40, words = 4;
  static constexpr std::uint32_t most_summands = (1u << 13) - 1;  ///< each at most 2^26 in a bin
  static constexpr std::uint32_t reciprocal = 2428, reciprocal_bits = 16;
  static constexpr std::uint32_t highest = 75, nonfinite = 127;
};

/// Left shift that aligns a mantissa to the width of two bins.
template <class A>
inline constexpr int spare_bits = 2 * format<A>::width - format<A>::mantissa_bits - 1;

/// A sum: bin[2] is bin number `place`; bin[1] and bin[0] are the next two above it. At place
/// `nonfinite`, the bins count the summands that are infinity, -infinity and NaN.
struct sum {
  std::int64_t bin[3];
  std::uint32_t place;
};

/// Place of a number whose exponent is `height` above that of denormals: height / width.
template <class A> HCOMP_HD constexpr std::uint32_t place_of(std::uint32_t height) {
  return height * format<A>::reciprocal >> format<A>::reciprocal_bits;
}

/// Returns the sum of `weight` copies of `value`.
template <class A> HCOMP_HD inline sum sum_of(A value, std::uint32_t weight) {
  using f = format<A>;
  using bits = typename f::bits;
  constexpr bits one = 1, mask = (one << f::width) - 1, half = one << (f::width - 1);
  constexpr std::uint32_t all_ones = (1u << f::exponent_bits) - 1;
  auto const b = same_bits<bits>(value);
  auto const exponent = static_cast<std::uint32_t>(b >> f::mantissa_bits) & all_ones;
  bits mantissa = b & ((one << f::mantissa_bits) - 1);
  bool const negative = b >> (f::mantissa_bits + f::exponent_bits) != 0;
  auto const times = static_cast<std::int64_t>(weight);
  if (exponent == all_ones)
    return {{mantissa == 0 && !negative ? times : 0, mantissa == 0 && negative ? times : 0,
             mantissa != 0 ? times : 0},
            f::nonfinite};
  if (exponent != 0) mantissa |= one << f::mantissa_bits;
  mantissa <<= spare_bits<A>;
  std::uint32_t const height = exponent == 0 ? 0 : exponent - 1, place = place_of<A>(height);
  auto const left = static_cast<int>(height - place * f::width);
  bits low = (mantissa << left) & mask, high = mantissa >> (f::width - left);
  bits middle = high & mask;
  high >>= f::width;
  bits carry = (low + half) >> f::width;  // to nearest: -half <= low < half
  low -= carry << f::width;
  middle += carry;
  carry = (middle + half) >> f::width;
  middle -= carry << f::width;
  high += carry;
  std::int64_t const sign = negative ? -times : times;
  using whole = std::make_signed_t<bits>;
  return {{sign * static_cast<whole>(high), sign * static_cast<whole>(middle),
           sign * static_cast<whole>(low)},
          place};
}

/// Moves the sum to `place`, at or above its own, and drops lower bins.
HCOMP_HD inline void raise(sum& s, std::uint32_t place) {
  std::uint32_t const by = place - s.place;
  s.bin[2] = by == 0 ? s.bin[2] : by == 1 ? s.bin[1] : by == 2 ? s.bin[0] : 0;
  s.bin[1] = by == 0 ? s.bin[1] : by == 1 ? s.bin[0] : 0;
  s.bin[0] = by == 0 ? s.bin[0] : 0;
  s.place = place;
}

/// acc += in
HCOMP_HD inline void add(sum& acc, sum in) {
  std::uint32_t const place = acc.place > in.place ? acc.place : in.place;
  raise(acc, place);
  raise(in, place);
  for (int k = 0; k < 3; ++k) acc.bin[k] += in.bin[k];
}

/// 2^exponent, within the range of normal doubles.
HCOMP_HD inline double power_of_two(int exponent) {
  return same_bits<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// Returns the A nearest to the sum, or infinity if it overflows.
template <class A> HCOMP_HD inline A value_of(sum const& s) {
  using f = format<A>;
  if (s.place > f::highest) {
    bool const up = s.bin[0] != 0, down = s.bin[1] != 0;
    if (s.bin[2] != 0 || up == down) return std::numeric_limits<A>::quiet_NaN();
    constexpr A infinity = std::numeric_limits<A>::infinity();
    return up ? infinity : -infinity;
  }
  int const exponent = f::lowest + static_cast<int>(s.place) * f::width;
  constexpr std::int64_t unit = 1 << f::width;
  // integer arithmetic where possible: -ffast-math cannot reorder it
  if constexpr (std::is_same_v<A, float>) {
    // below 2^53 for up to most_summands: only the last step rounds
    auto const v = static_cast<double>((s.bin[0] * unit + s.bin[1]) * unit + s.bin[2]);
    return static_cast<float>(v * power_of_two(exponent));
  } else {
    // 0 <= low < 2^27, -2^26 <= middle < 2^26: only the addition of the highest bin rounds
    std::int64_t const low = s.bin[2] & (unit - 1), middle = s.bin[1] + (s.bin[2] >> f::width),
                       carry = (middle + unit / 2) >> f::width;
    double const v = static_cast<double>(s.bin[0] + carry) * static_cast<double>(unit * unit) +
                     static_cast<double>((middle - carry * unit) * unit + low);
    int const part = exponent / 2;  // 2^lowest is not representable as a double
    return v * power_of_two(part) * power_of_two(exponent - part);
  }
}

/// Bytes of the tiles of n values.
template <class A> constexpr HCOMP_HD std::size_t tiles_bytes(int n) {
  return static_cast<std::size_t>((n + tile_values - 1) / tile_values) * tile_values * 4 *
         format<A>::words;
}

/// Index of word `k` of value `i`, in words from the first tile.
template <class A> HCOMP_HD inline std::size_t word_at(int i, int k) {
  return static_cast<std::size_t>(i / tile_values * format<A>::words + k) * tile_values +
         static_cast<std::size_t>(i % tile_values);
}

template <class A> HCOMP_HD inline sum get(std::byte const* tiles, int i) {
  auto const word = [&](int k) { return load_aligned<std::uint32_t>(tiles, word_at<A>(i, k)); };
  sum s{{0, 0, 0}, 0};
  if constexpr (std::is_same_v<A, float>) {
    for (int k = 0; k < 3; ++k) {
      s.bin[k] = static_cast<std::int32_t>(word(k)) >> 2;
      s.place |= (word(k) & 3u) << (2 * k);
    }
  } else {
    std::uint32_t const upper = word(3);
    for (int k = 0; k < 3; ++k) {
      auto const high = static_cast<std::int8_t>(upper >> (8 * k) & 0xffu);
      s.bin[k] = std::int64_t{high} * (std::int64_t{1} << 32) + word(k);
    }
    s.place = upper >> 24;
  }
  return s;
}

template <class A> HCOMP_HD inline void put(std::byte* tiles, int i, sum const& s) {
  auto const write = [&](int k, std::uint32_t word) {
    store_aligned(tiles, word_at<A>(i, k), word);
  };
  if constexpr (std::is_same_v<A, float>) {
    for (int k = 0; k < 3; ++k)
      write(k, static_cast<std::uint32_t>(s.bin[k]) << 2 | (s.place >> (2 * k) & 3u));
  } else {
    std::uint32_t upper = s.place << 24;
    for (int k = 0; k < 3; ++k) {
      write(k, static_cast<std::uint32_t>(s.bin[k]));
      upper |= (static_cast<std::uint32_t>(s.bin[k] >> 32) & 0xffu) << (8 * k);
    }
    write(3, upper);
  }
}

/// Upper bound on a sum of `weight` summands with places up to `place`.
template <class A> HCOMP_HD inline double largest_at(std::uint32_t place, std::uint32_t weight) {
  using f = format<A>;
  // a summand is below half a unit of the bin above its three; a received place may have any value
  auto const sound = static_cast<int>(place < f::highest ? place : f::highest);
  int const exponent = f::lowest + (sound + 3) * f::width - 1;
  if (exponent > 1023) return std::numeric_limits<double>::infinity();
  return power_of_two(exponent > -1022 ? exponent : -1022) * weight;
}

}  // namespace hcomp::detail::binned
