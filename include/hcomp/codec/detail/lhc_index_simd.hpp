#pragma once
/// @file
/// Marking values that are not zero, and counting them, for simd_group: as many values at a time as
/// the processor's vectors have lanes. The same bits as lhc_index.hpp.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

namespace hcomp::detail {

/// Marks of words 0 to words - 1, all full; returns the largest exponent, as it is stored.
using mark_function = std::uint32_t (*)(float const* x, std::size_t words, std::uint64_t* out);

inline std::uint32_t mark_words_plain(float const* x, std::size_t words, std::uint64_t* out) {
  return mark_words(x, words * 64, 0, words, out);
}

#if defined(__x86_64__)

inline std::uint32_t mark_words_sse2(float const* x, std::size_t words, std::uint64_t* out) {
  __m128i const magnitude = _mm_set1_epi32(0x7fffffff), none = _mm_setzero_si128();
  __m128i largest = none;  // of the exponents, in the upper halves
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t zeros = 0;
    for (int j = 0; j < 64; j += 16) {
      auto const four = [&](int k) {
        __m128i const v = _mm_and_si128(
            _mm_castps_si128(_mm_loadu_ps(x + w * 64 + static_cast<std::size_t>(j + k))),
            magnitude);
        largest = _mm_max_epi16(largest, _mm_srli_epi32(v, 23));
        return _mm_cmpeq_epi32(v, none);
      };
      auto const low = _mm_packs_epi32(four(0), four(4)), high = _mm_packs_epi32(four(8), four(12));
      auto const mask = _mm_movemask_epi8(_mm_packs_epi16(low, high));
      zeros |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << j;
    }
    out[w] = ~zeros;
  }
  alignas(16) std::uint32_t lanes[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), largest);
  std::uint32_t most = 0;
  for (std::uint32_t const lane : lanes) most = lane > most ? lane : most;
  return most;
}

[[gnu::target("avx2")]] inline std::uint32_t mark_words_avx2(float const* x, std::size_t words,
                                                             std::uint64_t* out) {
  __m256i const magnitude = _mm256_set1_epi32(0x7fffffff), none = _mm256_setzero_si256();
  __m256i largest = none;
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t zeros = 0;
    for (int j = 0; j < 64; j += 8) {
      __m256i const v = _mm256_and_si256(
          _mm256_castps_si256(_mm256_loadu_ps(x + w * 64 + static_cast<std::size_t>(j))),
          magnitude);
      largest = _mm256_max_epi32(largest, v);
      auto const mask = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, none)));
      zeros |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << j;
    }
    out[w] = ~zeros;
  }
  alignas(32) std::uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), largest);
  std::uint32_t most = 0;
  for (std::uint32_t const lane : lanes) most = lane > most ? lane : most;
  return most >> 23;
}

[[gnu::target("avx512f")]] inline std::uint32_t mark_words_avx512(float const* x, std::size_t words,
                                                                  std::uint64_t* out) {
  __m512i const magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i largest = _mm512_setzero_si512();
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t marks = 0;
    for (int j = 0; j < 64; j += 16) {
      __m512i const v =
          _mm512_and_si512(_mm512_loadu_si512(x + w * 64 + static_cast<std::size_t>(j)), magnitude);
      // masked, because g++ 12 warns of the other one's own header
      largest = _mm512_mask_max_epi32(largest, 0xffff, largest, v);
      marks |= static_cast<std::uint64_t>(_mm512_test_epi32_mask(v, v)) << j;
    }
    out[w] = marks;
  }
  alignas(64) std::uint32_t lanes[16];
  _mm512_store_si512(lanes, largest);
  std::uint32_t most = 0;
  for (std::uint32_t const lane : lanes) most = lane > most ? lane : most;
  return most >> 23;
}

#endif

/// @param level  not above best_simd_level()
inline mark_function mark_function_at([[maybe_unused]] simd_level level) {
#if defined(__x86_64__)
  if (level == simd_level::avx512) return mark_words_avx512;
  if (level == simd_level::avx2) return mark_words_avx2;
  return mark_words_sse2;
#else
  return mark_words_plain;
#endif
}

/// The same as for other groups.
inline void mark_nonzeros(simd_group, float const* x, std::size_t n, std::uint64_t* words) {
  static mark_function const mark = mark_function_at(best_simd_level());
  std::uint64_t* const exponents = words + index_words(n);
  for (std::size_t i = 0; i < exponent_words; ++i) exponents[i] = 0;
  std::size_t const full = n / 64;
  std::uint32_t const most = mark(x, full, words);
  std::uint32_t const rest = mark_words(x, n, full, index_words(n), words);
  std::uint32_t const largest = most > rest ? most : rest;
  exponents[largest / 64] |= std::uint64_t{1} << largest % 64;
}

#if defined(__x86_64__)
[[gnu::target("popcnt")]] inline std::uint64_t count_marks_popcnt(std::uint64_t const* words,
                                                                  std::size_t count,
                                                                  std::uint32_t* ranks) {
  std::uint64_t rank = 0;
  for (std::size_t w = 0; w < count; ++w) {
    ranks[w] = static_cast<std::uint32_t>(rank);
    rank += static_cast<std::uint64_t>(_mm_popcnt_u64(words[w]));
  }
  return rank;
}
#endif

/// The same as for other groups: without the instruction, counting takes longer than reading.
inline std::uint64_t count_marks(simd_group, std::uint64_t const* words, std::size_t count,
                                 std::uint32_t* ranks, std::uint64_t* shared) {
#if defined(__x86_64__)
  if (best_simd_level() >= simd_level::avx2) return count_marks_popcnt(words, count, ranks);
#endif
  return count_marks(serial_group{}, words, count, ranks, shared);
}

}  // namespace hcomp::detail

#endif
