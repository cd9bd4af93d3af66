#pragma once
/// @file
/// AVX2 kernels for blocks.hpp: eight values at a time, with the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)

namespace hcomp::detail::error_bounded {

/// Shifts the lanes up by one; lane 0 becomes the last lane of `before`.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i moved_up(__m256i before, __m256i v) {
  __m256i const up = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
  return _mm256_blend_epi32(_mm256_permutevar8x32_epi32(v, up),
                            _mm256_permutevar8x32_epi32(before, up), 1);
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i zigzag_of(__m256i v) {
  return _mm256_xor_si256(_mm256_add_epi32(v, v), _mm256_srai_epi32(v, 31));
}
[[gnu::target("avx2"), gnu::always_inline]] inline std::uint32_t or_of(__m256i v) {
  __m128i four = _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_or_si128(four, _mm_unpackhi_epi64(four, four));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(four) | _mm_extract_epi32(four, 1));
}
[[gnu::target("avx2"), gnu::always_inline]] inline std::uint32_t signs_of(__m256i v) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(v)));
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_eight(std::int32_t const* q) {
  return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(q));
}
[[gnu::target("avx2"), gnu::always_inline]] inline void store_eight(std::int32_t* q, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), v);
}

// ---- Eight bit planes at a time. A plane has 4 bytes, one per 8 values. Byte b of each of 4 words
// of 64 bits is a byte of plane b; transposing the bits of a word gives 8 values.

/// Delta swap: exchanges the bits in `mask` with those `up` positions higher. Not a lambda, because
/// nvcc drops the target attribute of lambdas.
template <int up>
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i with_swapped(__m256i x, long long mask) {
  __m256i const t =
      _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, up)), _mm256_set1_epi64x(mask));
  return _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, up)));
}
/// Transposes 8x8 bits in each 64-bit word: bit i of byte k becomes bit k of byte i. Source: H. S.
/// Warren, Hacker's Delight, 7-3.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i transposed(__m256i x) {
  x = with_swapped<7>(x, 0x00aa00aa00aa00aa);
  x = with_swapped<14>(x, 0x0000cccc0000cccc);
  return with_swapped<28>(x, 0x00000000f0f0f0f0);
}
/// Transposes 4x4 bytes in each 128-bit half: byte i of 32-bit word k becomes byte k of word i.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i bytes_swapped(__m256i x) {
  return _mm256_shuffle_epi8(
      x, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5,
                          9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}
/// Converts 8 planes to one byte for each of 32 values.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i bytes_of_planes(__m256i planes) {
  return transposed(_mm256_permutevar8x32_epi32(bytes_swapped(planes),
                                                _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i planes_of_bytes(__m256i bytes) {
  return bytes_swapped(
      _mm256_permutevar8x32_epi32(transposed(bytes), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)));
}
/// Loads planes `first` to `first` + 7; planes from `width` on are 0.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_planes(std::byte const* in,
                                                                       int first, int width) {
  __m256i const plane_mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(width - first),
                                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(reinterpret_cast<int const*>(in + 4 * first), plane_mask);
}
[[gnu::target("avx2"), gnu::always_inline]] inline void store_planes(__m256i planes, int first,
                                                                     int width, std::size_t n,
                                                                     std::byte* out) {
  if (n == block_values) {  // `out` has room for 32 planes
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * first), planes);
    return;
  }
  std::byte copy[32];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(copy), planes);
  std::memcpy(out + 4 * first, copy, 4 * static_cast<std::size_t>(std::min(width - first, 8)));
}

[[gnu::target("avx2")]] inline bool quantize_avx2(step_grid const& grid, float const* x,
                                                  std::int32_t* q, double& error) {
  __m256d const inverse = _mm256_set1_pd(grid.inverse), sign = _mm256_set1_pd(-0.0);
  __m256i const limit = _mm256_set1_epi32(grid.limit);
  __m256d largest = _mm256_setzero_pd();
  __m256i highest = _mm256_setzero_si256();
  for (std::size_t i = 0; i < block_values; i += 8) {
    __m128i four[2];
    for (std::size_t k = 0; k < 2; ++k) {
      __m256d const multiple = _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * k)), inverse);
      four[k] = _mm256_cvtpd_epi32(multiple);
      __m256d const off = _mm256_sub_pd(multiple, _mm256_cvtepi32_pd(four[k]));
      largest = _mm256_max_pd(largest, _mm256_andnot_pd(sign, off));
    }
    // one full-width store, so that the load of the full vector can be forwarded from it
    __m256i const integer = _mm256_inserti128_si256(_mm256_castsi128_si256(four[0]), four[1], 1);
    highest = _mm256_max_epu32(highest, _mm256_abs_epi32(integer));  // 2^31 if out of range
    store_eight(q + i, integer);
  }
  if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_max_epu32(highest, limit), limit)) != -1)
    return false;
  __m128d const two =
      _mm_max_pd(_mm256_castpd256_pd128(largest), _mm256_extractf128_pd(largest, 1));
  double const one = _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  error = one > error ? one : error;
  return true;
}

[[gnu::target("avx2")]] inline void dequantize_avx2(step_grid const& grid, std::int32_t const* q,
                                                    float* y) {
  __m256d const step = _mm256_set1_pd(grid.step);
  for (std::size_t i = 0; i < block_values; i += 4) {
    __m128i const integer = _mm_loadu_si128(reinterpret_cast<__m128i const*>(q + i));
    _mm_storeu_ps(y + i, _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtepi32_pd(integer), step)));
  }
}

[[gnu::target("avx2")]] inline packed_block pack_avx2(std::int32_t const* q, std::int32_t before,
                                                      std::size_t n, std::byte* out) {
  __m256i const zero = _mm256_setzero_si256();
  __m256i v[4], d[4], previous = _mm256_set1_epi32(before), plain = zero, difference = zero;
  block_shape shape{};
  HCOMP_UNROLL
  for (int k = 0; k < 4; ++k) {
    v[k] = load_eight(q + 8 * k);
    d[k] = _mm256_sub_epi32(v[k], moved_up(previous, v[k]));
    previous = v[k];
    plain = _mm256_or_si256(plain, zigzag_of(v[k]));
    difference = _mm256_or_si256(difference, zigzag_of(d[k]));
    shape.nonzero |= (signs_of(_mm256_cmpeq_epi32(v[k], zero)) ^ 0xffu) << 8 * k;
  }
  shape.plain = or_of(plain);
  shape.difference = or_of(difference);
  auto const mode = best_mode(shape, n);
  if (mode.kind() == block_kind::sparse) {
    put_sparse(q, shape.nonzero, mode.width(), out);
  } else if (mode.kind() == block_kind::words) {
    put_words(q, n, out);
  } else {
    __m256i const* const from = mode.kind() == block_kind::plain ? v : d;
    __m256i const low_byte = _mm256_set1_epi32(0xff);
    for (int first = 0; first < mode.width(); first += 8) {
      __m256i t[4];
      HCOMP_UNROLL
      for (int k = 0; k < 4; ++k)
        t[k] = _mm256_and_si256(_mm256_srli_epi32(from[k], first), low_byte);
      __m256i const bytes =
          _mm256_packus_epi16(_mm256_packus_epi32(t[0], t[1]), _mm256_packus_epi32(t[2], t[3]));
      __m256i const in_order =
          _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      store_planes(planes_of_bytes(in_order), first, mode.width(), n, out);
    }
  }
  return {mode, shape.plain};
}

/// Inclusive prefix sum over the lanes.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i summed_up(__m256i v) {
  v = _mm256_add_epi32(v, _mm256_slli_si256(v, 4));
  v = _mm256_add_epi32(v, _mm256_slli_si256(v, 8));
  __m256i const of_lower = _mm256_shuffle_epi32(_mm256_permute2x128_si256(v, v, 0x08), 0xff);
  return _mm256_add_epi32(v, of_lower);
}

[[gnu::target("avx2")]] inline std::int32_t unpack_avx2(block_mode mode, std::byte const* in,
                                                        std::int32_t before, bool add,
                                                        std::int32_t* q) {
  constexpr std::size_t values = block_values;
  __m256i v[4] = {};
  if (mode.kind() == block_kind::sparse) {
    if (!add)
      for (std::size_t k = 0; k < values; k += 8) store_eight(q + k, v[0]);
    std::int32_t last = 0;
    for_sparse(in, mode.width(), [&](int i, std::int32_t value) {
      q[i] = add_wrapping(q[i], value);
      if (i + 1 == values) last = value;
    });
    return last;
  }
  for (int first = 0; first < mode.width(); first += 8) {
    alignas(32) std::uint8_t bytes[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes),
                       bytes_of_planes(load_planes(in, first, mode.width())));
    HCOMP_UNROLL
    for (int k = 0; k < 4; ++k) {
      __m256i const eight =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(bytes + 8 * k)));
      v[k] = _mm256_or_si256(v[k], _mm256_slli_epi32(eight, first));
    }
  }
  __m128i const above = _mm_cvtsi32_si128(32 - mode.width());  // bits above the sign
  HCOMP_UNROLL
  for (auto& one : v) one = _mm256_sra_epi32(_mm256_sll_epi32(one, above), above);
  if (mode.kind() == block_kind::difference) {
    __m256i sum = _mm256_setzero_si256();
    HCOMP_UNROLL
    for (auto& one : v) {
      one = _mm256_add_epi32(summed_up(one), sum);
      sum = _mm256_permutevar8x32_epi32(one, _mm256_set1_epi32(7));
    }
  }
  std::int32_t last = _mm256_extract_epi32(v[3], 7);
  if (mode.kind() == block_kind::difference) {
    // `before` is added last, so the next block waits for this addition only
    last = add_wrapping(last, before);
    HCOMP_UNROLL
    for (auto& one : v) one = _mm256_add_epi32(one, _mm256_set1_epi32(before));
  }
  HCOMP_UNROLL
  for (int k = 0; k < 4; ++k)
    store_eight(q + 8 * k, add ? _mm256_add_epi32(load_eight(q + 8 * k), v[k]) : v[k]);
  return last;
}

}  // namespace hcomp::detail::error_bounded

#endif
