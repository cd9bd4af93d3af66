#pragma once
/// @file
/// Chunks in shared memory, bit by bit.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>

namespace hcomp::detail {

/// For all workers, before their next sync.
/// @param bytes  a multiple of 16, as is the address
template <class Group> HCOMP_HD void clear_room(Group group, std::byte* room, std::size_t bytes) {
  struct alignas(16) words {
    std::uint32_t all[4];
  };
  auto* const to = reinterpret_cast<words*>(room);
  for (unsigned i = worker_of(group); i < bytes / 16; i += Group::workers) to[i] = words{};
}
/// Bits from `at` on of a chunk, which are 0, become `value`, which has no others than `width`. Other
/// workers may do so with neighbouring bits.
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
/// Numbers of `width` bits, one behind the other from bit `at` on: those of a lane. Behind those of the
/// block, zeros.
template <class Group, class Place, class Word, std::size_t Own>
HCOMP_HD void put_numbers(Group group, Place const& mine, Word const (&numbers)[Own], int width,
                          std::byte* chunk, std::uint32_t at) {
  auto const bits = static_cast<unsigned>(width);
  if (width <= 32) {  // two together
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
/// The opposite. There may be words read that have none of these bits.
template <class Word>
HCOMP_HD Word bits_of_chunk(std::byte const* chunk, std::uint32_t at, int width) {
  auto const* const words = reinterpret_cast<std::uint32_t const*>(chunk) + at / 32;
  int const from = static_cast<int>(at % 32);
  std::uint64_t value = (std::uint64_t{words[1]} << 32 | words[0]) >> from;
  if constexpr (sizeof(Word) == 8)
    if (from + width > 64) value |= std::uint64_t{words[2]} << (64 - from);
  return width == 0 ? Word{0} : static_cast<Word>(value & ~std::uint64_t{0} >> (64 - width));
}

/// Copies bytes `begin` to `end` of `in` to `room`, and zeros for 8 bytes behind them; both at
/// multiples of 4. Returns where they begin there. For all workers, before their next sync.
template <class Group>
HCOMP_HD std::uint32_t bring_chunk(Group group, std::byte const* in, std::size_t begin,
                                   std::size_t end, std::byte* room) {
  auto const skipped = static_cast<unsigned>(begin % 4),
             bytes = skipped + static_cast<unsigned>(end - begin), words = bytes / 4,
             worker = worker_of(group);
  std::byte const* const from = in + (begin - skipped);
  for_each_loaded(
      group, words,
      [&](unsigned i, unsigned k) {
        return load_aligned<std::uint32_t>(from, i + k * Group::workers);
      },
      [&](unsigned i, unsigned k, std::uint32_t word) {
        store_aligned(room, i + k * Group::workers, word);
      });
  for (unsigned j = worker; j < 12; j += Group::workers) {
    unsigned const i = 4 * words + j;
    if (i < bytes + 8) room[i] = i < bytes ? from[i] : std::byte{0};
  }
  return skipped;
}
/// Copies a chunk, behind which there are 4 bytes, from shared memory to its place. For all workers,
/// after a sync.
template <class Group>
HCOMP_HD void send_words(Group group, std::byte* to, std::byte const* room, unsigned bytes) {
  unsigned const worker = worker_of(group);
  auto head = static_cast<unsigned>(0 - reinterpret_cast<std::uintptr_t>(to)) % 4;
  if (head > bytes) head = bytes;
  unsigned const words = (bytes - head) / 4, tail = head + 4 * words;
  auto const* const from = reinterpret_cast<std::uint32_t const*>(room);
  for (unsigned i = worker; i < words; i += Group::workers) {
    auto const both = std::uint64_t{from[i + 1]} << 32 | from[i];
    store_aligned(to + head, i, static_cast<std::uint32_t>(both >> 8 * head));
  }
  for (unsigned i = worker; i < 4; i += Group::workers) {
    if (i < head) to[i] = room[i];
    if (tail + i < bytes) to[tail + i] = room[tail + i];
  }
}

}  // namespace hcomp::detail
