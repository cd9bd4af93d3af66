#pragma once
/// @file
/// Hierarchical collectives on uncompressed values, for nodes that run several ranks.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <stdexcept>
#include <utility>

#include "byte_collectives.hpp"
#include "uncompressed.hpp"

namespace hcomp::drop_in {

/// Finds the ranks that share a node. Collective. Waits without a timeout, but fails if a rank
/// ends.
/// @throws std::invalid_argument  ranks of one node share no memory; on all ranks alike
inline node::node_ranks find_nodes(any_transport& transport) {
  auto found = node::node_ranks::make(transport, 0, std::chrono::milliseconds(0));
  if (!found)
    throw std::invalid_argument(
        "algorithm 'hierarchical': ranks of one host share no memory (memfd_create, /proc)");
  return std::move(*found);
}

/// Hierarchical all_reduce_values. The traffic on a node's link equals that of one rank per node.
template <class V>
void all_reduce_by_nodes(node::node_ranks& nodes, tag_t tag, std::span<V> x, int divisor) {
  auto& inside = nodes.inside();
  if (nodes.ranks().nodes == 1) return inside.all_reduce(x, divisor);
  std::size_t const each = nodes.ranks().share_of_each(x.size());
  auto const [first, count] = nodes.ranks().share(x.size());
  auto const share = x.subspan(first, count);
  nodes.telling_others([&] {
    inside.reduce_scatter(std::span<V const>(x), each, share);
    if (auto* const between = nodes.between()) all_reduce_values(*between, tag, share, divisor);
    inside.all_gather(x, each);
  });
}

namespace detail {

/// The consecutive parts of the ranks of node h within all ranks' values; see is_by_blocks.
template <class V> std::span<V> part_of_node(node::node_ranks& nodes, std::span<V> all, int h) {
  std::size_t const values = all.size() / static_cast<std::size_t>(nodes.ranks().nodes);
  return all.subspan(static_cast<std::size_t>(h) * values, values);
}

}  // namespace detail

/// Hierarchical reduce-scatter: rank r receives the reduced part r of x. Ranks must be numbered
/// node by node. The traffic on a node's link equals that of one rank per node.
/// @param x        one part of part.size() values for each rank
/// @param scratch  part.size() values for each node
template <class V>
void reduce_scatter_by_nodes(node::node_ranks& nodes, tag_t tag, std::span<V const> x,
                             std::span<V> scratch, std::span<V> part, int divisor) {
  int const count = nodes.ranks().nodes;
  auto const reduced_on_node = [&](int h) { return detail::part_of_node(nodes, scratch, h); };
  nodes.telling_others([&] {
    for (int h = 0; h < count; ++h)
      nodes.inside().reduce_scatter(detail::part_of_node(nodes, x, h), part.size(),
                                    reduced_on_node(h));
    reduce_scatter_values(*nodes.between(), tag, scratch);
    auto const mine = reduced_on_node(nodes.between()->rank());
    node::divide(mine, divisor);
    std::copy(mine.begin(), mine.end(), part.begin());
  });
}

/// Hierarchical all_gather_bytes. Ranks must be numbered node by node.
inline void all_gather_by_nodes(node::node_ranks& nodes, tag_t tag, std::span<std::byte const> mine,
                                std::span<std::byte> all) {
  auto const place = [&](int h) {
    return detail::part_of_node(nodes, all, h)
        .subspan(static_cast<std::size_t>(nodes.ranks().number) * mine.size(), mine.size());
  };
  nodes.telling_others([&] {
    auto& between = *nodes.between();
    auto const own = place(between.rank());
    if (own.data() != mine.data()) std::ranges::copy(mine, own.begin());
    gather_round_ring(between, tag, place);
    for (int h = 0; h < between.size(); ++h)
      nodes.inside().all_gather(detail::part_of_node(nodes, all, h), mine.size());
  });
}

}  // namespace hcomp::drop_in
