#pragma once
/// @file
/// Marking values that are not zero, and counting them, for simd_group: as many values at a time as
/// the processor's vectors have lanes. The same bits as lhc_index.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/float_simd.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

namespace hcomp::detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// ---- Which of some values are not zero: the one step that needs instructions of its own

#if defined(__x86_64__)
inline unsigned nonzero_mask_sse2(std::uint32_t const* v) {
  __m128i const four = _mm_loadu_si128(reinterpret_cast<__m128i const*>(v));
  return ~static_cast<unsigned>(
             _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(four, _mm_setzero_si128())))) &
         0xfu;
}
[[gnu::target("avx2")]] inline unsigned nonzero_mask_avx2(std::uint32_t const* v) {
  __m256i const eight = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(v));
  return ~static_cast<unsigned>(_mm256_movemask_ps(
             _mm256_castsi256_ps(_mm256_cmpeq_epi32(eight, _mm256_setzero_si256())))) &
         0xffu;
}
[[gnu::target("avx512f")]] inline unsigned nonzero_mask_avx512(std::uint32_t const* v) {
  __m512i const all = _mm512_loadu_si512(v);
  return _mm512_test_epi32_mask(all, all);
}
#endif

/// Bit i: v[i] is not zero. Through memory, which is gone once it is inlined.
template <int Lanes, class Bits> [[gnu::always_inline]] inline unsigned nonzero_mask(Bits const& v) {
  std::uint32_t in[Lanes];
  std::memcpy(in, &v, sizeof(v));
#if defined(__x86_64__)
  if constexpr (Lanes == 16) return nonzero_mask_avx512(in);
  if constexpr (Lanes == 8) return nonzero_mask_avx2(in);
  if constexpr (Lanes == 4) return nonzero_mask_sse2(in);
#endif
  unsigned mask = 0;
  for (int i = 0; i < Lanes; ++i) mask |= static_cast<unsigned>(in[i] != 0) << i;
  return mask;
}

/// Marks of words 0 to words - 1, all full; returns the largest exponent, as it is stored.
struct mark_vectors {
  float const* x;
  std::size_t words;
  std::uint64_t* out;

  template <int Lanes> [[gnu::always_inline]] std::uint32_t run() const {
    using bits = typename aligned_vector<std::uint32_t, Lanes>::type;
    using ints = typename aligned_vector<std::int32_t, Lanes>::type;
    ints largest{};
    for (std::size_t w = 0; w < words; ++w) {
      std::uint64_t marks = 0;
      HCOMP_UNROLL
      for (int j = 0; j < 64; j += Lanes) {
        bits v;
        std::memcpy(&v, x + w * 64 + static_cast<std::size_t>(j), sizeof(v));
        v &= 0x7fffffffu;
        largest = (ints)v > largest ? (ints)v : largest;
        marks |= static_cast<std::uint64_t>(nonzero_mask<Lanes>(v)) << j;
      }
      out[w] = marks;
    }
    std::uint32_t lanes[Lanes], most = 0;
    std::memcpy(lanes, &largest, sizeof(largest));
    for (std::uint32_t const lane : lanes) most = lane > most ? lane : most;
    return most >> 23;
  }
};

#pragma GCC diagnostic pop

/// The same as for other groups.
inline void mark_nonzeros(simd_group, float const* x, std::size_t n, std::uint64_t* words) {
  std::uint64_t* const exponents = words + index_words(n);
  for (std::size_t i = 0; i < exponent_words; ++i) exponents[i] = 0;
  std::size_t const full = n / 64;
  std::uint32_t const most = run_at(best_simd_level(), mark_vectors{x, full, words});
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
