#pragma once
/// @file
/// AVX-512 kernels for blocks.hpp: sixteen values at a time, with the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)

namespace hcomp::detail::error_bounded {

// Uses masked intrinsics where both exist: g++ 12 warns inside the unmasked ones.

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2")]] inline bool quantize_avx512(
    step_grid const& grid, float const* x, std::int32_t* q, double& error) {
  constexpr __mmask8 all = 0xff;
  __m512d const inverse = _mm512_set1_pd(grid.inverse);
  __m512d largest = _mm512_setzero_pd();
  __m512i highest = _mm512_setzero_si512();
  for (std::size_t i = 0; i < block_values; i += 16) {
    __m256i eight[2];
    for (std::size_t k = 0; k < 2; ++k) {
      __m512d const multiple =
          _mm512_mul_pd(_mm512_maskz_cvtps_pd(all, _mm256_loadu_ps(x + i + 8 * k)), inverse);
      eight[k] = _mm512_maskz_cvtpd_epi32(all, multiple);
      __m512d const off = _mm512_sub_pd(multiple, _mm512_maskz_cvtepi32_pd(all, eight[k]));
      largest = _mm512_maskz_max_pd(all, largest, _mm512_abs_pd(off));
    }
    // one full-width store, so that the load of the full vector can be forwarded from it
    __m512i const integer =
        _mm512_maskz_inserti64x4(all, _mm512_castsi256_si512(eight[0]), eight[1], 1);
    highest = _mm512_maskz_max_epu32(0xffff, highest, _mm512_maskz_abs_epi32(0xffff, integer));
    _mm512_storeu_si512(q + i, integer);
  }
  // `highest` is 2^31 if a value is out of range
  if (_mm512_cmpgt_epu32_mask(highest, _mm512_set1_epi32(grid.limit)) != 0) return false;
  __m256d const four = _mm256_max_pd(_mm512_maskz_extractf64x4_pd(all, largest, 0),
                                     _mm512_maskz_extractf64x4_pd(all, largest, 1));
  __m128d const two = _mm_max_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  double const one = _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  error = one > error ? one : error;
  return true;
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2")]] inline void dequantize_avx512(
    step_grid const& grid, std::int32_t const* q, float* y) {
  constexpr __mmask8 all = 0xff;
  __m512d const step = _mm512_set1_pd(grid.step);
  for (std::size_t i = 0; i < block_values; i += 8) {
    __m512d const integer =
        _mm512_maskz_cvtepi32_pd(all, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(q + i)));
    _mm256_storeu_ps(y + i, _mm512_maskz_cvtpd_ps(all, _mm512_mul_pd(integer, step)));
  }
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
or_of_zigzags(__m512i a, __m512i b) {
  __m512i const from_a =
      _mm512_xor_si512(_mm512_add_epi32(a, a), _mm512_maskz_srai_epi32(0xffff, a, 31));
  // of_a | (2 b ^ b >> 31)
  return _mm512_ternarylogic_epi32(from_a, _mm512_add_epi32(b, b),
                                   _mm512_maskz_srai_epi32(0xffff, b, 31), 0xf6);
}
/// OR of the lanes of `a` in the lower 32 bits, of `b` in the upper.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline std::uint64_t
or_of_both(__m512i a, __m512i b) {
  __m512i const two = _mm512_or_si512(_mm512_maskz_unpacklo_epi32(0xffff, a, b),
                                      _mm512_maskz_unpackhi_epi32(0xffff, a, b));
  __m256i const four = _mm256_or_si256(_mm512_maskz_extracti64x4_epi64(0xff, two, 0),
                                       _mm512_maskz_extracti64x4_epi64(0xff, two, 1));
  __m128i const last =
      _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(last) | _mm_extract_epi64(last, 1));
}

// ---- Sixteen bit planes at a time, as eight in avx2.hpp. 128 bits hold 8 values of 16 bits, first
// the lower bytes of all.

/// Delta swap: exchanges the bits in `mask` with those `up` positions higher. Not a lambda, because
/// nvcc drops the target attribute of lambdas.
template <unsigned up>
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
with_swapped(__m512i x, long long mask) {
  // t = (x ^ x >> up) & mask; x ^ t ^ t << up
  __m512i const t = _mm512_ternarylogic_epi64(x, _mm512_maskz_srli_epi64(0xff, x, up),
                                              _mm512_set1_epi64(mask), 0x28);
  return _mm512_ternarylogic_epi64(x, t, _mm512_maskz_slli_epi64(0xff, t, up), 0x96);
}
/// Transposes 8x8 bits in each 64-bit word: bit i of byte k becomes bit k of byte i.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
transposed(__m512i x) {
  x = with_swapped<7>(x, 0x00aa00aa00aa00aa);
  x = with_swapped<14>(x, 0x0000cccc0000cccc);
  return with_swapped<28>(x, 0x00000000f0f0f0f0);
}
/// Permutes the bytes of each 128-bit quarter.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
reordered(__m512i x, __m128i order) {
  return _mm512_shuffle_epi8(x, _mm512_maskz_broadcast_i32x4(0xffff, order));
}
/// Transposes 4x4 words: word i of 128-bit quarter k becomes word k of quarter i.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
words_swapped(__m512i x) {
  __m512i const order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_maskz_permutexvar_epi32(0xffff, order, x);
}
/// Converts 16 planes to 16 bits for each of 32 values.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
halves_of_planes(__m512i planes) {
  __m512i const bytes =
      reordered(planes, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return reordered(transposed(words_swapped(bytes)),
                   _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
}
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
planes_of_halves(__m512i halves) {
  __m512i const bytes =
      reordered(halves, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  return reordered(words_swapped(transposed(bytes)),
                   _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}
/// Mask of the planes `first` to `first` + 15 that are below `width`.
inline __mmask16 plane_mask(int first, int width) {
  return static_cast<__mmask16>(((std::uint64_t{1} << width) - 1) >> first);
}
/// Loads planes `first` to `first` + 15; planes from `width` on are 0.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
load_sixteen_planes(std::byte const* in, int first, int width) {
  return _mm512_maskz_loadu_epi32(plane_mask(first, width), in + 4 * first);
}
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline void
store_planes(__m512i planes, int first, int width, std::size_t n, std::byte* out) {
  if (n == block_values)  // `out` has room for 32 planes
    _mm512_storeu_si512(out + 4 * first, planes);
  else
    _mm512_mask_storeu_epi32(out + 4 * first, plane_mask(first, width), planes);
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2")]] inline packed_block pack_avx512(
    std::int32_t const* q, std::int32_t before, std::size_t n, std::byte* out) {
  constexpr __mmask16 all = 0xffff;
  __m512i const v0 = _mm512_loadu_si512(q), v1 = _mm512_loadu_si512(q + 16);
  __m512i const d0 =
      _mm512_sub_epi32(v0, _mm512_maskz_alignr_epi32(all, v0, _mm512_set1_epi32(before), 15));
  __m512i const d1 = _mm512_sub_epi32(v1, _mm512_maskz_alignr_epi32(all, v1, v0, 15));
  std::uint64_t const both = or_of_both(or_of_zigzags(v0, v1), or_of_zigzags(d0, d1));
  block_shape shape;
  shape.plain = static_cast<std::uint32_t>(both);
  shape.difference = static_cast<std::uint32_t>(both >> 32);
  shape.nonzero = static_cast<std::uint32_t>(_mm512_test_epi32_mask(v0, v0)) |
                  static_cast<std::uint32_t>(_mm512_test_epi32_mask(v1, v1)) << 16;
  auto const mode = best_mode(shape, n);
  if (mode.kind() == block_kind::sparse) {
    put_sparse(q, shape.nonzero, mode.width(), out);
  } else if (mode.kind() == block_kind::words) {
    put_words(q, n, out);
  } else {
    bool const plain = mode.kind() == block_kind::plain;
    __m512i const from0 = plain ? v0 : d0, from1 = plain ? v1 : d1;
    __m512i const low_half = _mm512_set1_epi32(0xffff);
    int const width = mode.width();
    // packing gives 16-bit lanes in the order 0 to 3, 16 to 19, 4 to 7, ...; in_order restores it
    __m512i const in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i const halves = width <= 16 ? _mm512_packs_epi32(from0, from1)
                                       : _mm512_packus_epi32(_mm512_and_si512(from0, low_half),
                                                             _mm512_and_si512(from1, low_half));
    store_planes(planes_of_halves(_mm512_maskz_permutexvar_epi64(0xff, in_order, halves)), 0, width,
                 n, out);
    if (width > 16) {
      __m512i const upper = _mm512_packus_epi32(_mm512_maskz_srli_epi32(all, from0, 16),
                                                _mm512_maskz_srli_epi32(all, from1, 16));
      store_planes(planes_of_halves(_mm512_maskz_permutexvar_epi64(0xff, in_order, upper)), 16,
                   width, n, out);
    }
  }
  return {mode, shape.plain};
}

/// Inclusive prefix sum over the lanes.
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
summed_up(__m512i v) {
  constexpr __mmask16 all = 0xffff;
  __m512i const zero = _mm512_setzero_si512();
  v = _mm512_add_epi32(v, _mm512_maskz_alignr_epi32(all, v, zero, 15));
  v = _mm512_add_epi32(v, _mm512_maskz_alignr_epi32(all, v, zero, 14));
  v = _mm512_add_epi32(v, _mm512_maskz_alignr_epi32(all, v, zero, 12));
  return _mm512_add_epi32(v, _mm512_maskz_alignr_epi32(all, v, zero, 8));
}

/// Combines the lower and upper 16 bits of integers.
/// @param above  number of bits above the sign
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2"), gnu::always_inline]] inline __m512i
put_together(__m256i low, __m256i high, __m128i above) {
  constexpr __mmask16 all = 0xffff;
  __m512i const both =
      _mm512_or_si512(_mm512_maskz_cvtepu16_epi32(all, low),
                      _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu16_epi32(all, high), 16));
  return _mm512_maskz_sra_epi32(all, _mm512_maskz_sll_epi32(all, both, above), above);
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx2")]] inline std::int32_t unpack_avx512(
    block_mode mode, std::byte const* in, std::int32_t before, bool add, std::int32_t* q) {
  constexpr int values = block_values;
  constexpr __mmask16 all = 0xffff;
  __m512i v0 = _mm512_setzero_si512(), v1 = v0;
  if (mode.kind() == block_kind::sparse) {
    if (!add) _mm512_storeu_si512(q, v0), _mm512_storeu_si512(q + 16, v1);
    std::int32_t last = 0;
    for_sparse(in, mode.width(), [&](int i, std::int32_t value) {
      q[i] = add_wrapping(q[i], value);
      if (i + 1 == values) last = value;
    });
    return last;
  }
  int const width = mode.width();
  __m512i const low = halves_of_planes(load_sixteen_planes(in, 0, width));
  if (width <= 16) {
    __m128i const above = _mm_cvtsi32_si128(16 - width);  // bits above the sign
    __m512i const halves = _mm512_sra_epi16(_mm512_sll_epi16(low, above), above);
    v0 = _mm512_maskz_cvtepi16_epi32(all, _mm512_maskz_extracti64x4_epi64(0xff, halves, 0));
    v1 = _mm512_maskz_cvtepi16_epi32(all, _mm512_maskz_extracti64x4_epi64(0xff, halves, 1));
  } else {
    __m512i const high = halves_of_planes(load_sixteen_planes(in, 16, width));
    __m128i const above = _mm_cvtsi32_si128(32 - width);
    v0 = put_together(_mm512_maskz_extracti64x4_epi64(0xff, low, 0),
                      _mm512_maskz_extracti64x4_epi64(0xff, high, 0), above);
    v1 = put_together(_mm512_maskz_extracti64x4_epi64(0xff, low, 1),
                      _mm512_maskz_extracti64x4_epi64(0xff, high, 1), above);
  }
  if (mode.kind() == block_kind::difference) {
    v0 = summed_up(v0);
    v1 = _mm512_add_epi32(summed_up(v1),
                          _mm512_maskz_permutexvar_epi32(all, _mm512_set1_epi32(15), v0));
  }
  std::int32_t last = _mm256_extract_epi32(_mm512_maskz_extracti64x4_epi64(0xff, v1, 1), 7);
  if (mode.kind() == block_kind::difference) {
    // `before` is added last, so the next block waits for this addition only
    last = add_wrapping(last, before);
    v0 = _mm512_add_epi32(v0, _mm512_set1_epi32(before));
    v1 = _mm512_add_epi32(v1, _mm512_set1_epi32(before));
  }
  if (add) {
    v0 = _mm512_add_epi32(v0, _mm512_loadu_si512(q));
    v1 = _mm512_add_epi32(v1, _mm512_loadu_si512(q + 16));
  }
  _mm512_storeu_si512(q, v0);
  _mm512_storeu_si512(q + 16, v1);
  return last;
}

}  // namespace hcomp::detail::error_bounded

#endif
