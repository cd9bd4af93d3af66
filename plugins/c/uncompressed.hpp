#pragma once
/// @file
/// In-place reductions of uncompressed values.

#include <algorithm>
#include <array>
#include <cstddef>
#include <hcomp/node/addition.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

#include "byte_collectives.hpp"

namespace hcomp::drop_in {

namespace detail {

/// to += values; integers wrap around.
template <class V> void add_to(std::span<V> to, V const* values) {
  node::add(2, to.size(), 1, to.data(),
            [&](int summand) -> V const* { return summand == 0 ? to.data() : values; });
}

/// Part r of x, split into `size` parts of about equal length.
template <class V> std::span<V> part_of(std::span<V> x, int r, int size) {
  auto const first = [&](int k) {
    return x.size() / static_cast<std::size_t>(size) * static_cast<std::size_t>(k) +
           std::min(x.size() % static_cast<std::size_t>(size), static_cast<std::size_t>(k));
  };
  return x.subspan(first(r), first(r + 1) - first(r));
}

/// Values per message for a part of `part` values, such that several messages are in flight.
inline std::size_t values_at_once(std::size_t part, std::size_t value_bytes) {
  constexpr std::size_t least = 32 * 1024, most = 256 * 1024;
  return std::clamp(part * value_bytes / 8, least, most) / value_bytes;
}

}  // namespace detail

/// In-place reduce-scatter: rank r holds the reduced part r of x (see part_of) on return. The rest
/// of x is destroyed. All ranks pass the same number of values.
///
/// Cost: size - 1 steps around a ring, each sending one part in segments; memory for four segments,
/// at most 1 MiB.
template <class V, Transport T>
void reduce_scatter_values(T& transport, tag_t tag, std::span<V> x) {
  constexpr std::size_t window = 4;
  int const rank = transport.rank(), size = transport.size();
  if (size == 1) return;
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  struct message {
    std::span<V> to;
    bool passes_on;
    typename T::request request;
  };
  std::vector<message> in;
  std::vector<typename T::request> out;
  auto const segments = [&](int part) {
    auto const values = detail::part_of(x, part, size);
    return detail::segments_of(values, detail::values_at_once(values.size(), sizeof(V)));
  };
  for (int step = 1; step < size; ++step)
    for (auto const one : segments((rank + 2 * size - step - 1) % size))
      in.push_back({one, step + 1 < size, {}});
  std::size_t longest = 0;
  for (auto const& one : in) longest = std::max(longest, one.to.size());
  std::array<std::vector<V>, window> came;
  for (auto& one : came) one.resize(longest);
  auto const receive = [&](std::size_t i) {
    if (i >= in.size()) return;
    std::span const place(came[i % window].data(), in[i].to.size());
    in[i].request = transport.irecv(previous, tag, std::as_writable_bytes(place));
  };
  for (std::size_t i = 0; i < window; ++i) receive(i);
  for (auto const one : segments(previous))
    out.push_back(transport.isend(next, tag, std::as_bytes(one)));
  for (std::size_t i = 0; i < in.size(); ++i) {
    detail::require_bytes(transport, previous, transport.wait(in[i].request),
                          in[i].to.size_bytes());
    detail::add_to(in[i].to, came[i % window].data());
    receive(i + window);
    if (in[i].passes_on) out.push_back(transport.isend(next, tag, std::as_bytes(in[i].to)));
  }
  for (auto& one : out) transport.wait(one);
}

/// All-reduces x in place and divides the result by `divisor`. The result has the same bits on all
/// ranks. All ranks pass the same number of values.
///
/// @throws wire_error  the sizes differ between ranks
/// Cost: for up to 64 KiB over all ranks, one all-gather step; otherwise 2 (size - 1) steps around
/// a ring, in which a rank sends 2 (size - 1) / size of x.
template <class V, Transport T>
void all_reduce_values(T& transport, tag_t tag, std::span<V> x, int divisor = 1) {
  int const size = transport.size();
  if (x.size_bytes() * static_cast<std::size_t>(size) <= detail::most_at_once) {
    std::vector<V> all(x.size() * static_cast<std::size_t>(size));
    all_gather_bytes(transport, tag, std::as_bytes(x), std::as_writable_bytes(std::span(all)));
    std::copy_n(all.data(), x.size(), x.data());
    for (int r = 1; r < size; ++r)
      detail::add_to(x, all.data() + x.size() * static_cast<std::size_t>(r));
    return node::divide(x, divisor);
  }
  reduce_scatter_values(transport, tag, x);
  node::divide(detail::part_of(x, transport.rank(), size), divisor);
  gather_round_ring(transport, tag,
                    [&](int r) { return std::as_writable_bytes(detail::part_of(x, r, size)); });
}

}  // namespace hcomp::drop_in
