#pragma once
/// @file
/// Measures the costs of hierarchical all-reduce on the current nodes while all ranks work. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/by_name/detail/codec_probe.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::node {

/// Measures cost_table::nodes: the links between nodes, shared by the ranks of a node, as
/// measure_link does, and the median of several all-reduces inside nodes. Collective; every rank
/// gets the same result, that of the slowest rank. Empty on all ranks alike if nodes have different
/// numbers of ranks, or ranks of a node cannot share memory.
/// @tparam V       type of the values
/// @param options  codec_seconds is ignored
/// @param node_of  see hierarchical_options
template <class V>
std::optional<node_cost> measure_nodes(any_transport& transport,
                                       measure_options const& options = {},
                                       std::vector<std::uint64_t> node_of = {}) {
  auto nodes =
      node_ranks::make(transport, options.tag, std::chrono::seconds(30), std::move(node_of));
  if (!nodes || !nodes->ranks().all_carry()) return std::nullopt;
  node_cost cost;
  cost.ranks = static_cast<int>(nodes->ranks().inside.size());
  cost.between = measure_link(*nodes->between(), options.link_seconds, options.tag);

  auto const seconds_of = [&](std::size_t values) {
    constexpr int turns = 7;
    std::vector<V> x(values);
    std::size_t const each = nodes->ranks().share_of_each(values);
    auto const [first, count] = nodes->ranks().share(values);
    std::vector<double> times;
    for (int turn = 0; turn < turns; ++turn) {
      hcomp::detail::stopwatch watch;
      nodes->inside().reduce_scatter(std::span<V const>(x), each,
                                     std::span(x).subspan(first, count));
      nodes->inside().all_gather(std::span(x), each);
      watch.add_to(times.emplace_back());
    }
    return hcomp::detail::median(times);
  };
  cost.call = seconds_of(1);
  if (options.values > 0)
    cost.inside =
        std::max(0.0, seconds_of(options.values) - cost.call) / static_cast<double>(options.values);

  unite_records(transport, options.tag, cost, [](node_cost& a, node_cost const& b) {
    a.inside = std::max(a.inside, b.inside);
    a.call = std::max(a.call, b.call);
    for (auto const metric :
         {&link_cost::seconds_per_message, &link_cost::seconds_per_byte,
          &link_cost::seconds_between_messages, &link_cost::seconds_of_rendezvous})
      a.between.*metric = std::max(a.between.*metric, b.between.*metric);
    a.between.eager_bytes = std::max(a.between.eager_bytes, b.between.eager_bytes);
  });
  return cost;
}

}  // namespace hcomp::node
