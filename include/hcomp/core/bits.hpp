#pragma once
/// @file
/// Typed access to bytes, without assumptions about aliasing or alignment. Wire bytes are
/// little-endian, as is every machine hcomp runs on.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp {

static_assert(std::endian::native == std::endian::little, "hcomp's wire format is little-endian");

/// The `i`-th T stored from `bytes` on.
template <class T> HCOMP_HD inline T load(std::byte const* bytes, std::size_t i = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T> HCOMP_HD inline void store(std::byte* bytes, std::size_t i, T const& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

/// load and store for addresses that are multiples of four, or of alignof(T) if that is less, as
/// those in blocks are, which start at multiples of four on devices. A device moves words there,
/// and elsewhere single bytes. On a CPU any address will do.
template <class T> HCOMP_HD inline T load_aligned(std::byte const* bytes, std::size_t i = 0) {
#if defined(__CUDA_ARCH__)
  T value;
  memcpy(&value, __builtin_assume_aligned(bytes + i * sizeof(T), alignof(T) < 4 ? alignof(T) : 4),
         sizeof(T));
  return value;
#else
  return load<T>(bytes, i);
#endif
}

template <class T>
HCOMP_HD inline void store_aligned(std::byte* bytes, std::size_t i, T const& value) {
#if defined(__CUDA_ARCH__)
  memcpy(__builtin_assume_aligned(bytes + i * sizeof(T), alignof(T) < 4 ? alignof(T) : 4), &value,
         sizeof(T));
#else
  store(bytes, i, value);
#endif
}

/// load_aligned and store_aligned of words of 64 bits, on devices at once where `bytes` is a multiple of
/// 8, as it usually is. Loads of halves, which nvcc would make of memcpy, ask for all sectors twice.
HCOMP_HD inline std::uint64_t load_word(std::byte const* bytes, std::size_t i = 0) {
#if defined(__CUDA_ARCH__)
  if (reinterpret_cast<std::uintptr_t>(bytes) % 8 == 0)
    return reinterpret_cast<std::uint64_t const*>(bytes)[i];
  auto const* const halves = reinterpret_cast<std::uint32_t const*>(bytes) + 2 * i;
  return halves[0] | std::uint64_t{halves[1]} << 32;
#else
  return load<std::uint64_t>(bytes, i);
#endif
}

HCOMP_HD inline void store_word(std::byte* bytes, std::size_t i, std::uint64_t word) {
#if defined(__CUDA_ARCH__)
  if (reinterpret_cast<std::uintptr_t>(bytes) % 8 == 0) {
    reinterpret_cast<std::uint64_t*>(bytes)[i] = word;
  } else {
    auto* const halves = reinterpret_cast<std::uint32_t*>(bytes) + 2 * i;
    halves[0] = static_cast<std::uint32_t>(word);
    halves[1] = static_cast<std::uint32_t>(word >> 32);
  }
#else
  store(bytes, i, word);
#endif
}

/// to = from, `count` bytes that do not overlap, shared out among the workers of a group; addresses
/// as for load_aligned.
template <class Group>
HCOMP_HD void copy_bytes(Group group, std::byte* to, std::byte const* from, std::size_t count) {
  if constexpr (Group::workers == 1) {
    memcpy(to, from, count);
  } else {
    auto const worker = static_cast<std::size_t>(group.worker());
    for (std::size_t w = worker; w < count / 4; w += Group::workers)
      store_aligned(to, w, load_aligned<std::uint32_t>(from, w));
    for (std::size_t i = count / 4 * 4 + worker; i < count; i += Group::workers) to[i] = from[i];
  }
}

/// Same bits, other type; both of one size. By value: through a reference nvcc loads single bytes.
template <class To, class From> HCOMP_HD inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof(To));
  return to;
}

/// True unless `value` is NaN or infinite; by its bits, so that -ffast-math cannot remove it.
HCOMP_HD inline bool is_finite(float value) {
  return (same_bits<std::uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}
HCOMP_HD inline bool is_finite(double value) {
  return (same_bits<std::uint64_t>(value) >> 52 & 0x7ffu) != 0x7ffu;
}
/// Integers always are.
template <std::integral T> HCOMP_HD constexpr bool is_finite(T) { return true; }

/// Four of the eight bytes of two words: byte k of the result is number (selector >> 4 k & 7), the
/// bytes of `low` being 0 to 3. One instruction of a device.
HCOMP_HD inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, unsigned selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, selector);
#else
  std::uint64_t const all = std::uint64_t{high} << 32 | low;
  std::uint32_t picked = 0;
  for (int k = 0; k < 4; ++k)
    picked |= static_cast<std::uint32_t>(all >> 8 * (selector >> 4 * k & 7) & 0xffu) << 8 * k;
  return picked;
#endif
}

/// The bits of a where `which` has 1, and elsewhere those of b. By one instruction of a device: of the
/// formula nvcc makes two where `which` is a constant.
HCOMP_HD inline std::uint32_t chosen_bits(std::uint32_t which, std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t chosen;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(chosen) : "r"(which), "r"(a), "r"(b));
  return chosen;
#else
  return (a & which) | (b & ~which);
#endif
}

/// The lower half of two words moved down by bits % 32.
HCOMP_HD inline std::uint32_t moved_down(std::uint32_t low, std::uint32_t high, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits % 32);
#endif
}

// std::popcount, std::countr_zero and std::bit_width for host and device. In device code nvcc 13
// compiles std's to constants, all of them for 64-bit words and countr_zero for 32-bit words too,
// and does not say so: libstdc++ writes them with builtins that only hosts have.
namespace detail {

/// How many bits of `word` are 1.
template <std::unsigned_integral T> HCOMP_HD inline int ones(T word) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8)
    return __popcll(word);
  else
    return __popc(word);
#else
  return std::popcount(word);
#endif
}

/// The place of the lowest bit that is 1, for a word that has one.
template <std::unsigned_integral T> HCOMP_HD inline int lowest_one(T word) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

/// How many bits `word` has, from its highest 1 on; 0 for 0.
template <std::unsigned_integral T> HCOMP_HD inline int bit_length(T word) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8)
    return 64 - __clzll(static_cast<long long>(word));
  else
    return 32 - __clz(static_cast<int>(word));
#else
  return static_cast<int>(std::bit_width(word));
#endif
}

template <std::integral T> HCOMP_HD constexpr bool is_power_of_two(T n) {
  return n > 0 && (n & (n - 1)) == 0;
}

}  // namespace detail
}  // namespace hcomp
