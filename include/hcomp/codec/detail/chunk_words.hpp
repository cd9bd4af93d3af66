#pragma once
/// @file
/// Moves chunks from and to odd addresses word by word, with workers that share memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Workers that share memory.
template <class Group>
concept SharesMemory = requires(Group group) {
  group.scratch();
};

/// Copies a chunk from a multiple of 16 to any address, with all workers. Reads up to 16 bytes
/// behind it.
template <class Group>
HCOMP_HD void copy_chunk(Group group, std::byte* to, std::byte const* from, std::size_t bytes) {
  using unit = adjacent<std::uint32_t, 4>;
  constexpr auto each = static_cast<unsigned>(sizeof(unit));
  auto const shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to) % each);
  auto const all = static_cast<unsigned>(bytes), end = (shift + all) / each;
  // Units of `to` are `shift` bytes before those of `from`: copy the complete units, and the bytes
  // around them.
  unsigned head = (each - shift) % each, tail = end * each - shift;
  if (end == 0) head = tail = all;
  std::byte* const units = to - shift;
  auto const copy_units = [&](auto words_before) {
    constexpr unsigned before = words_before.value;  // words of a unit that come from the previous
                                                     // one
#if defined(__CUDA_ARCH__)
#pragma unroll 1  // each worker has few iterations, and registers are scarce
#endif
    for (unsigned i = (shift > 0 ? 1 : 0) + worker_of(group); i < end; i += Group::workers) {
      std::uint32_t words[9] = {};
      auto const lower = before > 0 ? unit::at(from + each * i - each) : unit{},
                 upper = unit::at(from + each * i);
      HCOMP_UNROLL
      for (unsigned w = 0; w < 4; ++w) {
        words[w] = lower.values[w];
        words[4 + w] = upper.values[w];
      }
      unit moved;
      HCOMP_UNROLL
      for (unsigned w = 0; w < 4; ++w)
        moved.values[w] = moved_down(words[4 - before + w], words[5 - before + w], 8 * (0 - shift));
      put_at_once(moved, reinterpret_cast<std::uint32_t*>(units + each * i));
    }
  };
  switch ((shift + 3) / 4) {
    case 0: copy_units(std::integral_constant<unsigned, 0>()); break;
    case 1: copy_units(std::integral_constant<unsigned, 1>()); break;
    case 2: copy_units(std::integral_constant<unsigned, 2>()); break;
    case 3: copy_units(std::integral_constant<unsigned, 3>()); break;
    default: copy_units(std::integral_constant<unsigned, 4>());
  }
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (unsigned i = worker_of(group); i < head + all - tail; i += Group::workers) {
    unsigned const at = i < head ? i : tail + i - head;
    to[at] = from[at];
  }
}

/// Copies bytes `begin` to `end` of an encoded vector, which is at a multiple of 4, to `to`, at a
/// multiple of 16. It also copies up to 15 bytes before them; `to` must have space for these.
/// Returns their position there. All workers call it; the bytes are valid after their next sync.
/// @param begin  at least 16 bytes of the encoded vector precede it
template <class Group>
HCOMP_HD std::byte* bring_bytes(Group group, std::byte const* in, std::size_t begin,
                                std::size_t end, std::byte* to) {
  using unit = adjacent<std::uint32_t, 4>;
  constexpr auto each = static_cast<unsigned>(sizeof(unit));
  auto const skipped = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(in + begin) % each);
  auto const all = skipped + static_cast<unsigned>(end - begin);
  std::byte const* const from = in + begin - skipped;
  for_some_loaded<4>(
      group, all / each, [&](unsigned i) { return unit::at(from + each * i); },
      [&](unsigned i, unit const& some) { some.put(to + each * i); });
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (unsigned i = all / each * each + worker_of(group); i < all; i += Group::workers)
    to[i] = from[i];
  return to + skipped;
}

/// Clears the 16 bytes behind a chunk, which reads of complete words may access. All workers call
/// it; the bytes are valid after their next sync.
template <class Group> HCOMP_HD void clear_behind(Group group, std::byte* end) {
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (int b = group.worker(); b < 16; b += Group::workers) end[b] = std::byte{0};
}

/// bring_bytes followed by clear_behind: `to` must have space for 31 more bytes. Returns the offset
/// of the bytes from `to`. All workers call it before their next sync.
template <class Group>
HCOMP_HD unsigned bring_chunk(Group group, std::byte const* in, std::size_t begin, std::size_t end,
                              std::byte* to) {
  std::byte* const first = bring_bytes(group, in, begin, end, to);
  clear_behind(group, first + (end - begin));
  return static_cast<unsigned>(first - to);
}

/// Destination of a chunk of `bytes` bytes: `out`, or out(bytes).
HCOMP_HD inline std::byte* place_of(std::byte* out, std::size_t /*bytes*/) { return out; }
template <class Out> HCOMP_HD std::byte* place_of(Out const& out, std::size_t bytes) {
  return out(bytes);
}
/// Announces the length of the chunk as soon as it is known.
template <class Out>
HCOMP_HD void announce_bytes([[maybe_unused]] Out const& out, [[maybe_unused]] std::size_t bytes) {
  if constexpr (requires { out.announce(bytes); }) out.announce(bytes);
}
/// Where the chunk is assembled: in the staging area if the workers share memory, otherwise in
/// place.
template <class Group, class Out>
HCOMP_HD std::byte* area_for([[maybe_unused]] Group group, [[maybe_unused]] Out const& out,
                             [[maybe_unused]] std::byte* area) {
  if constexpr (SharesMemory<Group>)
    return area;
  else
    return out;
}
/// Copies a chunk that workers assembled in shared memory to its destination. All workers call it
/// after a sync. Returns its bytes.
/// @param chunk  at a multiple of 16; 16 bytes behind it must be readable
template <class Group, class Out>
HCOMP_HD std::size_t send_whole(Group group, Out const& out, std::byte const* chunk,
                                std::size_t bytes) {
  copy_chunk(group, place_of(out, bytes), chunk, bytes);
  return bytes;
}
/// As send_whole, but before a sync; the chunk ends at `end`, with space for 16 bytes behind it.
template <class Group, class Out>
HCOMP_HD std::size_t send_chunk(Group group, Out const& out, std::byte* chunk, std::byte* end) {
  clear_behind(group, end);
  group.sync();
  return send_whole(group, out, chunk, static_cast<std::size_t>(end - chunk));
}

}  // namespace hcomp::detail
