#pragma once
/// @file
/// All-gather and broadcast of plain bytes, without a codec.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

namespace hcomp::drop_in {

namespace detail {

/// @throws wire_error  the peer's message has another size; thrown on all ranks if the transport
///                     can signal errors to peers
template <class T>
void require_bytes(T& transport, int from, std::size_t came, std::size_t wanted) {
  if (came != wanted)
    hcomp::detail::revoke(
        transport, hcomp::detail::error_text({"rank ", from, " sent ", came, " bytes, ", wanted,
                                              " were expected; its call is of another size"}));
}

/// A rank's neighbours in a tree: the rank it receives from, and the ranks it forwards to.
struct tree_place {
  int parent = -1;  ///< -1: this rank is the root
  std::vector<int> children;
};

/// Binomial tree, which has the fewest steps. Ranks are relative to the root.
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

/// Chain: each rank sends every byte once.
inline tree_place chain_place(int rank, int size) {
  tree_place place{rank - 1, {}};
  if (rank + 1 < size) place.children.push_back(rank + 1);
  return place;
}

/// Up to `most_at_once` bytes travel in one message, longer buffers in segments.
constexpr std::size_t most_at_once = 64 * 1024;
constexpr std::size_t segment_of(std::size_t bytes) {
  constexpr std::size_t least = 256 * 1024;
  return bytes <= most_at_once ? bytes : std::max(least, (bytes + 63) / 64);
}

/// Splits a buffer into consecutive parts of at most `most` elements.
template <class V> std::vector<std::span<V>> segments_of(std::span<V> x, std::size_t most) {
  std::vector<std::span<V>> all;
  for (std::size_t first = 0; first < x.size(); first += most)
    all.push_back(x.subspan(first, std::min(most, x.size() - first)));
  return all;
}

}  // namespace detail

/// All-gather: forwards every rank's bytes around a ring in segments. Each link carries one message
/// at a time.
///
/// @param place  (rank) returns the buffer for that rank's bytes; this rank's own buffer is filled
///               on entry
/// @throws wire_error  the sizes differ between ranks
/// Cost: size - 1 steps; each rank sends all bytes except those of the next rank.
template <Transport T, class Place>
void gather_round_ring(T& transport, tag_t tag, Place const& place) {
  int const rank = transport.rank(), size = transport.size();
  if (size == 1) return;
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  auto const segments = [&](int r) {
    std::span<std::byte> const bytes = place(r);
    return detail::segments_of(bytes, detail::segment_of(bytes.size()));
  };
  struct message {
    std::span<std::byte> bytes;
    bool passes_on;
    typename T::request request;
  };
  std::vector<message> in;
  std::vector<typename T::request> out;
  for (int i = 1; i < size; ++i) {
    int const of = (rank + size - i) % size;
    for (auto const one : segments(of))
      in.push_back({one, of != next, transport.irecv(previous, tag, one)});
  }
  for (auto const one : segments(rank)) out.push_back(transport.isend(next, tag, one));
  for (auto& one : in) {
    detail::require_bytes(transport, previous, transport.wait(one.request), one.bytes.size());
    if (one.passes_on) out.push_back(transport.isend(next, tag, one.bytes));
  }
  for (auto& one : out) transport.wait(one);
}

/// All-gather of equal sizes: concatenates the bytes of all ranks in rank order.
///
/// @param mine  the same number of bytes on every rank; may be this rank's place in `all`
/// @param all   size * mine.size() bytes
/// @throws wire_error  the sizes differ between ranks
/// Cost: up to 64 KiB, one step in which each rank sends its bytes size - 1 times. Longer buffers
/// use
/// a ring.
template <Transport T>
void all_gather_bytes(T& transport, tag_t tag, std::span<std::byte const> mine,
                      std::span<std::byte> all) {
  int const rank = transport.rank(), size = transport.size();
  auto const place = [&](int r) {
    return all.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size());
  };
  if (!mine.empty() && place(rank).data() != mine.data())
    std::memcpy(place(rank).data(), mine.data(), mine.size());
  if (mine.size() > detail::most_at_once) return gather_round_ring(transport, tag, place);
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

/// Broadcasts the bytes of rank `root` to all ranks.
///
/// @throws wire_error  the sizes differ between ranks
/// Cost: log2(size) steps up to 64 KiB. Longer buffers pass along a chain in segments.
template <Transport T>
void broadcast_bytes(T& transport, tag_t tag, std::span<std::byte> bytes, int root) {
  int const size = transport.size(), from_root = (transport.rank() + size - root) % size;
  auto const place = bytes.size() <= detail::most_at_once ? detail::binomial_place(from_root, size)
                                                          : detail::chain_place(from_root, size);
  auto const peer = [&](int r) { return (r + root) % size; };
  std::vector<typename T::request> in, out;
  auto const segments = detail::segments_of(bytes, detail::segment_of(bytes.size()));
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
