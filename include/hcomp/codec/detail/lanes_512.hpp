#pragma once
/// @file
/// Wrappers of AVX-512 intrinsics for 64-byte vectors of 16-bit, 32-bit and 64-bit integers, for
/// processors with byte permutation (VBMI).

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

// Masked intrinsics replace unmasked ones, because g++ 12 warns about the headers of the latter.

#define HCOMP_TARGET_VBMI \
  gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")

/// Whether the processor supports functions with HCOMP_TARGET_VBMI.
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

/// Operations on vectors of 16-bit, 32-bit or 64-bit integers. A mask has one bit per lane.
template <class Lane> struct lanes_of {
  static constexpr int bits = 8 * static_cast<int>(sizeof(Lane)), count = 512 / bits;
  using lanes = lanes_512<Lane>;
  using mask = std::conditional_t<count == 32, __mmask32,
                                  std::conditional_t<count == 16, __mmask16, __mmask8>>;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask not_zero(lanes const& of) {
    if constexpr (bits == 16)
      return _mm512_test_epi16_mask((__m512i)of, (__m512i)of);
    else if constexpr (bits == 32)
      return _mm512_test_epi32_mask((__m512i)of, (__m512i)of);
    else
      return _mm512_test_epi64_mask((__m512i)of, (__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_more(lanes& to, lanes const& than) {
    if constexpr (bits == 16)
      to = (lanes)_mm512_maskz_max_epu16(all, (__m512i)to, (__m512i)than);
    else if constexpr (bits == 32)
      to = (lanes)_mm512_maskz_max_epu32(all, (__m512i)to, (__m512i)than);
    else
      to = (lanes)_mm512_maskz_max_epu64(all, (__m512i)to, (__m512i)than);
  }
  /// Shifts by any number of bits, the lane width and more included.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_up(lanes& of, int by) {
    __m128i const bits_up = _mm_cvtsi32_si128(by);
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_sll_epi16(all, (__m512i)of, bits_up);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_sll_epi32(all, (__m512i)of, bits_up);
    else
      of = (lanes)_mm512_maskz_sll_epi64(all, (__m512i)of, bits_up);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_down(lanes& of, int by) {
    __m128i const bits_down = _mm_cvtsi32_si128(by);
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_srl_epi16(all, (__m512i)of, bits_down);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_srl_epi32(all, (__m512i)of, bits_down);
    else
      of = (lanes)_mm512_maskz_srl_epi64(all, (__m512i)of, bits_down);
  }
  /// Arithmetic shift: copies of the highest bit move in from above.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_down_with_sign(lanes& of, int by) {
    __m128i const bits_down = _mm_cvtsi32_si128(by);
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_sra_epi16(all, (__m512i)of, bits_down);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_sra_epi32(all, (__m512i)of, bits_down);
    else
      of = (lanes)_mm512_maskz_sra_epi64(all, (__m512i)of, bits_down);
  }
  /// Shifts lanes 1, 3, 5, ...
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void shift_odd_down(lanes& of,
                                                                       int by) requires(bits < 64) {
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_srlv_epi16(all, (__m512i)of, _mm512_set1_epi32(by << 16));
    else
      of = (lanes)_mm512_maskz_srlv_epi32(all, (__m512i)of,
                                          _mm512_set1_epi64(static_cast<long long>(by) << 32));
  }
  /// Moves the marked lanes to the front, and clears the remaining lanes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void compress(mask marked, lanes& of) {
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_compress_epi16(marked, (__m512i)of);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_compress_epi32(marked, (__m512i)of);
    else
      of = (lanes)_mm512_maskz_compress_epi64(marked, (__m512i)of);
  }
  /// The inverse of compress.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void expand(mask marked, lanes& of) {
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_expand_epi16(marked, (__m512i)of);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_expand_epi32(marked, (__m512i)of);
    else
      of = (lanes)_mm512_maskz_expand_epi64(marked, (__m512i)of);
  }
  /// Lane i = lane i + by, modulo the number of lanes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void rotate(lanes& of, int by) {
    lanes places;
    HCOMP_UNROLL for (int i = 0; i < count; ++i) places[i] = static_cast<Lane>(i);
    places += static_cast<Lane>(by);
    if constexpr (bits == 16)
      of = (lanes)_mm512_maskz_permutexvar_epi16(all, (__m512i)places, (__m512i)of);
    else if constexpr (bits == 32)
      of = (lanes)_mm512_maskz_permutexvar_epi32(all, (__m512i)places, (__m512i)of);
    else
      of = (lanes)_mm512_maskz_permutexvar_epi64(all, (__m512i)places, (__m512i)of);
  }
  /// Maximum over all lanes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::uint64_t largest_of(lanes const& of) {
    __m256i const lower = _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 0),
                  upper = _mm512_maskz_extracti64x4_epi64(15, (__m512i)of, 1);
    if constexpr (bits == 16) {
      __m256i const half = _mm256_max_epu16(lower, upper);
      __m128i const eight =
          _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
      __m128i const least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
      return static_cast<std::uint16_t>(~_mm_cvtsi128_si32(least));
    } else if constexpr (bits == 32) {
      __m256i const half = _mm256_maskz_max_epu32(0xff, lower, upper);
      __m128i two =
          _mm_maskz_max_epu32(15, _mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
      two = _mm_maskz_max_epu32(15, two, _mm_unpackhi_epi64(two, two));
      two = _mm_maskz_max_epu32(15, two, _mm_maskz_shuffle_epi32(15, two, _MM_PERM_CDAB));
      return static_cast<std::uint32_t>(_mm_cvtsi128_si32(two));
    } else {
      __m256i const half = _mm256_maskz_max_epu64(15, lower, upper);
      __m128i two =
          _mm_maskz_max_epu64(3, _mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
      two = _mm_maskz_max_epu64(3, two, _mm_unpackhi_epi64(two, two));
      return static_cast<std::uint64_t>(_mm_cvtsi128_si64(two));
    }
  }

 protected:
  static constexpr mask all = static_cast<mask>(~mask{0});
};

/// lanes_of for 32 and 64 bits, with operations on floats and their bits.
template <class Lane>
  requires(sizeof(Lane) >= 4)
struct float_lanes_of : lanes_of<Lane> {
  using base = lanes_of<Lane>;
  using base::bits, base::count;
  using typename base::lanes, typename base::mask;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask signs(lanes const& of) {
    if constexpr (bits == 32)
      return _mm512_movepi32_mask((__m512i)of);
    else
      return _mm512_movepi64_mask((__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static mask nan(lanes const& of) {
    if constexpr (bits == 32)
      return _mm512_fpclass_ps_mask((__m512)of, 0x81);
    else
      return _mm512_fpclass_pd_mask((__m512d)of, 0x81);
  }
  /// Unmarked lanes stay unchanged.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void set(lanes& to, mask marked,
                                                            lanes const& by) {
    if constexpr (bits == 32)
      to = (lanes)_mm512_mask_mov_epi32((__m512i)to, marked, (__m512i)by);
    else
      to = (lanes)_mm512_mask_mov_epi64((__m512i)to, marked, (__m512i)by);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_less(lanes& to, mask marked,
                                                                  lanes const& than) {
    if constexpr (bits == 32)
      to = (lanes)_mm512_mask_min_epu32((__m512i)to, marked, (__m512i)to, (__m512i)than);
    else
      to = (lanes)_mm512_mask_min_epu64((__m512i)to, marked, (__m512i)to, (__m512i)than);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep_common(lanes& to, mask marked,
                                                                    lanes const& with) {
    if constexpr (bits == 32)
      to = (lanes)_mm512_mask_and_epi32((__m512i)to, marked, (__m512i)to, (__m512i)with);
    else
      to = (lanes)_mm512_mask_and_epi64((__m512i)to, marked, (__m512i)to, (__m512i)with);
  }
  /// Unmarked lanes become 0.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void add_or_clear(lanes& to, mask marked,
                                                                     lanes const& more) {
    if constexpr (bits == 32)
      to = (lanes)_mm512_maskz_add_epi32(marked, (__m512i)to, (__m512i)more);
    else
      to = (lanes)_mm512_maskz_add_epi64(marked, (__m512i)to, (__m512i)more);
  }
  /// of = from - of in marked lanes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void subtract_from(lanes const& from,
                                                                      mask marked, lanes& of) {
    if constexpr (bits == 32)
      of = (lanes)_mm512_mask_sub_epi32((__m512i)of, marked, (__m512i)from, (__m512i)of);
    else
      of = (lanes)_mm512_mask_sub_epi64((__m512i)of, marked, (__m512i)from, (__m512i)of);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void set_bits(lanes& to, mask marked,
                                                                 lanes const& which) {
    if constexpr (bits == 32)
      to = (lanes)_mm512_mask_or_epi32((__m512i)to, marked, (__m512i)to, (__m512i)which);
    else
      to = (lanes)_mm512_mask_or_epi64((__m512i)to, marked, (__m512i)to, (__m512i)which);
  }
  /// Lane i = lane i - By; the first lanes are the last ones of `before`.
  template <int By>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void move(lanes const& before, lanes const& of,
                                                             lanes& moved) {
    if constexpr (bits == 32)
      moved = (lanes)_mm512_maskz_alignr_epi32(all, (__m512i)of, (__m512i)before, count - By);
    else
      moved = (lanes)_mm512_maskz_alignr_epi64(all, (__m512i)of, (__m512i)before, count - By);
  }
  /// Broadcasts lane `Place`.
  template <int Place>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void repeat(lanes const& of, lanes& in_all) {
    if constexpr (bits == 32)
      in_all = (lanes)_mm512_maskz_permutexvar_epi32(all, _mm512_set1_epi32(Place), (__m512i)of);
    else
      in_all = (lanes)_mm512_maskz_permutexvar_epi64(all, _mm512_set1_epi64(Place), (__m512i)of);
  }
  /// The minimum over all lanes of a in the first half of the lanes, and that of b in the second
  /// half.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void reduce_to_least(lanes const& a,
                                                                        lanes const& b,
                                                                        lanes& least) {
    reduce<true>(a, b, least);
  }
  /// OR over all lanes, in the same layout.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void reduce_to_bits(lanes const& a,
                                                                       lanes const& b, lanes& any) {
    reduce<false>(a, b, any);
  }

 private:
  using base::all;

  template <bool ToLeast>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void reduce(lanes const& a, lanes const& b,
                                                               lanes& both) {
    both = (lanes)_mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0x44);
    keep<ToLeast>(both, _mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0xee));
    keep<ToLeast>(both, _mm512_maskz_shuffle_i64x2(0xff, (__m512i)both, (__m512i)both, 0xb1));
    keep<ToLeast>(both, _mm512_maskz_shuffle_epi32(0xffff, (__m512i)both, _MM_PERM_BADC));
    if constexpr (bits == 32)
      keep<ToLeast>(both, _mm512_maskz_shuffle_epi32(0xffff, (__m512i)both, _MM_PERM_CDAB));
  }
  template <bool Less>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void keep(lanes& to, __m512i const& of) {
    if constexpr (Less)
      keep_less(to, all, (lanes)of);
    else
      to |= (lanes)of;
  }
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
