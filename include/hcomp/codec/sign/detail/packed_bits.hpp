#pragma once
/// @file
/// Packs the bits that masks select contiguously, and scatters them again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::sign {

/// Moves the bits of `word` under `mask` together, like PEXT. deposit_bits is the inverse, like
/// PDEP.
HCOMP_HD inline std::uint64_t extract_bits(std::uint64_t word, std::uint64_t mask) {
  std::uint64_t bits = 0;
  for (std::uint64_t bit = 1; mask != 0; mask &= mask - 1, bit <<= 1)
    if (word & mask & (~mask + 1)) bits |= bit;
  return bits;
}
HCOMP_HD inline std::uint64_t deposit_bits(std::uint64_t bits, std::uint64_t mask) {
  std::uint64_t word = 0;
  for (; mask != 0; mask &= mask - 1, bits >>= 1)
    if (bits & 1) word |= mask & (~mask + 1);
  return word;
}

/// Packs selected bits from `bytes` on. The output may overwrite memory that the same loop has
/// already read.
struct bit_writer {
  std::byte* bytes;
  std::uint64_t pending = 0;
  int pending_bits = 0;
  std::size_t words = 0;

  [[gnu::always_inline]] inline void put(std::uint64_t bits, int count) {
    if (count == 0) return;
    pending |= bits << pending_bits;
    if (pending_bits + count >= 64) {
      store(bytes, words++, pending);
      int const used = 64 - pending_bits;
      pending = used == 64 ? 0 : bits >> used;
      pending_bits -= 64;
    }
    pending_bits += count;
  }
  /// Writes the pending bits, rounded up to bytes.
  void flush() {
    std::memcpy(bytes + words * 8, &pending, static_cast<std::size_t>(pending_bits + 7) / 8);
  }
};

/// Loads 64 bits from bit `at` on. The 8 bytes behind the packed bits must be readable.
[[gnu::always_inline]] HCOMP_HD inline std::uint64_t bits_at(std::byte const* packed,
                                                             std::size_t at) {
  std::uint64_t const low = load<std::uint64_t>(packed + at / 8) >> (at % 8);
  if (at % 8 == 0) return low;
  return low | static_cast<std::uint64_t>(packed[at / 8 + 8]) << (64 - at % 8);
}

inline void gather_bits_plain(std::byte const* words, std::byte const* masks, int count,
                              bit_writer& out) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w) {
    auto const mask = load<std::uint64_t>(masks, w);
    out.put(extract_bits(load<std::uint64_t>(words, w), mask), ones(mask));
  }
}
inline std::size_t scatter_bits_plain(std::byte const* packed, std::size_t at,
                                      std::byte const* masks, int count, std::byte* words) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w) {
    auto const mask = load<std::uint64_t>(masks, w);
    store(words, w, load<std::uint64_t>(words, w) | deposit_bits(bits_at(packed, at), mask));
    at += static_cast<std::size_t>(ones(mask));
  }
  return at;
}
inline std::size_t count_bits_plain(std::byte const* words, int count) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w)
    bits += static_cast<std::size_t>(ones(load<std::uint64_t>(words, w)));
  return bits;
}

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
[[gnu::target("popcnt")]] inline std::size_t count_bits_popcnt(std::byte const* words, int count) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w)
    bits += static_cast<std::size_t>(_mm_popcnt_u64(load<std::uint64_t>(words, w)));
  return bits;
}
[[gnu::target("bmi2,popcnt")]] inline void gather_bits_bmi2(std::byte const* words,
                                                            std::byte const* masks, int count,
                                                            bit_writer& out) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w) {
    auto const mask = load<std::uint64_t>(masks, w);
    out.put(_pext_u64(load<std::uint64_t>(words, w), mask), static_cast<int>(_mm_popcnt_u64(mask)));
  }
}
[[gnu::target("bmi2,popcnt")]] inline std::size_t scatter_bits_bmi2(std::byte const* packed,
                                                                    std::size_t at,
                                                                    std::byte const* masks,
                                                                    int count, std::byte* words) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(count); ++w) {
    auto const mask = load<std::uint64_t>(masks, w);
    store(words, w, load<std::uint64_t>(words, w) | _pdep_u64(bits_at(packed, at), mask));
    at += static_cast<std::size_t>(_mm_popcnt_u64(mask));
  }
  return at;
}
#endif

/// Number of 1 bits in `count` words.
inline std::size_t count_bits(std::byte const* words, int count) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (best_simd_level() >= simd_level::avx2) return count_bits_popcnt(words, count);
#endif
  return count_bits_plain(words, count);
}
/// Appends the bits of `count` words that their masks select.
inline void gather_bits(std::byte const* words, std::byte const* masks, int count,
                        bit_writer& out) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (best_simd_level() >= simd_level::avx2) return gather_bits_bmi2(words, masks, count, out);
#endif
  gather_bits_plain(words, masks, count, out);
}
/// Combines the packed bits from bit `at` on with `count` words by OR, where their masks select.
/// Returns the position of the next bit.
inline std::size_t scatter_bits(std::byte const* packed, std::size_t at, std::byte const* masks,
                                int count, std::byte* words) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (best_simd_level() >= simd_level::avx2)
    return scatter_bits_bmi2(packed, at, masks, count, words);
#endif
  return scatter_bits_plain(packed, at, masks, count, words);
}

}  // namespace hcomp::detail::sign
