#pragma once
/// @file
/// Plans by the name of their codec.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <string_view>
#include <utility>

namespace hcomp {

/// A plan by the name of its codec:
///
///     auto sum = hcomp::make_plan<float>("thc:bits=4", gradient.size(), transport, executor);
///     sum.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
///
/// Names and settings: `registered_codecs<V>()`, as codec_from reads them. Codecs are fitted to the ranks.
/// Transport and executor are used, not owned, and must outlive the plan.
/// @param options       without them the algorithm is the first of the codec's row, such as direct
///                      for lossless_sparse and ring for most
/// @param total_weight  largest of a sum; 0: weights are 1
/// @throws std::invalid_argument  no such codec or setting; otherwise as plan
/// Cost: its user compiles plans of all codecs, once per type of values, or links hcomp::compiled.
template <class V, Transport T>
any_plan<V> make_plan(std::string_view codec, std::size_t values, T& transport,
                      host_executor& executor, plan_options const& options,
                      std::uint32_t total_weight = 0) {
  auto const named = codec_from(registered_codecs<V>(), codec);
  detail::kept_transport over(transport);
  auto const ranks = static_cast<std::uint32_t>(transport.size());
  auto body = named.row->make(
      {named.settings, values, *over, executor, options, total_weight > 0 ? total_weight : ranks});
  return {named.text(), std::move(over), std::move(body)};
}
template <class V, Transport T>
any_plan<V> make_plan(std::string_view codec, std::size_t values, T& transport,
                      host_executor& executor) {
  auto const named = codec_from(registered_codecs<V>(), codec);
  return hcomp::make_plan<V>(codec, values, transport, executor,
                             plan_options{.algorithm = {named.row->algorithms.front()}});
}

}  // namespace hcomp
