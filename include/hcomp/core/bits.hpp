#pragma once
/// @file
/// Typed access to bytes, without assumptions about aliasing or alignment. Wire bytes are
/// little-endian, as is every machine hcomp runs on.

#include <bit>
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

/// Same bits, other type; both of one size.
template <class To, class From> HCOMP_HD inline To same_bits(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// True unless `value` is NaN or infinite; by its bits, so that -ffast-math cannot remove it.
HCOMP_HD inline bool is_finite(float value) {
  return (same_bits<std::uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}
HCOMP_HD inline bool is_finite(double value) {
  return (same_bits<std::uint64_t>(value) >> 52 & 0x7ffu) != 0x7ffu;
}

}  // namespace hcomp
