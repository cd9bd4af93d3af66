#pragma once
/// @file
/// Ranks grouped by node; ranks of a node share memory. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/place.hpp>
#include <hcomp/node/some_ranks.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::node {

/// The ranks of one node, and their peers on other nodes.
struct hierarchy {
  std::vector<int> inside;  ///< ranks of this node, in order
  /// Ranks that carry the same share as this rank, one per node; may be empty.
  std::vector<int> between;
  int number = 0;    ///< index of this rank within its node
  int carriers = 1;  ///< carriers per node: the first ones; number of ranks on the smallest node
  int nodes = 1;
  int ranks = 1;  ///< of all nodes
  /// True if all nodes have the same number of ranks, with consecutive numbers.
  bool is_by_blocks = true;

  bool is_carrier() const { return number < carriers; }
  /// True if all nodes have the same number of ranks.
  bool all_carry() const { return carriers * nodes == ranks; }
  /// Values per carrier, rounded up to whole words of encoded data; the last carriers may have
  /// fewer or none.
  std::size_t share_of_each(std::size_t values) const {
    auto const all = static_cast<std::size_t>(carriers);
    return ((values + all - 1) / all + 63) / 64 * 64;
  }
  /// The share of this rank; empty if it is not a carrier.
  value_range share(std::size_t values) const {
    if (!is_carrier()) return {values, 0};
    std::size_t const each = share_of_each(values);
    std::size_t const first = std::min(values, static_cast<std::size_t>(number) * each);
    return {first, std::min(values - first, each)};
  }

  /// @param node_of  node number of every rank, any numbers
  static hierarchy from(std::span<std::uint64_t const> node_of, int rank) {
    std::vector<std::uint64_t> names;
    std::vector<std::vector<int>> members;
    for (std::size_t r = 0; r < node_of.size(); ++r) {
      auto const known = std::ranges::find(names, node_of[r]);
      auto const host = static_cast<std::size_t>(known - names.begin());
      if (known == names.end()) {
        names.push_back(node_of[r]);
        members.emplace_back();
      }
      members[host].push_back(static_cast<int>(r));
    }
    hierarchy found;
    found.ranks = static_cast<int>(node_of.size());
    found.nodes = static_cast<int>(members.size());
    found.carriers = static_cast<int>(
        std::ranges::min_element(members, {}, [](auto const& one) { return one.size(); })->size());
    for (auto const& one : members)
      if (std::ranges::find(one, rank) != one.end()) found.inside = one;
    found.number = static_cast<int>(std::ranges::find(found.inside, rank) - found.inside.begin());
    auto const each = node_of.size() / members.size();
    for (std::size_t r = 0; r < node_of.size(); ++r)
      found.is_by_blocks &= found.all_carry() && node_of[r] == names[r / each];
    if (found.is_carrier())
      for (auto const& one : members)
        found.between.push_back(one[static_cast<std::size_t>(found.number)]);
    return found;
  }
};

/// The ranks of this node, and this rank's peers on other nodes. Refers to the transport of all
/// ranks. Over a concurrent_transport, collectives of different node_ranks can run concurrently.
class node_ranks {
 public:
  /// Empty on all ranks alike if some ranks of a node cannot share memory. Collective.
  /// @param timeout  of one wait inside a node; 0: none
  /// @param node_of  node number of every rank, any numbers; empty: ranks with equal
  ///                 place_of_this_process share a node
  static std::optional<node_ranks> make(any_transport& all, tag_t tag,
                                        std::chrono::milliseconds timeout,
                                        std::vector<std::uint64_t> node_of = {}) {
    if (node_of.empty()) all_gather_records(all, tag, place_of_this_process(), node_of);
    auto ranks = hierarchy::from(node_of, all.rank());
    some_ranks own(all, ranks.inside);
    auto inside = collectives::make(own, tag, timeout, ranks.inside);
    std::uint64_t has_failed = !inside;
    unite_records(all, tag, has_failed, [](auto& a, auto b) { a |= b; });
    if (has_failed) return std::nullopt;
    return node_ranks(all, std::move(ranks), std::move(*inside));
  }

  any_transport& all() { return *all_; }
  hierarchy const& ranks() const { return ranks_; }
  /// Collectives of this node; ranks are indices into ranks().inside.
  collectives& inside() { return inside_; }
  /// This rank and its peers on other nodes with the same share; null if it is not a carrier.
  some_ranks* between() { return between_ ? &*between_ : nullptr; }

  /// Returns f(). If it throws a transport_error, notifies all ranks that wait for this one, in
  /// shared memory and by messages; the transport must not be used afterwards.
  template <class F> auto telling_others(F const& f) {
    try {
      return f();
    } catch (transport_error const& error) {
      inside_.fail(error.peer(), error.what());
      try {
        all_->revoke(error.what());
      } catch (wire_error const&) {  // revoke throws it here, too
      }
      throw;
    }
  }

 private:
  node_ranks(any_transport& all, hierarchy ranks, collectives inside)
      : all_(&all), ranks_(std::move(ranks)), inside_(std::move(inside)) {
    if (all.can_wait_until()) inside_.wait_over(&all);
    if (ranks_.is_carrier()) between_.emplace(all, ranks_.between);
  }

  any_transport* all_;
  hierarchy ranks_;
  collectives inside_;
  std::optional<some_ranks> between_;
};

}  // namespace hcomp::node
