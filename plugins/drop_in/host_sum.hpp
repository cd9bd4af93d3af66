#pragma once
/// @file
/// Sums of values as they are, of ranks of which several are on one host.

#include <chrono>
#include <cstddef>
#include <hcomp/host/host_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <utility>

#include "plain_sum.hpp"

namespace hcomp::drop_in {

/// Who is on one host. Collective. Waits there for ever, but a rank that ends is an error.
/// @throws std::invalid_argument  ranks of one host share no memory; on all ranks alike
inline host::host_ranks find_hosts(any_transport& transport) {
  auto found = host::host_ranks::make(transport, 0, std::chrono::milliseconds(0));
  if (!found)
    throw std::invalid_argument(
        "algorithm 'hierarchical': ranks of one host share no memory (memfd_create, /proc)");
  return std::move(*found);
}

/// all_reduce_values of all ranks. A value crosses a host's link as often as if the host had one rank.
template <class V>
void all_reduce_by_hosts(host::host_ranks& hosts, tag_t tag, std::span<V> x, int divisor) {
  auto& inside = hosts.inside();
  if (hosts.ranks().hosts == 1) return inside.all_reduce(x, divisor);
  std::size_t const each = hosts.ranks().share_of_each(x.size());
  auto const [first, count] = hosts.ranks().share(x.size());
  auto const share = x.subspan(first, count);
  hosts.telling_others([&] {
    inside.reduce_scatter(std::span<V const>(x), each, share);
    if (auto* const between = hosts.between()) all_reduce_values(*between, tag, share, divisor);
    inside.all_gather(x, each);
  });
}

}  // namespace hcomp::drop_in
