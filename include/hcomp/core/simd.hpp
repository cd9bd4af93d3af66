#pragma once
/// @file
/// SIMD vectors of words. An algorithm on 64-bit words is a template over `Word`. It runs unchanged
/// on one std::uint64_t (the reference) or on a vector of 2, 4 or 8 of them. The choice happens at
/// run time, so one binary serves every x86-64 processor; on other architectures vectors have two
/// lanes.
///
/// The templates are always inlined into entry functions with a target attribute
/// (codec/detail/sign_simd.hpp shows how). No compiler flag and no SIMD library is needed.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd_level.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>
#endif

namespace hcomp {

/// A vector of `Lanes` values of type T at any address.
template <class T, int Lanes> struct simd_vector {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes), aligned(alignof(T)), may_alias));
};
/// A vector for arithmetic; move it to and from memory with memcpy.
template <class T, int Lanes> struct aligned_vector {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes)));
};
template <int Lanes> using words = typename simd_vector<std::uint64_t, Lanes>::type;

template <class Word>
inline constexpr int word_lanes = static_cast<int>(sizeof(Word) / sizeof(std::uint64_t));

// By reference: passing vectors by value has no fixed ABI without the instruction set.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// product = low 32 bits of `a` (lane by lane) * `factor`; ignores the upper halves of `a`.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void multiply_low_halves(Word& product, Word const& a,
                                                                std::uint32_t factor) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDA_ARCH__)
  // clang finds the instruction itself; g++ 12 multiplies all 64 bits without this hint
  if constexpr (sizeof(Word) == 16) {
    using ints = typename simd_vector<int, 4>::type;
    product = (Word)__builtin_ia32_pmuludq128((ints)a, (ints)(Word{} + factor));
    return;
  } else if constexpr (sizeof(Word) == 32) {
    using ints = typename simd_vector<int, 8>::type;
    product = (Word)__builtin_ia32_pmuludq256((ints)a, (ints)(Word{} + factor));
    return;
  } else if constexpr (sizeof(Word) == 64) {
    using ints = typename simd_vector<int, 16>::type;
    using longs = typename simd_vector<long long, 8>::type;
    product = (Word)__builtin_ia32_pmuludq512_mask((ints)a, (ints)(Word{} + factor), longs{},
                                                   static_cast<unsigned char>(-1));
    return;
  }
#endif
  product = (a & 0xffffffffu) * factor;
}

/// The high and low 32 bits of these products; `low` may have garbage in its upper half.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void multiply_low_halves(Word& high, Word& low,
                                                                Word const& a,
                                                                std::uint32_t factor) {
  multiply_low_halves(low, a, factor);
  high = low >> 32;
}
[[gnu::always_inline]] HCOMP_HD inline void multiply_low_halves(std::uint32_t& high,
                                                                std::uint32_t& low, std::uint32_t a,
                                                                std::uint32_t factor) {
#if defined(__CUDA_ARCH__)
  high = __umulhi(a, factor);  // nvcc compiles the other form to 64-bit arithmetic
  low = a * factor;
#else
  std::uint64_t const product = std::uint64_t{a} * factor;
  high = static_cast<std::uint32_t>(product >> 32);
  low = static_cast<std::uint32_t>(product);
#endif
}

/// True if any bit of any lane is set.
template <class Word> [[gnu::always_inline]] HCOMP_HD inline bool any_bit(Word const& word) {
  std::uint64_t lanes[word_lanes<Word>];
  memcpy(lanes, &word, sizeof(word));
  std::uint64_t all = 0;
  for (std::uint64_t const lane : lanes) all |= lane;
  return all != 0;
}

/// word = {value, value, ...}. Not `Word{} + value`: g++ 12 compiles that to one insertion per
/// lane.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void repeat(Word& word, std::uint64_t value) {
  std::uint64_t lanes[word_lanes<Word>];
  for (auto& lane : lanes) lane = value;
  memcpy(&word, lanes, sizeof(word));
}
[[gnu::always_inline]] HCOMP_HD inline void repeat(std::uint32_t& word, std::uint64_t value) {
  word = static_cast<std::uint32_t>(value);
}

/// word = {first, first + 1, ...}, lane by lane.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void count_from(Word& word, std::uint64_t first) {
  std::uint64_t lanes[word_lanes<Word>];
  for (int i = 0; i < word_lanes<Word>; ++i) lanes[i] = first + static_cast<std::uint64_t>(i);
  memcpy(&word, lanes, sizeof(word));
}

#pragma GCC diagnostic pop

namespace detail {
/// Prefetches the address `bytes` after `place`. Any address is allowed.
[[gnu::always_inline]] inline void prefetch(void const* place, std::size_t bytes) {
  __builtin_prefetch(
      reinterpret_cast<void const*>(reinterpret_cast<std::uintptr_t>(place) + bytes));
}

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
template <class Work> [[gnu::target("avx2")]] inline auto run_avx2(Work const& work) {
  return work.template run<8>();
}
template <class Work>
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] inline auto run_avx512(Work const& work) {
  return work.template run<16>();
}
#endif
}  // namespace detail

/// Calls work.run<Lanes>(), compiled for `level`; Lanes is the number of 32-bit lanes per vector at
/// that level. `run` must be always_inline.
/// @param level  not above best_simd_level()
template <class Work> inline auto run_at([[maybe_unused]] simd_level level, Work const& work) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (level == simd_level::avx512) return detail::run_avx512(work);
  if (level == simd_level::avx2) return detail::run_avx2(work);
#endif
  return work.template run<4>();
}

}  // namespace hcomp
