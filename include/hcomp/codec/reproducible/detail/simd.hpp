#pragma once
/// @file
/// Fast path of `reproducible` for simd_group: the bytes and values of bins.hpp, one vector
/// register at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/reproducible/detail/bins.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Returns the highest place of the values, or a larger number if some value is not finite. In that
/// case the output is invalid.
template <class A, class Source> struct encode_bins;
/// acc += in
template <class A> struct merge_bins;
/// Returns whether all values are finite. If not, the output is invalid.
template <class A> struct decode_bins;

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace binned {

/// `Lanes` lanes of 32 bits of a tile: one word of `Lanes` values.
template <int Lanes> struct tile_vector {
  using word = typename aligned_vector<std::uint32_t, Lanes>::type;
  using bytes = typename aligned_vector<std::uint8_t, 4 * Lanes>::type;

  [[gnu::always_inline]] static void load(word& to, std::byte const* tile, int k) {
    std::memcpy(&to, tile + k * 4 * tile_values, sizeof(word));
  }
  [[gnu::always_inline]] static void store(std::byte* tile, int k, word const& from) {
    std::memcpy(tile + k * 4 * tile_values, &from, sizeof(word));
  }
  /// Moves bins down by `by`, independently per lane.
  [[gnu::always_inline]] static void raise(word (&bin)[3], word const& by) {
    word const none = (word)(by == 0), one = (word)(by == 1), two = (word)(by == 2);
    bin[2] = (bin[2] & none) | (bin[1] & one) | (bin[0] & two);
    bin[1] = (bin[1] & none) | (bin[0] & one);
    bin[0] &= none;
  }
};

/// `Lanes` sums in the word layout of bins.hpp.
template <class A, int Lanes> struct sum_vector;

template <int Lanes> struct sum_vector<float, Lanes> : tile_vector<Lanes> {
  using base = tile_vector<Lanes>;
  using word = typename base::word;
  word bin[3], place;  ///< bins, multiplied by four

  [[gnu::always_inline]] void get(std::byte const* tile) {
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) base::load(bin[k], tile, k);
    place = (bin[0] & 3u) | (bin[1] & 3u) << 2 | (bin[2] & 3u) << 4;
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) bin[k] &= ~3u;
  }
  [[gnu::always_inline]] void put(std::byte* tile) const {
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) base::store(tile, k, bin[k] | (place >> (2 * k) & 3u));
  }
  [[gnu::always_inline]] void raise(word const& to) {
    base::raise(bin, to - place);
    place = to;
  }
  [[gnu::always_inline]] void add(sum_vector const& in) {
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) bin[k] += in.bin[k];
  }
};

template <int Lanes> struct sum_vector<double, Lanes> : tile_vector<Lanes> {
  using base = tile_vector<Lanes>;
  using word = typename base::word;
  word bin[3], upper, place;  ///< lower 32 bits of the bins; the upper bits of each bin in a byte
                              ///< of `upper`

  [[gnu::always_inline]] void get(std::byte const* tile) {
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) base::load(bin[k], tile, k);
    base::load(upper, tile, 3);
    place = upper >> 24;
    upper &= 0xffffffu;
  }
  [[gnu::always_inline]] void put(std::byte* tile) const {
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) base::store(tile, k, bin[k]);
    base::store(tile, 3, upper | place << 24);
  }
  [[gnu::always_inline]] void raise(word const& to) {
    word const by = to - place;
    base::raise(bin, by);
    upper = (upper & (word)(by == 0)) | (upper << 8 & 0xffff00u & (word)(by == 1)) |
            (upper << 16 & 0xff0000u & (word)(by == 2));
    place = to;
  }
  [[gnu::always_inline]] void add(sum_vector const& in) {
    using bytes = typename base::bytes;
    word carries{};
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) {
      bin[k] += in.bin[k];
      carries |= (word)(bin[k] < in.bin[k]) & (1u << (8 * k));
    }
    upper = (word)((bytes)upper + (bytes)in.upper + (bytes)carries) & 0xffffffu;
  }
};

/// product = the upper or lower 16 bits of a * factor in 32-bit lanes, for lanes below 2^16.
template <bool Upper, class Word>
[[gnu::always_inline]] inline void multiply_shorts(Word& product, Word const& a,
                                                   std::uint32_t factor) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  // g++ 12 replaces a multiplication by a constant with half a dozen shifts and additions.
  using shorts = typename aligned_vector<short, static_cast<int>(sizeof(Word) / 2)>::type;
  using ints = typename aligned_vector<int, static_cast<int>(sizeof(Word) / 4)>::type;
  auto const x = (shorts)a, y = (shorts)(Word{} + factor);
  if constexpr (sizeof(Word) == 16) {
    product = Upper ? (Word)__builtin_ia32_pmulhuw128(x, y) : (Word)__builtin_ia32_pmaddwd128(x, y);
  } else if constexpr (sizeof(Word) == 32) {
    product = Upper ? (Word)__builtin_ia32_pmulhuw256(x, y) : (Word)__builtin_ia32_pmaddwd256(x, y);
  } else if constexpr (Upper) {
    product = (Word)__builtin_ia32_pmulhuw512_mask(x, y, shorts{}, ~0u);
  } else {
    product = (Word)__builtin_ia32_pmaddwd512_mask(x, y, ints{}, static_cast<unsigned short>(~0u));
  }
#else
  product = a * factor;
  if constexpr (Upper) product >>= 16;
#endif
}

/// `Lanes` values of type A in 32-bit lanes: their upper halves, and for doubles their lower
/// halves.
template <class A, int Lanes> struct value_vector {
  using f = format<A>;
  using word = typename tile_vector<Lanes>::word;
  static constexpr int upper_bits = f::mantissa_bits - (sizeof(A) == 4 ? 0 : 32);  ///< of mantissas
  word upper, lower;

  [[gnu::always_inline]] void get(A const* x) {
    if constexpr (sizeof(A) == 4) {
      std::memcpy(&upper, x, sizeof(word));
    } else {
      word first, second;
      std::memcpy(&first, x, sizeof(word));
      std::memcpy(&second, x + Lanes / 2, sizeof(word));
      halves(first, second);
    }
  }

 private:
  // Indices are written out: nvcc generates code from parameter packs that does not compile.
  [[gnu::always_inline]] void halves(word const& first, word const& second) {
    if constexpr (Lanes == 16) {
      lower = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                      26, 28, 30);
      upper = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
                                      27, 29, 31);
    } else if constexpr (Lanes == 8) {
      lower = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14);
      upper = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15);
    } else {
      lower = __builtin_shufflevector(first, second, 0, 2, 4, 6);
      upper = __builtin_shufflevector(first, second, 1, 3, 5, 7);
    }
  }
};

/// `Lanes` values of type A, each as a sum of one summand.
template <class A, int Lanes> struct piece_vector {
  using f = format<A>;
  using word = typename tile_vector<Lanes>::word;
  using ints = typename aligned_vector<std::int32_t, Lanes>::type;
  using shorts = typename aligned_vector<std::int16_t, 2 * Lanes>::type;
  word bin[3], place, height;  ///< `height` is the exponent above that of denormals

  /// As sum_of, for finite values only.
  [[gnu::always_inline]] void set(value_vector<A, Lanes> const& value) {
    using values = value_vector<A, Lanes>;
    constexpr std::uint32_t mask = (1u << f::width) - 1, half = 1u << (f::width - 1);
    constexpr int beyond = 32 - f::width;  // bits of a lane beyond a bin
    word const exponent = value.upper << 1 >> (32 - f::exponent_bits);
    word const denormal = (word)((ints)(exponent - 1) >> 31);
    height = exponent - 1 - denormal;
    multiply_shorts<true>(place, height, f::reciprocal << (16 - f::reciprocal_bits));
    word left;
    multiply_shorts<false>(left, place, f::width);
    left = height - left;
    word const right = static_cast<std::uint32_t>(f::width - 1) - left;
    word const sign = (word)((ints)value.upper >> 31);
    word const& lower = value.lower;
    word const upper = value.upper | (~denormal & (1u << values::upper_bits));
    // Two shifts replace one, because a shift by all 32 bits of a lane is undefined.
    word low, middle, high;
    if constexpr (sizeof(A) == 4) {
      low = upper << (spare_bits<A> + beyond) << left;
      middle = upper << (spare_bits<A> - 1) >> right;
      high = upper << (31 - f::mantissa_bits) >> (33 - f::width) >> right;
    } else {
      low = lower << (spare_bits<A> + beyond) << left;
      middle = lower >> right | upper << (33 - f::width) << left;
      high = (upper << (31 - values::upper_bits) | lower >> (1 + values::upper_bits)) >>
             (33 - f::width) >> right;
    }
    // to nearest: -half <= low < half; its highest bit is set if it was above that
    middle = (middle & mask) + (low >> 31) + half;
    bin[0] = high + (middle >> f::width);
    bin[1] = (middle & mask) - half;
    bin[2] = (word)((ints)low >> beyond);
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) bin[k] = (bin[k] ^ sign) - sign;
  }
  [[gnu::always_inline]] void put(std::byte* tile) const {
    using base = tile_vector<Lanes>;
    if constexpr (sizeof(A) == 4) {
      HCOMP_UNROLL for (int k = 0; k < 3; ++k)
          base::store(tile, k, bin[k] << 2 | (place >> (2 * k) & 3u));
    } else {
      HCOMP_UNROLL for (int k = 0; k < 3; ++k) base::store(tile, k, bin[k]);
      word upper = place << 24;
      HCOMP_UNROLL for (int k = 0; k < 3; ++k) upper |=
          (word)((ints)bin[k] >> 31) & (0xffu << (8 * k));
      base::store(tile, 3, upper);
    }
  }
};

/// `Lanes` doubles as two vectors: values 0, 1, 4, 5, 8, ... and values 2, 3, 6, 7, ... This is the
/// order of the unpack instructions; `put` restores the order of the values.
template <int Lanes> struct pair_vector {
  using word = typename tile_vector<Lanes>::word;
  using doubles = typename aligned_vector<double, Lanes / 2>::type;
  using floats = typename aligned_vector<float, Lanes / 2>::type;

  // Indices are written out: nvcc generates code from parameter packs that does not compile.

  /// Joins the lower and upper 32 bits of doubles.
  [[gnu::always_inline]] static void pair(doubles (&to)[2], word const& lower, word const& upper) {
    if constexpr (Lanes == 16) {
      to[0] = (doubles)__builtin_shufflevector(lower, upper, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9,
                                               25, 12, 28, 13, 29);
      to[1] = (doubles)__builtin_shufflevector(lower, upper, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11,
                                               27, 14, 30, 15, 31);
    } else if constexpr (Lanes == 8) {
      to[0] = (doubles)__builtin_shufflevector(lower, upper, 0, 8, 1, 9, 4, 12, 5, 13);
      to[1] = (doubles)__builtin_shufflevector(lower, upper, 2, 10, 3, 11, 6, 14, 7, 15);
    } else {
      to[0] = (doubles)__builtin_shufflevector(lower, upper, 0, 4, 1, 5);
      to[1] = (doubles)__builtin_shufflevector(lower, upper, 2, 6, 3, 7);
    }
  }
  [[gnu::always_inline]] static void put(double* x, doubles const (&from)[2]) {
    doubles half[2] = {from[0], from[1]};
    if constexpr (Lanes == 16) {
      half[0] = __builtin_shufflevector(from[0], from[1], 0, 1, 8, 9, 2, 3, 10, 11);
      half[1] = __builtin_shufflevector(from[0], from[1], 4, 5, 12, 13, 6, 7, 14, 15);
    } else if constexpr (Lanes == 8) {
      half[0] = __builtin_shufflevector(from[0], from[1], 0, 1, 4, 5);
      half[1] = __builtin_shufflevector(from[0], from[1], 2, 3, 6, 7);
    }
    std::memcpy(x, half, sizeof(half));
  }
  [[gnu::always_inline]] static void put(typename aligned_vector<float, Lanes>::type& to,
                                         floats const (&from)[2]) {
    if constexpr (Lanes == 16)
      to = __builtin_shufflevector(from[0], from[1], 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7,
                                   14, 15);
    else if constexpr (Lanes == 8)
      to = __builtin_shufflevector(from[0], from[1], 0, 1, 4, 5, 2, 3, 6, 7);
    else
      to = __builtin_shufflevector(from[0], from[1], 0, 1, 2, 3);
  }
};

/// value_of for `Lanes` finite sums.
template <class A, int Lanes> struct result_vector;

template <int Lanes> struct result_vector<float, Lanes> : pair_vector<Lanes> {
  using f = format<float>;
  using base = pair_vector<Lanes>;
  using typename base::doubles, typename base::word;
  using floats = typename aligned_vector<float, Lanes / 2>::type;
  typename aligned_vector<float, Lanes>::type value;
  word place;

  [[gnu::always_inline]] void set(std::byte const* tile) {
    word w[3];
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) tile_vector<Lanes>::load(w[k], tile, k);
    place = (w[0] & 3u) | (w[1] << 2 & 12u) | (w[2] << 4 & 48u);
    // A bin, multiplied by four, becomes the double `zero` + bin when its word is joined with a
    // constant.
    constexpr double zero = 0x1p52 + 0x1p31, unit = 1 << f::width;
    doubles bin[3][2], scale[2];
    HCOMP_UNROLL for (int k = 0; k < 3; ++k)
        base::pair(bin[k], (w[k] & ~3u) ^ 0x80000000u, word{} + 0x43300000u);
    word exponent;
    multiply_shorts<false>(exponent, place, f::width);
    base::pair(scale, word{}, (exponent + static_cast<std::uint32_t>(1023 - 2 + f::lowest)) << 20);
    floats half[2];
    HCOMP_UNROLL for (int i = 0; i < 2; ++i) {
      // every step is exact under any rounding mode, except the last one
      doubles const first = bin[0][i] - (zero + zero / unit + zero / (unit * unit));
      half[i] = __builtin_convertvector(((first * unit + bin[1][i]) * unit + bin[2][i]) * scale[i],
                                        floats);
    }
    base::put(value, half);
  }
  [[gnu::always_inline]] void divide(float divisor) { value /= divisor; }
  [[gnu::always_inline]] void put(float* x) const { std::memcpy(x, &value, sizeof(value)); }
};

template <int Lanes> struct result_vector<double, Lanes> : pair_vector<Lanes> {
  using f = format<double>;
  using base = pair_vector<Lanes>;
  using typename base::doubles, typename base::word;
  doubles value[2];  ///< in the order of pair_vector
  word place;

  [[gnu::always_inline]] void set(std::byte const* tile) {
    word w[4];
    HCOMP_UNROLL for (int k = 0; k < 4; ++k) tile_vector<Lanes>::load(w[k], tile, k);
    place = w[3] >> 24;
    // A signed 40-bit bin becomes the double `zero` + bin when its words are joined with a
    // constant.
    constexpr double zero = 0x1p52 + 0x1p39;
    doubles bin[3][2], scale[2][2];
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) {
      word const upper = (w[3] >> (8 * k) & 0xffu) ^ 0x43300080u;
      base::pair(bin[k], w[k], upper);
    }
    // 2^lowest is not representable as a double
    word half, rest;
    multiply_shorts<false>(half, place, f::width / 2);
    rest = half + place;
    static_assert(f::width % 2 == 1);
    constexpr int least = f::lowest / 2;
    base::pair(scale[0], word{}, (half + static_cast<std::uint32_t>(1023 + least)) << 20);
    base::pair(scale[1], word{},
               (rest + static_cast<std::uint32_t>(1023 + f::lowest - least)) << 20);
    HCOMP_UNROLL for (int i = 0; i < 2; ++i) {
      // every step is exact under any rounding mode, until the last addition
      constexpr double shift = 0x1.8p52, above = zero * 0x1p-25;
      doubles const carry =
          (bin[1][i] * 0x1p-25 + shift) - shift;          // carry to the highest bin, plus `above`
      doubles const middle = bin[1][i] - carry * 0x1p25;  // remainder: up to 2^25
      doubles const lower = (middle * 0x1p27 - zero) + bin[2][i];
      doubles const upper = (bin[0][i] - (zero + above / 4)) * 4 + carry;
      value[i] = (upper * 0x1p52 + lower) * scale[0][i] * scale[1][i];
    }
  }
  [[gnu::always_inline]] void divide(double divisor) {
    HCOMP_UNROLL for (auto& v : value) v /= divisor;
  }
  [[gnu::always_inline]] void put(double* x) const { base::put(x, value); }
};

/// Calls part(i, count, tile) for every part of the tiles of n values: `count` values from the i-th
/// on are in this part. Parts behind the last value have count 0.
template <class A, int Lanes, class Bytes, class Part>
[[gnu::always_inline]] inline void for_each_part(int n, Bytes* tiles, Part& part) {
  int first = 0;
  for (; first + tile_values <= n; first += tile_values) {
    for (int at = 0; at < tile_values; at += Lanes) part(first + at, Lanes, tiles + 4 * at);
    tiles += 4 * format<A>::words * tile_values;
  }
  for (int at = 0; first < n && at < tile_values; at += Lanes) {
    int const left = n - first - at;
    part(first + at, left < 0 ? 0 : left < Lanes ? left : Lanes, tiles + 4 * at);
  }
}

/// The maximum of these places or heights, each in the lower half of its lane.
template <class Shorts>
[[gnu::always_inline]] inline std::uint32_t largest_of(Shorts const& shorts) {
  std::uint32_t largest = 0;
  for (std::size_t k = 0; k < sizeof(Shorts) / sizeof(shorts[0]); ++k)
    if (auto const one = static_cast<std::uint32_t>(shorts[k]); one > largest) largest = one;
  return largest;
}

// The work on one part of a tile. These are structs, because nvcc ignores always_inline on lambdas.

template <class A, int Lanes, class Source> struct encode_part {
  using pieces = piece_vector<A, Lanes>;
  using shorts = typename pieces::shorts;
  Source const& x;
  shorts highest{};

  [[gnu::always_inline]] void operator()(int i, int count, std::byte* tile) {
    value_vector<A, Lanes> v;
    if (std::is_pointer_v<Source> && count == Lanes) {
      if constexpr (std::is_pointer_v<Source>) v.get(x + i);
    } else {
      A values[Lanes] = {};
      for (int k = 0; k < count; ++k) values[k] = x[static_cast<std::size_t>(i + k)];
      v.get(values);
    }
    pieces p;
    p.set(v);
    p.put(tile);
    highest = (shorts)p.height > highest ? (shorts)p.height : highest;
  }
};

template <class A, int Lanes> struct merge_part {
  using word = typename tile_vector<Lanes>::word;
  std::byte const* acc;
  std::byte const* in;

  [[gnu::always_inline]] void operator()(int, int, std::byte* tile) const {
    sum_vector<A, Lanes> mine, more;
    mine.get(tile);
    more.get(in + (tile - acc));
    if (any_bit(mine.place ^ more.place)) {
      auto const above = (word)(more.place > mine.place);
      auto const place = (more.place & above) | (mine.place & ~above);
      mine.raise(place);
      more.raise(place);
    }
    mine.add(more);
    mine.put(tile);
  }
};

template <class A, int Lanes> struct decode_part {
  using shorts = typename aligned_vector<std::int16_t, 2 * Lanes>::type;
  A divisor;
  A* x;
  shorts highest{};

  [[gnu::always_inline]] void operator()(int i, int count, std::byte const* tile) {
    result_vector<A, Lanes> r;
    r.set(tile);
    if (divisor != 1) r.divide(divisor);
    highest = (shorts)r.place > highest ? (shorts)r.place : highest;
    if (count == Lanes) {
      r.put(x + i);
    } else {
      A values[Lanes];
      r.put(values);
      std::memcpy(x + i, values, static_cast<std::size_t>(count) * sizeof(A));
    }
  }
};

}  // namespace binned

template <class A, class Source> struct encode_bins {
  Source x;
  int n;
  std::byte* tiles;

  template <int Lanes> [[gnu::always_inline]] std::uint32_t run() const {
    binned::encode_part<A, Lanes, Source> part{x};
    binned::for_each_part<A, Lanes>(n, tiles, part);
    std::uint32_t const height = binned::largest_of(part.highest);
    constexpr std::uint32_t beyond = (1u << binned::format<A>::exponent_bits) - 2;
    return height < beyond ? binned::place_of<A>(height) : binned::format<A>::nonfinite;
  }
};

template <class A> struct merge_bins {
  std::byte* acc;
  std::byte const* in;
  int n;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    binned::merge_part<A, Lanes> const part{acc, in};
    binned::for_each_part<A, Lanes>(n, acc, part);
    return true;
  }
};

template <class A> struct decode_bins {
  std::byte const* tiles;
  int n;
  A divisor;
  A* x;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    binned::decode_part<A, Lanes> part{divisor, x};
    binned::for_each_part<A, Lanes>(n, tiles, part);
    return binned::largest_of(part.highest) <= binned::format<A>::highest;
  }
};

#pragma GCC diagnostic pop

#endif

}  // namespace hcomp::detail
