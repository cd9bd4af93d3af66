#pragma once
/// @file
/// Marking and counting nonzero values for simd_group, one vector register at a time. The same bits
/// as index_words.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::sparse {

/// Number of values behind the kept values that may be read and written.
inline constexpr std::size_t marking_slack = 16;

/// Spreads a rank's values, in the order of its marks, to their positions among the marks of all
/// ranks, which include its own; 0 where this rank has no value.
struct spread_values {
  std::uint64_t const* all;
  std::uint32_t const* marks_before;  ///< number of marks in `all` before each word
  std::uint64_t const* own;
  float const* kept;  ///< may be read marking_slack values beyond its end
  std::size_t words;
};

/// Result of marking a vector.
struct marked_vector {
  std::uint32_t largest;  ///< exponent, as floats store it
  std::size_t kept;       ///< number of nonzero values
  bool negative_zeros;
};

/// Calls put(place, value) in order, for the words first to words - 1. `kept` is the index of this
/// rank's first value there.
template <class Put>
void spread_words(spread_values const& s, std::size_t first, std::size_t kept, Put const& put) {
  for (std::size_t w = first; w < s.words; ++w) {
    std::uint64_t const own = s.own[w];
    std::size_t place = s.all[w] == 0 ? 0 : s.marks_before[w];
    for (std::uint64_t marks = s.all[w]; marks != 0; marks &= marks - 1) {
      bool const has = (own & marks & (~marks + 1)) != 0;
      put(place++, has ? s.kept[kept] : 0.0f);
      kept += has;
    }
  }
}

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// ---- Marks of several values: the only step that needs intrinsics

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

/// Bit i: v[i] is not zero. Passes v through memory; inlining removes the copy.
template <int Lanes, class Bits>
[[gnu::always_inline]] inline unsigned nonzero_mask(Bits const& v) {
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

// ---- Packing of the nonzero values

/// For every mask of 8 values: the indices of its set bits, one byte each.
struct mask_choices {
  std::uint64_t of[256] = {};

  constexpr mask_choices() {
    for (unsigned mask = 0; mask < 256; ++mask)
      for (unsigned i = 0, k = 0; i < 8; ++i)
        if (mask >> i & 1) of[mask] |= std::uint64_t{i} << 8 * k++;
  }
};
inline constexpr mask_choices chosen_of_8;

#if defined(__x86_64__)
[[gnu::target("avx2")]] inline void keep_chosen_avx2(float const* v, unsigned mask, float* out) {
  auto const from = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(&chosen_of_8.of[mask]));
  _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(_mm256_loadu_ps(v), _mm256_cvtepu8_epi32(from)));
}
[[gnu::target("avx512f")]] inline void keep_chosen_avx512(float const* v, unsigned mask,
                                                          float* out) {
  _mm512_storeu_ps(out, _mm512_maskz_compress_ps(static_cast<__mmask16>(mask), _mm512_loadu_ps(v)));
}
#endif

/// Writes the values whose mask bits are set to out[0], out[1], ...; writes Lanes values in total.
template <int Lanes>
[[gnu::always_inline]] inline void keep_chosen(float const* v, unsigned mask, float* out) {
#if defined(__x86_64__)
  if constexpr (Lanes == 16) return keep_chosen_avx512(v, mask, out);
  if constexpr (Lanes == 8) return keep_chosen_avx2(v, mask, out);
#endif
  unsigned kept = 0;
  for (int i = 0; i < Lanes; ++i) {
    float const value = v[i];
    out[kept] = value;
    kept += mask >> i & 1;
  }
}

/// Marks words 0 to words - 1, all full, and keeps the marked values.
struct mark_vectors {
  float const* x;
  std::size_t words;
  std::uint64_t* out;
  float* kept;  ///< space for all values and marking_slack more

  template <int Lanes> [[gnu::always_inline]] marked_vector run() const {
    using bits = typename aligned_vector<std::uint32_t, Lanes>::type;
    using ints = typename aligned_vector<std::int32_t, Lanes>::type;
    ints largest{};
    float* end = kept;
    unsigned negative_zeros = 0;
    for (std::size_t w = 0; w < words; ++w) {
      bits any{};
      HCOMP_UNROLL
      for (int j = 0; j < 64; j += Lanes) {
        bits v;
        std::memcpy(&v, x + w * 64 + static_cast<std::size_t>(j), sizeof(v));
        any |= v;
      }
      if (nonzero_mask<Lanes>(any) == 0) {  // most words of very sparse vectors
        out[w] = 0;
        continue;
      }
      std::uint64_t marks = 0;
      HCOMP_UNROLL
      for (int j = 0; j < 64; j += Lanes) {
        float const* const here = x + w * 64 + static_cast<std::size_t>(j);
        bits v;
        std::memcpy(&v, here, sizeof(v));
        unsigned const any_bits = nonzero_mask<Lanes>(v);
        v &= 0x7fffffffu;
        largest = (ints)v > largest ? (ints)v : largest;
        unsigned const mask = nonzero_mask<Lanes>(v);
        negative_zeros |= any_bits ^ mask;
        keep_chosen<Lanes>(here, mask, end);
        end += __builtin_popcount(mask);
        marks |= static_cast<std::uint64_t>(mask) << j;
      }
      out[w] = marks;
    }
    std::uint32_t lanes[Lanes], most = 0;
    std::memcpy(lanes, &largest, sizeof(largest));
    for (std::uint32_t const lane : lanes) most = lane > most ? lane : most;
    return {most >> 23, static_cast<std::size_t>(end - kept), negative_zeros != 0};
  }
};

#pragma GCC diagnostic pop

/// mark_nonzeros, and keeps the marked values.
/// @param kept   space for n values and marking_slack more
/// @param level  at most best_simd_level()
inline marked_vector mark_and_keep(float const* x, std::size_t n, std::uint64_t* words, float* kept,
                                   simd_level level = best_simd_level()) {
  std::uint64_t* const exponents = words + index_words(n);
  for (std::size_t i = 0; i < exponent_words; ++i) exponents[i] = 0;
  std::size_t const full = n / 64;
  auto found = run_at(level, mark_vectors{x, full, words, kept});
  if (full < index_words(n)) {
    found.largest = std::max(found.largest, mark_words(x, n, full, full + 1, words));
    for (std::uint64_t marks = words[full]; marks != 0; marks &= marks - 1)
      kept[found.kept++] = x[full * 64 + static_cast<std::size_t>(lowest_one(marks))];
    for (std::size_t i = full * 64; i < n; ++i)
      found.negative_zeros |= same_bits<std::uint32_t>(x[i]) == 0x80000000u;
  }
  exponents[found.largest / 64] |= std::uint64_t{1} << found.largest % 64;
  return found;
}

// ---- From the positions of a rank's values to the positions of all ranks' values

/// Progress of spreading vector by vector.
struct spread_part {
  std::size_t words, kept;
};

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,bmi2,popcnt")]] inline spread_part spread_avx512(
    spread_values const& s, std::byte* out, std::size_t size) {
  std::size_t w = 0, kept = 0;
  for (; w < s.words; ++w) {  // only predictable branches: words are random
    auto left = static_cast<int>(_mm_popcnt_u64(s.all[w]));
    if (s.marks_before[w] + static_cast<std::size_t>(left) + 16 > size)
      break;  // complete vectors are stored
    std::byte* here = out + s.marks_before[w] * sizeof(float);
    std::uint64_t chosen = _pext_u64(s.own[w], s.all[w]);
    do {
      auto const mask = static_cast<__mmask16>(chosen);
      _mm512_storeu_ps(here, _mm512_maskz_expand_ps(mask, _mm512_loadu_ps(s.kept + kept)));
      kept += static_cast<std::size_t>(_mm_popcnt_u64(mask));
      chosen >>= 16;
      here += 16 * sizeof(float);
      left -= 16;
    } while (left > 0);
  }
  return {w, kept};
}
#endif

/// Spreads the floats unchanged.
/// @param out    `size` floats, one per mark of `all`
/// @param level  at most best_simd_level()
inline void spread(spread_values const& s, [[maybe_unused]] std::size_t size, std::byte* out,
                   [[maybe_unused]] simd_level level = best_simd_level()) {
  spread_part done{0, 0};
#if defined(__x86_64__)
  if (level == simd_level::avx512) done = spread_avx512(s, out, size);
#endif
  spread_words(s, done.words, done.kept, [out](std::size_t place, float value) {
    std::memcpy(out + place * sizeof(value), &value, sizeof(value));
  });
}

#if defined(__x86_64__)
[[gnu::target("popcnt")]] inline std::uint64_t count_marks_popcnt(std::uint64_t const* words,
                                                                  std::size_t count,
                                                                  std::uint32_t* marks_before) {
  std::uint64_t before = 0;
  for (std::size_t w = 0; w < count; ++w) {
    marks_before[w] = static_cast<std::uint32_t>(before);
    before += static_cast<std::uint64_t>(_mm_popcnt_u64(words[w]));
  }
  return before;
}
#endif

/// The same as for other groups. Without the popcnt instruction, counting takes longer than
/// reading.
inline std::uint64_t count_marks(simd_group, std::uint64_t const* words, std::size_t count,
                                 std::uint32_t* marks_before, std::uint64_t* shared) {
#if defined(__x86_64__)
  if (best_simd_level() >= simd_level::avx2) return count_marks_popcnt(words, count, marks_before);
#endif
  return count_marks(serial_group{}, words, count, marks_before, shared);
}

#else

// The device pass also compiles host code; it never calls these functions.
inline marked_vector mark_and_keep(float const*, std::size_t, std::uint64_t*, float*) { return {}; }
inline void spread(spread_values const&, std::size_t, std::byte*) {}

#endif

}  // namespace hcomp::detail::sparse
