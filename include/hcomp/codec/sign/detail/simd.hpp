#pragma once
/// @file
/// Fast paths of the sign kernels for simd_group, selected at run time by processor. They give the
/// same bits as kernels.hpp and run its word templates on several words at once. Only packing uses
/// intrinsics (movemask and similar).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sign/detail/kernels.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#define HCOMP_TARGET_AVX2 [[gnu::target("avx2")]]
#define HCOMP_TARGET_AVX512 [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]]
#endif

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group
namespace hcomp::detail::sign {

// ---- merging and splitting, a tile at a time

/// bernoulli_masks for one processor; not inlined, because merging and splitting share it. The key
/// is passed by value: no store can alias it, so its rounds are computed once.
using masks_function = void (*)(mask_tile& mask, mask_tile const& wanted, int count,
                                std::uint64_t first_word, mask_key key);

[[gnu::noinline]] inline void masks_baseline(mask_tile& mask, mask_tile const& wanted, int count,
                                             std::uint64_t first_word, mask_key key) {
  bernoulli_masks<words<2>>(mask, wanted, count, first_word, key);
}
#if defined(HCOMP_TARGET_AVX2)
[[gnu::noinline]] HCOMP_TARGET_AVX2 inline void masks_avx2(mask_tile& mask, mask_tile const& wanted,
                                                           int count, std::uint64_t first_word,
                                                           mask_key key) {
  bernoulli_masks<words<4>>(mask, wanted, count, first_word, key);
}
[[gnu::noinline]] HCOMP_TARGET_AVX512 inline void masks_avx512(mask_tile& mask,
                                                               mask_tile const& wanted, int count,
                                                               std::uint64_t first_word,
                                                               mask_key key) {
  bernoulli_masks<words<8>>(mask, wanted, count, first_word, key);
}
#endif

template <masks_function Masks>
[[gnu::always_inline]] inline void merge_signs_by(std::byte* acc, std::byte const* in, int count,
                                                  std::uint64_t first_word, bool acc_is_lower,
                                                  mask_key const& key) {
  alignas(64) mask_tile mine{}, differ{}, from_lower{};
  std::uint64_t const turn = acc_is_lower ? ~std::uint64_t{0} : 0;
  for (int w = 0; w < count; w += mask_tile_words) {
    int const n = std::min(mask_tile_words, count - w);
    auto const bytes = static_cast<std::size_t>(n) * 8;
    memcpy(mine.data(), acc + w * 8, bytes);
    memcpy(differ.data(), in + w * 8, bytes);
    for (std::size_t i = 0; i < differ.size(); ++i) differ[i] ^= mine[i];
    std::fill(differ.begin() + n, differ.end(), 0);
    Masks(from_lower, differ, n, first_word + static_cast<unsigned>(w), key);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] ^= differ[i] & (from_lower[i] ^ turn);
    memcpy(acc + w * 8, mine.data(), bytes);
  }
}

template <masks_function Masks>
[[gnu::always_inline]] inline void split_owners_by(std::byte* lower, std::byte* upper, int count,
                                                   std::uint64_t first_word, mask_key const& key) {
  alignas(64) mask_tile all{}, taken{};
  for (int w = 0; w < count; w += mask_tile_words) {
    int const n = std::min(mask_tile_words, count - w);
    auto const bytes = static_cast<std::size_t>(n) * 8;
    memcpy(all.data(), lower + w * 8, bytes);
    std::fill(all.begin() + n, all.end(), 0);
    Masks(taken, all, n, first_word + static_cast<unsigned>(w), key);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] ^= taken[i];
    memcpy(lower + w * 8, taken.data(), bytes);
    memcpy(upper + w * 8, all.data(), bytes);
  }
}

// ---- unpacking: 4, 8 or 16 lanes pick their bit out of a word

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

template <int Lanes>
[[gnu::always_inline]] inline void unpack_signs_by(std::byte const* in, int n, float size,
                                                   float* x) {
  using bits_type = typename simd_vector<std::uint32_t, Lanes>::type;
  bits_type lane_bit;
  for (int i = 0; i < Lanes; ++i) lane_bit[i] = 1u << i;
  bits_type const plus = bits_type{} + same_bits<std::uint32_t>(size);
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    auto const word = load<std::uint64_t>(in, static_cast<std::size_t>(i / 64));
    for (int part = 0; part < 64; part += Lanes) {
      bits_type const here = bits_type{} + static_cast<std::uint32_t>(word >> part);
      bits_type const clear = (bits_type)((here & lane_bit) == 0);
      bits_type const value = plus ^ (clear & 0x80000000u);
      memcpy(x + i + part, &value, sizeof(value));
    }
  }
  unpack_signs(serial_group{}, in + i / 8, n - i, size, x + i);
}

#pragma GCC diagnostic pop

// ---- packing: compare 64 values and gather the outcomes

/// Packs full words of signs of x + c, or of x if c is null. Returns whether NaN or infinity was
/// met.
using pack_function = bool (*)(float const* x, float const* c, int words, std::byte* out);

inline bool pack_floats_plain(float const* x, float const* c, int words, std::byte* out) {
  serial_group const one;
  return c ? pack_signs(one, compensated<float>{x, c}, words * 64, out)
           : pack_signs(one, x, words * 64, out);
}

#if defined(HCOMP_TARGET_AVX2)

inline bool pack_floats_sse2(float const* x, float const* c, int words, std::byte* out) {
  __m128i const magnitude = _mm_set1_epi32(0x7fff0000);  // the upper half of each lane decides
  __m128i largest = _mm_setzero_si128();
  for (int w = 0; w < words; ++w) {
    std::uint64_t bits = 0;
    for (int j = 0; j < 64; j += 16) {
      auto const four = [&](int k) {
        __m128 v = _mm_loadu_ps(x + w * 64 + j + k);
        if (c) v = _mm_add_ps(v, _mm_loadu_ps(c + w * 64 + j + k));
        largest = _mm_max_epi16(largest, _mm_and_si128(_mm_castps_si128(v), magnitude));
        return _mm_castps_si128(_mm_cmpge_ps(v, _mm_setzero_ps()));
      };
      auto const low = _mm_packs_epi32(four(0), four(4)), high = _mm_packs_epi32(four(8), four(12));
      auto const mask = _mm_movemask_epi8(_mm_packs_epi16(low, high));
      bits |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << j;
    }
    store(out, static_cast<std::size_t>(w), bits);
  }
  return _mm_movemask_epi8(_mm_cmpgt_epi16(largest, _mm_set1_epi16(0x7f7f))) != 0;
}

HCOMP_TARGET_AVX2 inline bool pack_floats_avx2(float const* x, float const* c, int words,
                                               std::byte* out) {
  __m256i const magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i const largest = _mm256_set1_epi32(0x7f7fffff);
  __m256i nonfinite = _mm256_setzero_si256();
  for (int w = 0; w < words; ++w) {
    std::uint64_t bits = 0;
    for (int j = 0; j < 64; j += 8) {
      __m256 v = _mm256_loadu_ps(x + w * 64 + j);
      if (c) v = _mm256_add_ps(v, _mm256_loadu_ps(c + w * 64 + j));
      auto const mask = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GE_OQ));
      bits |= static_cast<std::uint64_t>(static_cast<unsigned>(mask)) << j;
      nonfinite = _mm256_or_si256(
          nonfinite,
          _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_castps_si256(v), magnitude), largest));
    }
    store(out, static_cast<std::size_t>(w), bits);
  }
  return _mm256_movemask_epi8(nonfinite) != 0;
}

HCOMP_TARGET_AVX512 inline bool pack_floats_avx512(float const* x, float const* c, int words,
                                                   std::byte* out) {
  unsigned nonfinite = 0;
  for (int w = 0; w < words; ++w) {
    std::uint64_t bits = 0;
    for (int j = 0; j < 64; j += 16) {
      __m512 v = _mm512_loadu_ps(x + w * 64 + j);
      if (c) v = _mm512_add_ps(v, _mm512_loadu_ps(c + w * 64 + j));
      auto const mask = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GE_OQ);
      bits |= static_cast<std::uint64_t>(mask) << j;
      nonfinite |= _mm512_fpclass_ps_mask(v, 0x99);  // quiet NaN, +inf, -inf, signalling NaN
    }
    store(out, static_cast<std::size_t>(w), bits);
  }
  return nonfinite != 0;
}

HCOMP_TARGET_AVX2 inline void merge_signs_avx2(std::byte* acc, std::byte const* in, int count,
                                               std::uint64_t first_word, bool acc_is_lower,
                                               mask_key const& key) {
  merge_signs_by<masks_avx2>(acc, in, count, first_word, acc_is_lower, key);
}
HCOMP_TARGET_AVX512 inline void merge_signs_avx512(std::byte* acc, std::byte const* in, int count,
                                                   std::uint64_t first_word, bool acc_is_lower,
                                                   mask_key const& key) {
  merge_signs_by<masks_avx512>(acc, in, count, first_word, acc_is_lower, key);
}
HCOMP_TARGET_AVX2 inline void split_owners_avx2(std::byte* lower, std::byte* upper, int count,
                                                std::uint64_t first_word, mask_key const& key) {
  split_owners_by<masks_avx2>(lower, upper, count, first_word, key);
}
HCOMP_TARGET_AVX512 inline void split_owners_avx512(std::byte* lower, std::byte* upper, int count,
                                                    std::uint64_t first_word, mask_key const& key) {
  split_owners_by<masks_avx512>(lower, upper, count, first_word, key);
}
HCOMP_TARGET_AVX2 inline void unpack_signs_avx2(std::byte const* in, int n, float size, float* x) {
  unpack_signs_by<8>(in, n, size, x);
}
HCOMP_TARGET_AVX512 inline void unpack_signs_avx512(std::byte const* in, int n, float size,
                                                    float* x) {
  unpack_signs_by<16>(in, n, size, x);
}

#undef HCOMP_TARGET_AVX2
#undef HCOMP_TARGET_AVX512
#define HCOMP_PICK(level, baseline, name)        \
  ((level) == simd_level::avx512 ? name##_avx512 \
                                 : ((level) == simd_level::avx2 ? name##_avx2 : (baseline)))
#else
#define HCOMP_PICK(level, baseline, name) (baseline)
inline constexpr auto pack_floats_sse2 = pack_floats_plain;
#endif

/// @param level  at most best_simd_level(); every level gives the same bits
inline bool pack_floats(float const* x, float const* c, int n, std::byte* out,
                        [[maybe_unused]] simd_level level) {
  pack_function const pack = HCOMP_PICK(level, pack_floats_sse2, pack_floats);
  int const full = n / 64;
  bool nonfinite = pack(x, c, full, out);
  if (int const left = n - full * 64) {
    bool finite = true;
    auto const bits = c ? word_of_signs(compensated<float>{x, c}, full, left, finite)
                        : word_of_signs(x, full, left, finite);
    store(out, static_cast<std::size_t>(full), bits);
    nonfinite |= !finite;
  }
  return nonfinite;
}
inline void merge_signs(std::byte* acc, std::byte const* in, int count, std::uint64_t first_word,
                        bool acc_is_lower, mask_key const& key, [[maybe_unused]] simd_level level) {
  using merge_function =
      void (*)(std::byte*, std::byte const*, int, std::uint64_t, bool, mask_key const&);
  merge_function const merge = HCOMP_PICK(level, merge_signs_by<masks_baseline>, merge_signs);
  merge(acc, in, count, first_word, acc_is_lower, key);
}
inline void split_owners(std::byte* lower, std::byte* upper, int count, std::uint64_t first_word,
                         mask_key const& key, [[maybe_unused]] simd_level level) {
  using split_function = void (*)(std::byte*, std::byte*, int, std::uint64_t, mask_key const&);
  split_function const split = HCOMP_PICK(level, split_owners_by<masks_baseline>, split_owners);
  split(lower, upper, count, first_word, key);
}
inline void unpack_signs(std::byte const* in, int n, float size, float* x,
                         [[maybe_unused]] simd_level level) {
  using unpack_function = void (*)(std::byte const*, int, float, float*);
  unpack_function const unpack = HCOMP_PICK(level, unpack_signs_by<4>, unpack_signs);
  unpack(in, n, size, x);
}

#undef HCOMP_PICK

// ---- overloads of the templates in kernels.hpp for simd_group

inline bool pack_signs(simd_group, float const* const& x, int n, std::byte* out) {
  return pack_floats(x, nullptr, n, out, best_simd_level());
}
inline bool pack_signs(simd_group, compensated<float> const& x, int n, std::byte* out) {
  return pack_floats(x.x, x.compensation, n, out, best_simd_level());
}
inline void merge_signs(simd_group, std::byte* acc, std::byte const* in, int count,
                        std::uint64_t first_word, bool acc_is_lower, mask_key const& key) {
  merge_signs(acc, in, count, first_word, acc_is_lower, key, best_simd_level());
}
inline void split_owners(simd_group, std::byte* lower, std::byte* upper, int count,
                         std::uint64_t first_word, mask_key const& key) {
  split_owners(lower, upper, count, first_word, key, best_simd_level());
}
inline void unpack_signs(simd_group, std::byte const* in, int n, float size, float* x) {
  unpack_signs(in, n, size, x, best_simd_level());
}

}  // namespace hcomp::detail::sign

#endif
