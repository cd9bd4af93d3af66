#pragma once
/// @file
/// Bit-level access to chunks in shared memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>

namespace hcomp::detail {

/// Clears memory. All workers call it before their next sync.
/// @param bytes  a multiple of 16, like the address
template <class Group> HCOMP_HD void clear_area(Group group, std::byte* area, std::size_t bytes) {
  for (unsigned i = worker_of(group); i < bytes / 16; i += Group::workers)
    adjacent<std::uint32_t, 4>{}.put(area + 16 * i);
}
/// Writes the `width` bits of `value` at bit `at` of a chunk, where all bits are 0; higher bits of
/// `value` must be 0. Other workers may write neighbouring bits concurrently.
template <class Group, class Word>
HCOMP_HD void put_bits(Group group, std::byte* chunk, std::uint32_t at, Word value, int width) {
  auto* const to = reinterpret_cast<std::uint32_t*>(chunk) + at / 32;
  int const from = static_cast<int>(at % 32);
  std::uint64_t const low = std::uint64_t{value} << from;
  add_bits(group, to, static_cast<std::uint32_t>(low));
  if (from + width > 32) add_bits(group, to + 1, static_cast<std::uint32_t>(low >> 32));
  if constexpr (sizeof(Word) == 8)
    if (from + width > 64)
      add_bits(group, to + 2, static_cast<std::uint32_t>(value >> (64 - from)));
}
/// Writes the lane's numbers of `width` bits; number i of the block is at bit `at` + i * width.
/// Numbers behind those of the block must be 0.
template <class Group, class Place, class Word, std::size_t Own>
HCOMP_HD void put_numbers(Group group, Place const& mine, Word const (&numbers)[Own], int width,
                          std::byte* chunk, std::uint32_t at) {
  auto const bits = static_cast<unsigned>(width);
  if (width <= 32) {  // two at once
    HCOMP_UNROLL
    for (unsigned j = 0; j < Own; j += 2)
      put_bits(group, chunk, at + mine.number(j) * bits,
               std::uint64_t{numbers[j]} | std::uint64_t{numbers[j + 1]} << width, 2 * width);
  } else {
    HCOMP_UNROLL
    for (unsigned j = 0; j < Own; ++j)
      put_bits(group, chunk, at + mine.number(j) * bits, numbers[j], width);
  }
}
/// The inverse of put_bits. It may also read words without any of these bits.
template <class Word>
HCOMP_HD Word bits_of_chunk(std::byte const* chunk, std::uint32_t at, int width) {
  auto const* const words = reinterpret_cast<std::uint32_t const*>(chunk) + at / 32;
  int const from = static_cast<int>(at % 32);
  std::uint64_t value = (std::uint64_t{words[1]} << 32 | words[0]) >> from;
  if constexpr (sizeof(Word) == 8)
    if (from + width > 64) value |= std::uint64_t{words[2]} << (64 - from);
  return width == 0 ? Word{0} : static_cast<Word>(value & ~std::uint64_t{0} >> (64 - width));
}

}  // namespace hcomp::detail
