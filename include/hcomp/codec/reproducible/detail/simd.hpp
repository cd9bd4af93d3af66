#pragma once
/// @file
/// Fast path of `reproducible` for simd_group: the bytes and values of bins.hpp, as many at a time
/// as the processor's vectors have lanes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/reproducible/detail/bins.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Returns the highest place of the values, or more if not all are finite: then what is written is
/// not what it should be.
template <class A, class Source> struct encode_bins;
/// acc += in
template <class A> struct merge_bins;
/// Returns whether all values are finite. If not, what is written is not what it should be.
template <class A> struct decode_bins;

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace binned {

/// `Lanes` lanes of 32 bits of a tile, each of another value: what its words are made of.
template <int Lanes> struct tile_vector {
  using word = typename aligned_vector<std::uint32_t, Lanes>::type;
  using bytes = typename aligned_vector<std::uint8_t, 4 * Lanes>::type;

  [[gnu::always_inline]] static void load(word& to, std::byte const* tile, int k) {
    std::memcpy(&to, tile + k * 4 * tile_values, sizeof(word));
  }
  [[gnu::always_inline]] static void store(std::byte* tile, int k, word const& from) {
    std::memcpy(tile + k * 4 * tile_values, &from, sizeof(word));
  }
  /// Moves bins down by `by`, each lane for itself.
  [[gnu::always_inline]] static void raise(word (&bin)[3], word const& by) {
    word const none = (word)(by == 0), one = (word)(by == 1), two = (word)(by == 2);
    bin[2] = (bin[2] & none) | (bin[1] & one) | (bin[0] & two);
    bin[1] = (bin[1] & none) | (bin[0] & one);
    bin[0] &= none;
  }
};

/// Sums, in the words that bins.hpp says.
template <class A, int Lanes> struct sum_vector;

template <int Lanes> struct sum_vector<float, Lanes> : tile_vector<Lanes> {
  using base = tile_vector<Lanes>;
  using word = typename base::word;
  word bin[3], place;  ///< bins four times as large

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
  word bin[3], upper, place;  ///< lower 32 bits of bins; their upper ones, in a byte each

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

/// `Lanes` values of type A as sums of one, in lanes as wide as they are.
template <class A, int Lanes> struct piece_vector {
  using f = format<A>;
  using value_bits = typename f::bits;
  using bits = typename aligned_vector<value_bits, Lanes>::type;
  using shorts =
      typename aligned_vector<std::uint16_t, Lanes* static_cast<int>(sizeof(A)) / 2>::type;
  static constexpr std::uint16_t width = f::width;
  bits bin[3], place;

  /// sum_of, but for the bins of NaN and infinity.
  [[gnu::always_inline]] void set(bits const& value) {
    constexpr value_bits one = 1, mask = (one << f::width) - 1, half = one << (f::width - 1),
                         all_ones = (one << f::exponent_bits) - 1;
    bits const exponent = value >> f::mantissa_bits & all_ones, denormal = (bits)(exponent == 0);
    bits const mantissa =
        ((value & ((one << f::mantissa_bits) - 1)) | (~denormal & (one << f::mantissa_bits)))
        << spare_bits<A>;
    bits const height = exponent - 1 - denormal;
    divide_by_width(place, height);
    bits const left = height - (bits)((shorts)place * width);
    bits const low = ((mantissa << left) & mask) + half;
    bits const high = (mantissa >> (f::width - left)) + half + (low >> f::width);
    bits const sign = bits{} - (value >> (f::mantissa_bits + f::exponent_bits));
    bits const magnitudes[] = {high >> f::width, (high & mask) - half, (low & mask) - half};
    HCOMP_UNROLL for (int k = 0; k < 3; ++k) bin[k] = (magnitudes[k] ^ sign) - sign;
    place |= (bits)(exponent == all_ones) & f::nonfinite;
  }
  [[gnu::always_inline]] void put(std::byte* tile) const {
    if constexpr (sizeof(A) == 4) {
      HCOMP_UNROLL for (int k = 0; k < 3; ++k)
          write(tile, k, bin[k] << 2 | (place >> (2 * k) & 3u));
    } else {
      HCOMP_UNROLL for (int k = 0; k < 3; ++k) write(tile, k, bin[k]);
      write(tile, 3,
            (bin[0] >> 32 & 0xffu) | (bin[1] >> 24 & 0xff00u) | (bin[2] >> 16 & 0xff0000u) |
                place << 24);
    }
  }

 private:
  [[gnu::always_inline]] static void write(std::byte* tile, int k, bits const& from) {
    auto const word =
        __builtin_convertvector(from, typename aligned_vector<std::uint32_t, Lanes>::type);
    std::memcpy(tile + k * 4 * tile_values, &word, sizeof(word));
  }
  // heights are below 2^11, places below 2^7: products of 16 bits are quicker than those of lanes
  [[gnu::always_inline]] static void divide_by_width(bits& quotient, bits const& height) {
    if constexpr (sizeof(A) == 4)
      quotient = (bits)((shorts)height * static_cast<std::uint16_t>(f::reciprocal));
    else
      multiply_low_halves(quotient, height, f::reciprocal);
    quotient >>= f::reciprocal_bits;
  }
};

/// value_of of `Lanes` finite sums.
template <class A, int Lanes> struct result_vector;

template <int Lanes> struct result_vector<float, Lanes> {
  using f = format<float>;
  using word = typename aligned_vector<std::uint32_t, Lanes>::type;
  using ints = typename aligned_vector<std::int32_t, Lanes>::type;
  using longs = typename aligned_vector<std::uint64_t, Lanes>::type;
  using doubles = typename aligned_vector<double, Lanes>::type;
  using shorts = typename aligned_vector<std::uint16_t, 2 * Lanes>::type;
  typename aligned_vector<float, Lanes>::type value;
  word place;

  [[gnu::always_inline]] void set(std::byte const* tile) {
    sum_vector<float, Lanes> s;
    s.get(tile);
    place = s.place;
    constexpr double unit = 1 << f::width;
    doubles v = __builtin_convertvector((ints)s.bin[0] >> 2, doubles) * (unit * unit) +
                __builtin_convertvector((ints)s.bin[1] >> 2, doubles) * unit +
                __builtin_convertvector((ints)s.bin[2] >> 2, doubles);
    word const exponent =
        place * static_cast<std::uint32_t>(f::width) + static_cast<std::uint32_t>(1023 + f::lowest);
    v *= (doubles)(__builtin_convertvector(exponent, longs) << 52);
    value = __builtin_convertvector(v, decltype(value));
  }
};

template <int Lanes> struct result_vector<double, Lanes> {
  using f = format<double>;
  using word = typename aligned_vector<std::uint32_t, Lanes>::type;
  using longs = typename aligned_vector<std::uint64_t, Lanes>::type;
  using doubles = typename aligned_vector<double, Lanes>::type;
  using shorts = typename aligned_vector<std::uint16_t, 4 * Lanes>::type;
  doubles value;
  longs place;

  [[gnu::always_inline]] void set(std::byte const* tile) {
    constexpr std::uint64_t one = 1, top = one << (f::bin_bits - 1);
    constexpr double unit = 1 << f::width;
    longs w[4];
    HCOMP_UNROLL for (int k = 0; k < 4; ++k) {
      word read;
      std::memcpy(&read, tile + k * 4 * tile_values, sizeof(read));
      w[k] = __builtin_convertvector(read, longs);
    }
    place = w[3] >> 24;
    // of 40 bits with a sign; no processor before AVX-512 shifts it along in 64
    longs const raised = (w[2] | (w[3] >> 16 & 0xffu) << 32) ^ top;
    longs const low = raised & ((one << f::width) - 1);
    longs middle = w[1] | (w[3] >> 8 & 0xffu) << 32, high = w[0] | (w[3] & 0xffu) << 32;
    extend(middle);
    extend(high);
    middle += (raised >> f::width) - (top >> f::width);
    constexpr std::uint64_t far = 4 * top + (one << (f::width - 1));
    longs const carry = ((middle + far) >> f::width) - (4 * top >> f::width);
    middle -= carry << f::width;
    high += carry;
    doubles h, m, l;
    to_double(high, h);
    to_double(middle, m);
    to_double(low, l);
    doubles v = h * (unit * unit) + (m * unit + l);
    longs const exponent = (longs)((shorts)place * static_cast<std::uint16_t>(f::width)),
                part = exponent >> 1;
    v *= (doubles)((part + (1023 + f::lowest / 2)) << 52);
    value = v * (doubles)((exponent - part + (1023 + f::lowest - f::lowest / 2)) << 52);
  }

 private:
  [[gnu::always_inline]] static void extend(longs& bin) {
    constexpr std::uint64_t top = std::uint64_t{1} << (f::bin_bits - 1);
    bin = (bin ^ top) - top;
  }
  /// For |integer| < 2^51: exact, and in every instruction set.
  [[gnu::always_inline]] static void to_double(longs const& integer, doubles& out) {
    out = (doubles)(integer + 0x4338000000000000u) - 0x1.8p52;
  }
};

/// Calls f(i, count, tile): `count` values from the i-th on are in this part of a tile. For every part
/// of the tiles of n values; those behind the last value have none.
template <class A, int Lanes, class Bytes, class F>
[[gnu::always_inline]] inline void for_each_part(int n, Bytes* tiles, F const& f) {
  int first = 0;
  for (; first + tile_values <= n; first += tile_values) {
    for (int part = 0; part < tile_values; part += Lanes) f(first + part, Lanes, tiles + 4 * part);
    tiles += 4 * format<A>::words * tile_values;
  }
  for (int part = 0; first < n && part < tile_values; part += Lanes) {
    int const left = n - first - part;
    f(first + part, left < 0 ? 0 : left < Lanes ? left : Lanes, tiles + 4 * part);
  }
}

}  // namespace binned

template <class A, class Source> struct encode_bins {
  Source x;
  int n;
  std::byte* tiles;

  template <int Words> [[gnu::always_inline]] std::uint32_t run() const {
    constexpr int lanes = Words * 4 / static_cast<int>(sizeof(A));
    using pieces = binned::piece_vector<A, lanes>;
    typename pieces::shorts highest{};
    binned::for_each_part<A, lanes>(
        n, tiles, [&](int i, int count, std::byte* tile) __attribute__((always_inline)) {
          typename aligned_vector<A, lanes>::type v{};
          if constexpr (std::is_pointer_v<Source>) {
            std::memcpy(&v, x + i, static_cast<std::size_t>(count) * sizeof(A));
          } else {
            for (int k = 0; k < count; ++k) v[k] = x[static_cast<std::size_t>(i + k)];
          }
          pieces p;
          p.set((typename pieces::bits)v);
          p.put(tile);
          highest = (typename pieces::shorts)p.place > highest ? (typename pieces::shorts)p.place
                                                               : highest;
        });
    std::uint32_t place = 0;
    for (int k = 0; k < 2 * Words; ++k)
      if (highest[k] > place) place = highest[k];
    return place;
  }
};

template <class A> struct merge_bins {
  std::byte* acc;
  std::byte const* in;
  int n;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    binned::for_each_part<A, Lanes>(
        n, acc, [&](int, int, std::byte* tile) __attribute__((always_inline)) {
          binned::sum_vector<A, Lanes> mine, more;
          mine.get(tile);
          more.get(in + (tile - acc));
          if (any_bit(mine.place ^ more.place)) {
            auto const above = (typename binned::tile_vector<Lanes>::word)(more.place > mine.place);
            auto const place = (more.place & above) | (mine.place & ~above);
            mine.raise(place);
            more.raise(place);
          }
          mine.add(more);
          mine.put(tile);
        });
    return true;
  }
};

template <class A> struct decode_bins {
  std::byte const* tiles;
  int n;
  A divisor;
  A* x;

  template <int Words> [[gnu::always_inline]] bool run() const {
    constexpr int lanes = Words * 4 / static_cast<int>(sizeof(A));
    using result = binned::result_vector<A, lanes>;
    decltype(result::place) beyond{};
    binned::for_each_part<A, lanes>(
        n, tiles, [&](int i, int count, std::byte const* tile) __attribute__((always_inline)) {
          result r;
          r.set(tile);
          if (divisor != 1) r.value /= divisor;
          beyond |= (decltype(result::place))(r.place > binned::format<A>::highest);
          std::memcpy(x + i, &r.value, static_cast<std::size_t>(count) * sizeof(A));
        });
    return !any_bit(beyond);
  }
};

#pragma GCC diagnostic pop

#endif

}  // namespace hcomp::detail
