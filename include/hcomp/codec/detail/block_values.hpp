#pragma once
/// @file
/// Blocks of values: how many there are, and their values by one worker, 16 bytes at a time where
/// they lie on a multiple of 16, which devices load and store at once.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// Blocks of so many values that `values` are.
template <std::size_t Values> HCOMP_HD constexpr std::size_t blocks_of(std::size_t values) {
  return (values + Values - 1) / Values;
}
/// Values of a block among `values`.
template <std::size_t Values>
HCOMP_HD constexpr std::size_t values_of_block(std::size_t block, std::size_t values) {
  std::size_t const left = values - block * Values;
  return left < Values ? left : Values;
}

template <class T> inline constexpr std::size_t values_at_once = 16 / sizeof(T);

/// block[j] = x[j]; behind n values, zeros
template <class T, std::size_t Values>
HCOMP_HD void read_block(T const* x, std::size_t n, T (&block)[Values]) {
  auto const* const from = reinterpret_cast<std::byte const*>(x);
  if (n == Values && reinterpret_cast<std::uintptr_t>(x) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(block + j, __builtin_assume_aligned(from + sizeof(T) * j, 16), 16);
  else
    for (std::size_t j = 0; j < Values; ++j) block[j] = j < n ? x[j] : T{0};
}
/// out[j] = block[j], n of them
template <class T, std::size_t Values>
HCOMP_HD void write_block(T const (&block)[Values], std::size_t n, T* out) {
  auto* const to = reinterpret_cast<std::byte*>(out);
  if (n == Values && reinterpret_cast<std::uintptr_t>(out) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(__builtin_assume_aligned(to + sizeof(T) * j, 16), block + j, 16);
  else
    for (std::size_t j = 0; j < n; ++j) out[j] = block[j];
}

}  // namespace hcomp::detail
