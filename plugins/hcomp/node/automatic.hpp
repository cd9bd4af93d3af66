#pragma once
/// @file
/// An automatic plan that also considers hierarchical algorithms. Linux.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/automatic/automatic_options.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/measure.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::node {

/// The options plus, for each allowed algorithm, its use between nodes.
inline automatic_options with_hierarchical(automatic_options options) {
  auto& all = options.allowed.algorithms;
  for (std::size_t i = 0, given = all.size(); i < given; ++i)
    if (auto how = all[i]; how.merges() && !how.hierarchical) {
      how.hierarchical = true;
      all.push_back(how);
    }
  return options;
}

/// Hierarchical strategies for an hcomp::automatic_plan.
template <class V> class hierarchical_strategies : public hierarchical_strategies_of<V> {
 public:
  /// @param node_of  see hierarchical_options
  explicit hierarchical_strategies(std::vector<std::uint64_t> node_of = {})
      : node_of_(std::move(node_of)) {}

  std::optional<node_cost> measure(any_transport& transport,
                                   measure_options const& options) override {
    return measure_nodes<V>(transport, options, node_of_);
  }
  std::unique_ptr<hcomp::detail::plan_body<V>> make(std::string const& codec, std::size_t values,
                                                    any_transport& transport,
                                                    host_executor& executor,
                                                    plan_options const& options) override {
    auto between = options;
    between.algorithm = options.algorithm.between_nodes();
    if (uses_shared_memory(*codec_from(registered_codecs<V>(), codec).entry, between, node_of_))
      if (auto memory = make_shared_memory(transport, options.tag))
        return std::make_unique<hcomp::detail::some_plan<shared_memory_plan<V>>>(
            hcomp::make_plan<V>(codec, values, transport, executor, between), between, transport,
            std::move(memory));
    return std::make_unique<hcomp::detail::some_plan<hierarchical_plan<V>>>(
        codec, values, transport, executor,
        hierarchical_options{.between = between, .node_of = node_of_});
  }

 private:
  std::vector<std::uint64_t> node_of_;
};

/// An automatic_plan that also considers hierarchical strategies if all nodes have the same number
/// of ranks: every allowed algorithm is allowed between nodes, too. No error feedback.
///
///     hcomp::node::automatic_plan<float> plan(gradient.size(), transport, executor);
///
/// Arguments and errors as of hcomp::automatic_plan.
template <class V>
class automatic_plan : private hierarchical_strategies<V>, public hcomp::automatic_plan<V> {
 public:
  /// @param node_of  see hierarchical_options
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, host_executor& executor,
                 automatic_options const& options, codec_registry<V> const& codecs,
                 std::vector<std::uint64_t> node_of = {})
      : hierarchical_strategies<V>(std::move(node_of)),
        hcomp::automatic_plan<V>(values, transport, executor, with_hierarchical(options), codecs,
                                 this) {}
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, host_executor& executor,
                 automatic_options const& options = {})
      : automatic_plan(values, transport, executor, options, hcomp::detail::rounding_codecs<V>()) {}
};

}  // namespace hcomp::node
