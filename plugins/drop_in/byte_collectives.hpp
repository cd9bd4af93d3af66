#pragma once
/// @file
/// Bytes that travel as they are: all-gather and broadcast.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

namespace hcomp::drop_in {

namespace detail {

/// @throws wire_error  a peer called with another number of bytes; on all ranks, where the
///                     transport can tell them
template <class T>
void require_bytes(T& transport, int from, std::size_t came, std::size_t wanted) {
  if (came != wanted)
    hcomp::detail::revoke(
        transport, hcomp::detail::error_text({"rank ", from, " sent ", came, " bytes, ", wanted,
                                              " were expected; its call is of another size"}));
}

/// Of whom a rank receives, and to whom it passes on.
struct tree_place {
  int parent = -1;  ///< none: the root
  std::vector<int> children;
};

/// A binomial tree: fewest steps. Ranks count from the root.
inline tree_place binomial_place(int rank, int size) {
  tree_place place;
  int distance = 1;
  for (; distance < size && (rank & distance) == 0; distance *= 2) {
  }
  if (rank > 0) place.parent = rank - distance;
  for (int d = distance / 2; d > 0; d /= 2)
    if (rank + d < size) place.children.push_back(rank + d);
  return place;
}

/// A chain: every byte is sent once by each rank.
inline tree_place chain_place(int rank, int size) {
  tree_place place{rank - 1, {}};
  if (rank + 1 < size) place.children.push_back(rank + 1);
  return place;
}

}  // namespace detail

/// All ranks' bytes on every rank, in the order of the ranks.
///
/// @param mine  as many bytes on every rank; they may be in their place in `all`
/// @param all   size times as many
/// @throws wire_error  the numbers of bytes differ
/// Cost: one step; each rank sends its bytes size - 1 times.
template <Transport T>
void all_gather_bytes(T& transport, tag_t tag, std::span<std::byte const> mine,
                      std::span<std::byte> all) {
  int const rank = transport.rank(), size = transport.size();
  auto const place = [&](int r) {
    return all.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size());
  };
  if (!mine.empty() && place(rank).data() != mine.data())
    std::memcpy(place(rank).data(), mine.data(), mine.size());
  std::vector<typename T::request> in, out;
  for (int i = 1; i < size; ++i) {
    int const from = (rank + size - i) % size;
    in.push_back(transport.irecv(from, tag, place(from)));
  }
  for (int i = 1; i < size; ++i) out.push_back(transport.isend((rank + i) % size, tag, mine));
  for (int i = 1; i < size; ++i)
    detail::require_bytes(transport, (rank + size - i) % size,
                          transport.wait(in[static_cast<std::size_t>(i - 1)]), mine.size());
  for (auto& one : out) transport.wait(one);
}

/// Gives every rank the bytes of rank `root`.
///
/// @throws wire_error  the numbers of bytes differ
/// Cost: up to 64 KiB log2 size steps; longer ones pass a chain in segments.
template <Transport T>
void broadcast_bytes(T& transport, tag_t tag, std::span<std::byte> bytes, int root) {
  constexpr std::size_t most_at_once = 64 * 1024, least_segment = 256 * 1024;
  int const size = transport.size(), from_root = (transport.rank() + size - root) % size;
  bool const is_short = bytes.size() <= most_at_once;
  auto const place =
      is_short ? detail::binomial_place(from_root, size) : detail::chain_place(from_root, size);
  auto const peer = [&](int r) { return (r + root) % size; };
  std::size_t const segment =
      is_short ? bytes.size() : std::max(least_segment, (bytes.size() + 63) / 64);
  std::vector<typename T::request> in, out;
  std::vector<std::span<std::byte>> segments;
  for (std::size_t first = 0; first < bytes.size(); first += segment)
    segments.push_back(bytes.subspan(first, std::min(segment, bytes.size() - first)));
  if (place.parent >= 0)
    for (auto const& one : segments) in.push_back(transport.irecv(peer(place.parent), tag, one));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (place.parent >= 0)
      detail::require_bytes(transport, peer(place.parent), transport.wait(in[i]),
                            segments[i].size());
    for (int const child : place.children)
      out.push_back(transport.isend(peer(child), tag, segments[i]));
  }
  for (auto& one : out) transport.wait(one);
}

}  // namespace hcomp::drop_in
