#pragma once
/// @file
/// Integers in as many bits as the longest of them takes, one behind the other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>
#endif

namespace hcomp::detail {

/// @param width  bits of each, 0 to 64
HCOMP_HD inline std::size_t packed_bytes(int width, std::size_t n) {
  return (n * static_cast<std::size_t>(width) + 7) / 8;
}
/// The lowest bits of a two's complement.
HCOMP_HD inline std::uint64_t without_sign(std::int64_t value, int width) {
  return width == 0 ? 0 : static_cast<std::uint64_t>(value) & ~std::uint64_t{0} >> (64 - width);
}
/// The opposite of without_sign.
HCOMP_HD inline std::int64_t with_sign(std::uint64_t low_bits, int width) {
  return width == 0 ? 0 : static_cast<std::int64_t>(low_bits << (64 - width)) >> (64 - width);
}

/// `width` bits, and others above them, from bit `from` of a byte on; they may be in 9 bytes.
/// @param given  bytes that may be read
HCOMP_HD inline std::uint64_t bits_of_bytes(std::byte const* in, [[maybe_unused]] std::size_t given,
                                            int from, int width) {
#if !defined(__CUDA_ARCH__)  // where bytes that are not aligned are loaded one by one
  if (given >= sizeof(std::uint64_t) && from + width <= 64) return load<std::uint64_t>(in) >> from;
#endif
  if (width == 0) return 0;
  std::uint64_t bits = static_cast<std::uint64_t>(*in) >> from;
  for (int done = 8 - from; done < width; done += 8)
    bits |= static_cast<std::uint64_t>(*++in) << done;
  return bits;
}

/// @param out  packed_bytes(width, n)
HCOMP_HD inline void pack_integers(std::int64_t const* q, int width, std::size_t n,
                                   std::byte* out) {
  std::uint64_t word = 0;
  int used = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const bits = without_sign(q[i], width);
    word |= bits << used;
    used += width;
    if (used < 64) continue;
    store(out, 0, word);
    out += sizeof(word);
    used -= 64;
    word = used == 0 ? 0 : bits >> (width - used);
  }
  for (; used > 0; used -= 8, word >>= 8) *out++ = static_cast<std::byte>(word);
}
HCOMP_HD inline void unpack_integers(std::byte const* in, int width, std::size_t n,
                                     std::int64_t* q) {
  std::size_t const bytes = packed_bytes(width, n);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const bit = i * static_cast<std::size_t>(width), at = bit / 8;
    q[i] = with_sign(bits_of_bytes(in + at, bytes - at, static_cast<int>(bit % 8), width), width);
  }
}

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)

// ---- Eight at a time, by processors that can put the bytes of 64 into any order
// Of the intrinsics with and without a mask, those with one: g++ 12 warns of the others' insides.

#define HCOMP_TARGET_VBMI gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,bmi2,popcnt")

inline bool puts_bytes_in_order() {
  static bool const does = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("bmi2");
  return best_simd_level() == simd_level::avx512 && does;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Packs and unpacks eight integers, which are as many bytes as each has bits.
class eight_integers_packer {
 public:
  static constexpr int most_bits = 57;  ///< which are in 8 bytes wherever they begin

  /// @param width  of each integer, 0 to most_bits
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] explicit eight_integers_packer(int width)
      : width_(width), bit_(begins_of(width)) {}

  [[gnu::always_inline]] std::size_t bytes() const { return static_cast<std::size_t>(width_); }

  /// Writes 64 bytes, of which the first ones count.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void pack(__m512i const& q, std::byte* out) const {
    if (width_ <= 8) {
      std::uint64_t const kept = 0x0101010101010101u * ((1u << width_) - 1);  // of each byte
      auto const low =
          static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_maskz_cvtepi64_epi8(all, q)));
      return store(out, 0, _pext_u64(low, kept));
    }
    auto const& order = orders[bytes()];
    __m512i const bits = _mm512_and_si512(q, _mm512_set1_epi64((std::int64_t{1} << width_) - 1));
    __m512i const moved =
        _mm512_maskz_sllv_epi64(all, bits, _mm512_and_si512(bit_, _mm512_set1_epi64(7)));
    __m512i const first =
        _mm512_maskz_permutexvar_epi8(all_bytes, _mm512_loadu_si512(order.first), moved);
    __m512i const second =
        _mm512_maskz_permutexvar_epi8(order.shared, _mm512_loadu_si512(order.second), moved);
    _mm512_storeu_si512(out, _mm512_or_si512(first, second));
  }
  /// Reads that many bytes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void unpack(std::byte const* in, __m512i& q) const {
    unpack(in, bytes(), q);
  }
  /// Zeros behind the integers that are in the first bytes alone.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void unpack(std::byte const* in, std::size_t given,
                                                        __m512i& q) const {
    // eight bytes from the first of each on
    __m512i const places = _mm512_maskz_add_epi8(
        all_bytes,
        _mm512_maskz_shuffle_epi8(all_bytes, _mm512_maskz_srli_epi64(all, bit_, 3),
                                  _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0,
                                                   0x0808080808080808, 0, 0x0808080808080808, 0)),
        _mm512_set1_epi64(0x0706050403020100));
    __m512i const packed = _mm512_maskz_loadu_epi8((__mmask64{1} << given) - 1, in);
    __m512i const bits =
        _mm512_maskz_srlv_epi64(all, _mm512_maskz_permutexvar_epi8(all_bytes, places, packed),
                                _mm512_and_si512(bit_, _mm512_set1_epi64(7)));
    __m128i const above = _mm_cvtsi32_si128(64 - width_);
    q = _mm512_maskz_sra_epi64(all, _mm512_maskz_sll_epi64(all, bits, above), above);
  }

 private:
  static constexpr __mmask8 all = 0xff;
  static constexpr __mmask64 all_bytes = ~__mmask64{0};

  /// Which integer's byte each of the packed ones is.
  struct order {
    std::uint8_t first[64];   ///< for vpermb
    std::uint8_t second[64];  ///< of the integer behind that, which begins in the same byte
    std::uint64_t shared;     ///< bytes that have a second
  };
  static constexpr auto orders = [] {
    std::array<order, most_bits + 1> all_orders{};
    for (std::size_t width = 8; width <= most_bits; ++width)
      for (std::size_t k = 0; k < width; ++k) {
        std::size_t const i = 8 * k / width, next = i + 1;
        all_orders[width].first[k] = static_cast<std::uint8_t>(8 * i + k - i * width / 8);
        if (next == 8 || next * width / 8 != k) continue;
        all_orders[width].second[k] = static_cast<std::uint8_t>(8 * next);
        all_orders[width].shared |= std::uint64_t{1} << k;
      }
    return all_orders;
  }();

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i begins_of(int width) {
    return _mm512_maskz_mul_epu32(all, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                  _mm512_set1_epi64(width));
  }

  int width_;
  __m512i bit_;  ///< where each integer begins
};

#pragma GCC diagnostic pop
#endif

}  // namespace hcomp::detail
