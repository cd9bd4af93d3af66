#pragma once
/// @file
/// Makes the plan in host memory that a rule of HCOMP_CONFIG names.

#include <cstddef>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <hcomp/node/some_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <utility>

#include "feedback_plan.hpp"
#include "settings.hpp"

namespace hcomp::drop_in {

/// Options of a plan with this codec.
template <class V>
plan_options options_of(codec_spec const& how,
                        std::size_t segment_bytes = plan_options{}.segment_bytes) {
  plan_options options;
  options.algorithm = how.algorithm.between_nodes();
  options.segment_bytes = segment_bytes;
  if (registered_codecs<V>().at(how.codec).carries_nonfinite)
    options.nonfinite = nonfinite_policy::ignore;
  return options;
}
/// Whether a plan with this codec uses shared memory where it can; see node::uses_shared_memory.
template <class V> bool uses_shared_memory(codec_spec const& how) {
  return !how.algorithm.hierarchical &&
         node::uses_shared_memory(registered_codecs<V>().at(how.codec), options_of<V>(how));
}

/// A feedback_plan over all ranks. With a hierarchical algorithm it covers one rank per node and
/// shard. Without compression it is a node::shared_memory_plan if there is memory.
/// @param nodes   () returns the node::node_ranks of the transport, which must outlive the plan;
///                called only with a hierarchical algorithm, then on all ranks
/// @param memory  from node::make_shared_memory, on all ranks alike; null where the plan does not
///                use it
/// @throws as feedback_plan
template <class V, class Nodes>
any_plan<V> make_feedback_plan(codec_spec const& how, std::size_t values, any_transport& transport,
                               host_executor& executor, Nodes const& nodes,
                               std::shared_ptr<node::collectives> memory,
                               std::size_t segment_bytes = plan_options{}.segment_bytes) {
  hcomp::detail::kept_transport over(transport);
  auto const options = options_of<V>(how, segment_bytes);
  std::unique_ptr<hcomp::detail::plan_body<V>> body;
  if (how.algorithm.hierarchical)
    body = std::make_unique<hcomp::detail::some_plan<node::hierarchical_plan<V, feedback_plan<V>>>>(
        nodes(), values, [&](std::size_t count, node::some_ranks& between) {
          return std::make_unique<feedback_plan<V>>(how.entry_text(), count, between, executor,
                                                    options);
        });
  else
    body = std::make_unique<hcomp::detail::some_plan<feedback_plan<V>>>(
        how.entry_text(), values, transport, executor, options);
  any_plan<V> plan(how.entry_text(), std::move(over), std::move(body));
  if (!memory) return plan;
  return node::in_shared_memory(std::move(plan), options, hcomp::detail::kept_transport(transport),
                                std::move(memory));
}

}  // namespace hcomp::drop_in
