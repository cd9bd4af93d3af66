#pragma once
/// @file
/// Vectors of 64 bytes on processors that can put those into any order: what instructions are called
/// for integers of 16, 32 and 64 bits.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

// Of the intrinsics with and without a mask, those with one: g++ 12 warns of the others' insides.

#define HCOMP_TARGET_VBMI \
  gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")

/// Whether functions with that attribute may be called.
inline bool puts_bytes_in_order() {
  static bool const does = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  }();
  return best_simd_level() == simd_level::avx512 && does;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

template <class Lane>
using lanes_512 = typename aligned_vector<Lane, 64 / static_cast<int>(sizeof(Lane))>::type;

/// Instructions for vectors of such lanes. A mask has a bit for each lane.
template <class Lane> struct lanes_of;

template <> struct lanes_of<std::uint16_t> {
  using lanes = lanes_512<std::uint16_t>;
  using mask = __mmask32;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask not_zero(lanes const& of) {
    return _mm512_test_epi16_mask((__m512i)of, (__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_more(lanes& to, lanes const& than) {
    to = (lanes)_mm512_maskz_max_epu16(all, (__m512i)to, (__m512i)than);
  }
  /// The lanes that are marked, before the others, which are 0.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void compress(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_compress_epi16(marked, (__m512i)of);
  }
  /// The opposite.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void expand(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_expand_epi16(marked, (__m512i)of);
  }
  /// Lane i = lane i + by, modulo their number.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void rotate(lanes& of, int by) {
    lanes places;
    count_lanes(places);
    places += static_cast<std::uint16_t>(by);
    of = (lanes)_mm512_maskz_permutexvar_epi16(all, (__m512i)places, (__m512i)of);
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::uint64_t largest_of(lanes const& of) {
    __m256i const half = _mm256_max_epu16(_mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 0),
                                          _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 1));
    __m128i const eight =
        _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    __m128i const least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
    return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(least));
  }

 private:
  static constexpr mask all = static_cast<mask>(~mask{0});

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void count_lanes(lanes& places) {
    HCOMP_UNROLL for (unsigned i = 0; i < 32; ++i) places[i] = static_cast<std::uint16_t>(i);
  }
};

template <> struct lanes_of<std::uint32_t> {
  using lanes = lanes_512<std::uint32_t>;
  using mask = __mmask16;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask not_zero(lanes const& of) {
    return _mm512_test_epi32_mask((__m512i)of, (__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask signs(lanes const& of) {
    return _mm512_movepi32_mask((__m512i)of);
  }
  /// All bits of the lanes that are marked.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void where(mask marked, lanes& bits) {
    bits = (lanes)_mm512_movm_epi32(marked);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_more(lanes& to, lanes const& than) {
    to = (lanes)_mm512_maskz_max_epu32(all, (__m512i)to, (__m512i)than);
  }
  /// The lanes that are marked, before the others, which are 0.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void compress(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_compress_epi32(marked, (__m512i)of);
  }
  /// The opposite.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void expand(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_expand_epi32(marked, (__m512i)of);
  }
  /// Lane i = lane i + by, modulo their number.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void rotate(lanes& of, int by) {
    lanes places;
    count_lanes(places);
    places += static_cast<std::uint32_t>(by);
    of = (lanes)_mm512_maskz_permutexvar_epi32(all, (__m512i)places, (__m512i)of);
  }

  // ---- Floats and their bits

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask nan(lanes const& of) {
    return _mm512_fpclass_ps_mask((__m512)of, 0x81);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask nonfinite(lanes const& of) {
    return _mm512_fpclass_ps_mask((__m512)of, 0x99);
  }
  /// Lanes that are not marked stay as they are.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void set(lanes& to, mask marked,
                                                            lanes const& by) {
    to = (lanes)_mm512_mask_mov_epi32((__m512i)to, marked, (__m512i)by);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_less(lanes& to, mask marked,
                                                                  lanes const& than) {
    to = (lanes)_mm512_mask_min_epu32((__m512i)to, marked, (__m512i)to, (__m512i)than);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_common(lanes& bits, mask marked,
                                                                    lanes const& with) {
    bits = (lanes)_mm512_mask_and_epi32((__m512i)bits, marked, (__m512i)bits, (__m512i)with);
  }
  /// By up to all bits, and more.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_up(lanes& bits, int by) {
    bits = (lanes)_mm512_maskz_sll_epi32(all, (__m512i)bits, _mm_cvtsi32_si128(by));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_down(lanes& bits, int by) {
    bits = (lanes)_mm512_maskz_srl_epi32(all, (__m512i)bits, _mm_cvtsi32_si128(by));
  }
  /// Lane i = lane i - By; the first ones are the last ones of `before`.
  template <int By>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void move(lanes const& before, lanes const& of,
                                                             lanes& moved) {
    moved = (lanes)_mm512_maskz_alignr_epi32(all, (__m512i)of, (__m512i)before, 16 - By);
  }
  template <int Place>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void repeat(lanes const& of, lanes& in_all) {
    in_all = (lanes)_mm512_maskz_permutexvar_epi32(all, _mm512_set1_epi32(Place), (__m512i)of);
  }

  // ---- Of all lanes

  /// The least one of a, and of b.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void least_of(lanes const& a, lanes const& b,
                                                                 std::uint64_t (&least)[2]) {
    __m512i both = less(_mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0x44),
                        _mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0xee));
    both = less(both, _mm512_maskz_shuffle_i64x2(0xff, both, both, 0xb1));
    both = less(both, _mm512_maskz_shuffle_epi32(0xffff, both, _MM_PERM_BADC));
    both = less(both, _mm512_maskz_shuffle_epi32(0xffff, both, _MM_PERM_CDAB));
    least[0] = ((lanes)both)[0];
    least[1] = ((lanes)both)[16 / 2];
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::uint64_t largest_of(lanes const& of) {
    __m256i const four =
        _mm256_maskz_max_epu32(0xff, _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 0),
                               _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 1));
    __m128i two =
        _mm_maskz_max_epu32(0xf, _mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_maskz_max_epu32(0xf, two, _mm_unpackhi_epi64(two, two));
    two = _mm_maskz_max_epu32(15, two, _mm_maskz_shuffle_epi32(15, two, _MM_PERM_CDAB));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(two));
  }

 private:
  static constexpr mask all = static_cast<mask>(~mask{0});

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void count_lanes(lanes& places) {
    HCOMP_UNROLL for (unsigned i = 0; i < 16; ++i) places[i] = static_cast<std::uint32_t>(i);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i less(__m512i const& a,
                                                                __m512i const& b) {
    return _mm512_maskz_min_epu32(all, a, b);
  }
};

template <> struct lanes_of<std::uint64_t> {
  using lanes = lanes_512<std::uint64_t>;
  using mask = __mmask8;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask not_zero(lanes const& of) {
    return _mm512_test_epi64_mask((__m512i)of, (__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask signs(lanes const& of) {
    return _mm512_movepi64_mask((__m512i)of);
  }
  /// All bits of the lanes that are marked.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void where(mask marked, lanes& bits) {
    bits = (lanes)_mm512_movm_epi64(marked);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_more(lanes& to, lanes const& than) {
    to = (lanes)_mm512_maskz_max_epu64(all, (__m512i)to, (__m512i)than);
  }
  /// The lanes that are marked, before the others, which are 0.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void compress(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_compress_epi64(marked, (__m512i)of);
  }
  /// The opposite.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void expand(mask marked, lanes& of) {
    of = (lanes)_mm512_maskz_expand_epi64(marked, (__m512i)of);
  }
  /// Lane i = lane i + by, modulo their number.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void rotate(lanes& of, int by) {
    lanes places;
    count_lanes(places);
    places += static_cast<std::uint64_t>(by);
    of = (lanes)_mm512_maskz_permutexvar_epi64(all, (__m512i)places, (__m512i)of);
  }

  // ---- Floats and their bits

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask nan(lanes const& of) {
    return _mm512_fpclass_pd_mask((__m512d)of, 0x81);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask nonfinite(lanes const& of) {
    return _mm512_fpclass_pd_mask((__m512d)of, 0x99);
  }
  /// Lanes that are not marked stay as they are.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void set(lanes& to, mask marked,
                                                            lanes const& by) {
    to = (lanes)_mm512_mask_mov_epi64((__m512i)to, marked, (__m512i)by);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_less(lanes& to, mask marked,
                                                                  lanes const& than) {
    to = (lanes)_mm512_mask_min_epu64((__m512i)to, marked, (__m512i)to, (__m512i)than);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_common(lanes& bits, mask marked,
                                                                    lanes const& with) {
    bits = (lanes)_mm512_mask_and_epi64((__m512i)bits, marked, (__m512i)bits, (__m512i)with);
  }
  /// By up to all bits, and more.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_up(lanes& bits, int by) {
    bits = (lanes)_mm512_maskz_sll_epi64(all, (__m512i)bits, _mm_cvtsi32_si128(by));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_down(lanes& bits, int by) {
    bits = (lanes)_mm512_maskz_srl_epi64(all, (__m512i)bits, _mm_cvtsi32_si128(by));
  }
  /// Lane i = lane i - By; the first ones are the last ones of `before`.
  template <int By>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void move(lanes const& before, lanes const& of,
                                                             lanes& moved) {
    moved = (lanes)_mm512_maskz_alignr_epi64(all, (__m512i)of, (__m512i)before, 8 - By);
  }
  template <int Place>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void repeat(lanes const& of, lanes& in_all) {
    in_all = (lanes)_mm512_maskz_permutexvar_epi64(all, _mm512_set1_epi64(Place), (__m512i)of);
  }

  // ---- Of all lanes

  /// The least one of a, and of b.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void least_of(lanes const& a, lanes const& b,
                                                                 std::uint64_t (&least)[2]) {
    __m512i both = less(_mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0x44),
                        _mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0xee));
    both = less(both, _mm512_maskz_shuffle_i64x2(0xff, both, both, 0xb1));
    both = less(both, _mm512_maskz_shuffle_epi32(0xffff, both, _MM_PERM_BADC));
    least[0] = ((lanes)both)[0];
    least[1] = ((lanes)both)[8 / 2];
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::uint64_t largest_of(lanes const& of) {
    __m256i const four =
        _mm256_maskz_max_epu64(0xf, _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 0),
                               _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 1));
    __m128i two =
        _mm_maskz_max_epu64(0x3, _mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    two = _mm_maskz_max_epu64(0x3, two, _mm_unpackhi_epi64(two, two));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(two));
  }

 private:
  static constexpr mask all = static_cast<mask>(~mask{0});

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void count_lanes(lanes& places) {
    HCOMP_UNROLL for (unsigned i = 0; i < 8; ++i) places[i] = static_cast<std::uint64_t>(i);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i less(__m512i const& a,
                                                                __m512i const& b) {
    return _mm512_maskz_min_epu64(all, a, b);
  }
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
