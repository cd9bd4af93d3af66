#pragma once
/// @file
/// Chunks at odd addresses, moved word by word by workers that share memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>

namespace hcomp::detail {

/// Workers that share memory.
template <class Group>
concept SharesMemory = requires(Group group) {
  group.scratch();
};

/// Copies bytes from a multiple of 4 to anywhere. Words are read whole: up to the next multiple of
/// 4 behind them.
/// @param worker  of `workers`, which share the work
HCOMP_HD inline void copy_words(std::size_t worker, std::size_t workers, std::byte* to,
                                std::byte const* from, std::size_t bytes) {
  std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % 4;  // to the first whole word
  if (head > bytes) head = bytes;
  std::size_t const words = (bytes - head) / 4, tail = head + 4 * words;
  for (std::size_t i = worker; i < head; i += workers) to[i] = from[i];
  for (std::size_t i = worker; i < words; i += workers) {
    auto word = load_aligned<std::uint32_t>(from, i);
    if (head > 0)
      word = word >> 8 * head | load_aligned<std::uint32_t>(from, i + 1) << (32 - 8 * head);
    store_aligned(to + head, i, word);
  }
  for (std::size_t i = tail + worker; i < bytes; i += workers) to[i] = from[i];
}

/// Copies bytes `begin` to `end` of `in` to `to`, which has room for 4 bytes more; both at
/// multiples of 4. Returns where they begin there. For all workers, after their next sync.
template <class Group>
HCOMP_HD std::byte* bring_words(Group group, std::byte const* in, std::size_t begin,
                                std::size_t end, std::byte* to) {
  std::size_t const skipped = begin % 4, bytes = skipped + end - begin;
  std::byte const* const from = in + (begin - skipped);
  auto const worker = static_cast<std::size_t>(group.worker());
  for_some_loaded(
      group, bytes / 4, [&](std::size_t i) { return load_aligned<std::uint32_t>(from, i); },
      [&](std::size_t i, std::uint32_t word) { store_aligned(to, i, word); });
  for (std::size_t i = bytes / 4 * 4 + worker; i < bytes; i += Group::workers) to[i] = from[i];
  return to + skipped;
}

/// What is read behind the last byte of a chunk, with whole words, becomes 0. For all workers, after
/// their next sync.
template <class Group> HCOMP_HD void clear_behind(Group group, std::byte* end) {
  for (int b = group.worker(); b < 8; b += Group::workers) end[b] = std::byte{0};
}

/// bring_words, and 0 behind them, as clear_behind: `to` has room for 12 bytes more. Returns how far
/// behind `to` they begin. For all workers, before their next sync.
template <class Group>
HCOMP_HD unsigned bring_chunk(Group group, std::byte const* in, std::size_t begin, std::size_t end,
                              std::byte* to) {
  std::byte* const first = bring_words(group, in, begin, end, to);
  clear_behind(group, first + (end - begin));
  return static_cast<unsigned>(first - to);
}

/// Where a chunk of so many bytes goes: to `out`, or out(bytes).
HCOMP_HD inline std::byte* place_of(std::byte* out, std::size_t /*bytes*/) { return out; }
template <class Out> HCOMP_HD std::byte* place_of(Out const& out, std::size_t bytes) {
  return out(bytes);
}
/// Says how long the chunk is, as soon as that is known.
template <class Out>
HCOMP_HD void announce_bytes([[maybe_unused]] Out const& out, [[maybe_unused]] std::size_t bytes) {
  if constexpr (requires { out.announce(bytes); }) out.announce(bytes);
}
/// Where it is put together: in the room, if the workers share memory, and otherwise in its place.
template <class Group, class Out>
HCOMP_HD std::byte* room_for([[maybe_unused]] Group group, [[maybe_unused]] Out const& out,
                             [[maybe_unused]] std::byte* room) {
  if constexpr (SharesMemory<Group>)
    return room;
  else
    return out;
}
/// A chunk that workers have put together in memory they share, to its place. For all workers, after a
/// sync. Returns its bytes.
/// @param bytes  of it; words of which some are behind it are read whole
template <class Group, class Out>
HCOMP_HD std::size_t send_whole(Group group, Out const& out, std::byte const* chunk,
                                std::size_t bytes) {
  copy_words(static_cast<std::size_t>(group.worker()), Group::workers, place_of(out, bytes), chunk,
             bytes);
  return bytes;
}
/// The same before a sync, up to `end`, behind which there is room for 8 bytes.
template <class Group, class Out>
HCOMP_HD std::size_t send_chunk(Group group, Out const& out, std::byte* chunk, std::byte* end) {
  clear_behind(group, end);
  group.sync();
  return send_whole(group, out, chunk, static_cast<std::size_t>(end - chunk));
}

}  // namespace hcomp::detail
