#pragma once
/// @file
/// Wrappers of AVX2 intrinsics for 32-byte vectors of 32-bit and 64-bit integers.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

template <class Lane>
using lanes_256 = typename aligned_vector<Lane, 32 / static_cast<int>(sizeof(Lane))>::type;

/// Attributes of functions that are always inlined into functions with gnu::target("avx2").
#define HCOMP_INLINE_AVX2 gnu::always_inline, gnu::target("avx2")

/// Operations on vectors of `Lane`. In a mark, all bits of a lane are equal: 1 if the lane is
/// marked, otherwise 0.
template <std::unsigned_integral Lane>
  requires(sizeof(Lane) >= 4)
struct lanes_256_of {
  static constexpr int bits = 8 * static_cast<int>(sizeof(Lane)), count = 256 / bits;
  using lanes = lanes_256<Lane>;

  [[HCOMP_INLINE_AVX2]] static lanes load(void const* from) {
    return (lanes)_mm256_loadu_si256(static_cast<__m256i const*>(from));
  }
  [[HCOMP_INLINE_AVX2]] static void store(void* to, lanes const& of) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), (__m256i)of);
  }
  [[HCOMP_INLINE_AVX2]] static lanes in_all(Lane value) {
    if constexpr (bits == 32)
      return (lanes)_mm256_set1_epi32(static_cast<int>(value));
    else
      return (lanes)_mm256_set1_epi64x(static_cast<long long>(value));
  }

  // ---- Shifts, by any number of bits, the lane width and more included

  [[HCOMP_INLINE_AVX2]] static lanes up(lanes const& of, int by) {
    __m128i const bits_up = _mm_cvtsi32_si128(by);
    return bits == 32 ? (lanes)_mm256_sll_epi32((__m256i)of, bits_up)
                      : (lanes)_mm256_sll_epi64((__m256i)of, bits_up);
  }
  [[HCOMP_INLINE_AVX2]] static lanes down(lanes const& of, int by) {
    __m128i const bits_down = _mm_cvtsi32_si128(by);
    return bits == 32 ? (lanes)_mm256_srl_epi32((__m256i)of, bits_down)
                      : (lanes)_mm256_srl_epi64((__m256i)of, bits_down);
  }
  /// Arithmetic shift: copies of the highest bit move in from above.
  [[HCOMP_INLINE_AVX2]] static lanes down_with_sign(lanes const& of, int by) {
    if constexpr (bits == 32)
      return (lanes)_mm256_sra_epi32((__m256i)of, _mm_cvtsi32_si128(by));
    else {
      lanes const highest = down(in_all(Lane{1} << (bits - 1)), by);
      return (down(of, by) ^ highest) - highest;
    }
  }
  [[HCOMP_INLINE_AVX2]] static lanes up(lanes const& of, lanes const& by) {
    return bits == 32 ? (lanes)_mm256_sllv_epi32((__m256i)of, (__m256i)by)
                      : (lanes)_mm256_sllv_epi64((__m256i)of, (__m256i)by);
  }
  [[HCOMP_INLINE_AVX2]] static lanes down(lanes const& of, lanes const& by) {
    return bits == 32 ? (lanes)_mm256_srlv_epi32((__m256i)of, (__m256i)by)
                      : (lanes)_mm256_srlv_epi64((__m256i)of, (__m256i)by);
  }

  // ---- Marks

  /// Marks lanes whose highest bit is set.
  [[HCOMP_INLINE_AVX2]] static lanes negative(lanes const& of) {
    return bits == 32 ? (lanes)_mm256_srai_epi32((__m256i)of, 31)
                      : (lanes)_mm256_cmpgt_epi64(_mm256_setzero_si256(), (__m256i)of);
  }
  [[HCOMP_INLINE_AVX2]] static lanes zero(lanes const& of) {
    return bits == 32 ? (lanes)_mm256_cmpeq_epi32((__m256i)of, _mm256_setzero_si256())
                      : (lanes)_mm256_cmpeq_epi64((__m256i)of, _mm256_setzero_si256());
  }
  /// Marked lanes of x, and unmarked lanes of y.
  [[HCOMP_INLINE_AVX2]] static lanes chosen(lanes const& marked, lanes const& x, lanes const& y) {
    return (lanes)_mm256_blendv_epi8((__m256i)y, (__m256i)x, (__m256i)marked);
  }
  /// The highest bit of lane i as bit i.
  [[HCOMP_INLINE_AVX2]] static std::uint64_t highest_bits(lanes const& of) {
    return static_cast<unsigned>(bits == 32 ? _mm256_movemask_ps((__m256)of)
                                            : _mm256_movemask_pd((__m256d)of));
  }
  /// The inverse: bit first + i of `from` becomes the highest bit of lane i. Lower bits are
  /// unspecified.
  /// @param first  a multiple of `count`
  [[HCOMP_INLINE_AVX2]] static lanes to_highest_bits(std::uint64_t from, int first) {
    int const word = first / bits * bits;
    lanes places;
    HCOMP_UNROLL for (int i = 0; i < count; ++i) places[i] = static_cast<Lane>(bits - 1 - i);
    return up(in_all(static_cast<Lane>(from >> word)), places - static_cast<Lane>(first - word));
  }

  // ---- For lanes whose highest bit is 0

  /// Marks lanes where a > b.
  [[HCOMP_INLINE_AVX2]] static lanes above(lanes const& a, lanes const& b) {
    return bits == 32 ? (lanes)_mm256_cmpgt_epi32((__m256i)a, (__m256i)b)
                      : (lanes)_mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
  }
  [[HCOMP_INLINE_AVX2]] static lanes less(lanes const& a, lanes const& b) {
    return bits == 32 ? (lanes)_mm256_min_epu32((__m256i)a, (__m256i)b) : chosen(above(a, b), b, a);
  }
  [[HCOMP_INLINE_AVX2]] static lanes more(lanes const& a, lanes const& b) {
    return bits == 32 ? (lanes)_mm256_max_epu32((__m256i)a, (__m256i)b) : chosen(above(a, b), a, b);
  }

  // ---- Lane positions

  /// Lane i = lane i - 1; the first is the last lane of `before`.
  [[HCOMP_INLINE_AVX2]] static lanes moved(lanes const& before, lanes const& of) {
    __m256i const middle = _mm256_permute2x128_si256((__m256i)before, (__m256i)of, 0x21);
    return (lanes)_mm256_alignr_epi8((__m256i)of, middle, 16 - bits / 8);
  }
  [[HCOMP_INLINE_AVX2]] static lanes first_in_all(lanes const& of) {
    return bits == 32 ? (lanes)_mm256_broadcastd_epi32(_mm256_castsi256_si128((__m256i)of))
                      : (lanes)_mm256_broadcastq_epi64(_mm256_castsi256_si128((__m256i)of));
  }
  [[HCOMP_INLINE_AVX2]] static lanes last_in_all(lanes const& of) {
    return bits == 32 ? (lanes)_mm256_permutevar8x32_epi32((__m256i)of, _mm256_set1_epi32(7))
                      : (lanes)_mm256_permute4x64_epi64((__m256i)of, 0xff);
  }
  /// Inclusive prefix sum over the lanes.
  [[HCOMP_INLINE_AVX2]] static lanes summed_up(lanes of) {
    of += (lanes)_mm256_slli_si256((__m256i)of, bits / 8);
    if constexpr (bits == 32) of += (lanes)_mm256_slli_si256((__m256i)of, 8);
    __m256i const lower = _mm256_permute2x128_si256((__m256i)of, (__m256i)of, 0x08);
    return of + (lanes)_mm256_shuffle_epi32(lower, bits == 32 ? 0xff : 0xee);
  }
  [[HCOMP_INLINE_AVX2]] static Lane least_of(lanes const& of) {
    lanes const of_two = less(of, (lanes)_mm256_permute2x128_si256((__m256i)of, (__m256i)of, 1));
    lanes const all = less(of_two, (lanes)_mm256_shuffle_epi32((__m256i)of_two, 0x4e));
    if constexpr (bits == 32)
      return less(all, (lanes)_mm256_shuffle_epi32((__m256i)all, 0xb1))[0];
    else
      return all[0];
  }
  /// For lanes whose highest bits are equal.
  [[HCOMP_INLINE_AVX2]] static Lane largest_of(lanes const& of) {
    return static_cast<Lane>(~least_of(~of));
  }
  /// OR of all lanes.
  [[HCOMP_INLINE_AVX2]] static Lane any_of(lanes const& of) {
    __m128i two =
        _mm_or_si128(_mm256_castsi256_si128((__m256i)of), _mm256_extracti128_si256((__m256i)of, 1));
    two = _mm_or_si128(two, _mm_unpackhi_epi64(two, two));
    auto const one = static_cast<std::uint64_t>(_mm_cvtsi128_si64(two));
    return static_cast<Lane>(bits == 32 ? one | one >> 32 : one);
  }
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
