#pragma once
/// @file
/// Typed access to bytes without assumptions about aliasing or alignment. Wire bytes are
/// little-endian, as is every supported machine.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp {

static_assert(std::endian::native == std::endian::little, "hcomp's wire format is little-endian");

/// Reads the `i`-th T of the array at `bytes`.
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

/// load and store for addresses aligned to the smaller of four and alignof(T). Blocks are aligned
/// so: in device memory they start at multiples of four. A device then moves whole words; with load
/// it would move single bytes. A CPU accepts any address.
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

/// load_aligned and store_aligned of 64-bit words. A device moves the whole word if `bytes` is a
/// multiple of 8, the usual case. nvcc turns memcpy into two half-word loads, which request all
/// sectors twice.
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

/// Copies `count` bytes that do not overlap; the workers of a group share the work. Alignment as
/// for load_aligned.
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

/// Reinterprets the bits as another type of equal size. By value: through a reference nvcc loads
/// single bytes.
template <class To, class From> HCOMP_HD inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof(To));
  return to;
}

/// True unless `value` is NaN or infinite. Tests the bits, so that -ffast-math cannot remove the
/// check.
HCOMP_HD inline bool is_finite(float value) {
  return (same_bits<std::uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}
HCOMP_HD inline bool is_finite(double value) {
  return (same_bits<std::uint64_t>(value) >> 52 & 0x7ffu) != 0x7ffu;
}
/// Integers are always finite.
template <std::integral T> HCOMP_HD constexpr bool is_finite(T) { return true; }

/// Selects four of the eight bytes of two words: byte k of the result is byte (selector >> 4 k &
/// 7); the bytes of `low` are 0 to 3. One instruction on a device.
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

/// Bitwise select: bits of a where `which` is 1, bits of b elsewhere. One instruction on a device;
/// nvcc makes two of the plain formula if `which` is a constant.
HCOMP_HD inline std::uint32_t chosen_bits(std::uint32_t which, std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t chosen;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(chosen) : "r"(which), "r"(a), "r"(b));
  return chosen;
#else
  return (a & which) | (b & ~which);
#endif
}

/// Funnel shift: the lower half of the pair (high, low) shifted right by bits % 32.
HCOMP_HD inline std::uint32_t moved_down(std::uint32_t low, std::uint32_t high, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits % 32);
#endif
}

// std::popcount, std::countr_zero and std::bit_width for host and device. In device code nvcc 13
// silently compiles the std versions to constants: all three for 64-bit words, and countr_zero also
// for 32-bit words. libstdc++ implements them with host-only builtins.
namespace detail {

/// The number of 1 bits of `word`.
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

/// The index of the lowest 1 bit. Precondition: `word` is not 0.
template <std::unsigned_integral T> HCOMP_HD inline int lowest_one(T word) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

/// The number of bits from the highest 1 bit down; 0 for 0.
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
