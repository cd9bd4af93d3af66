#pragma once
/// @file
/// Makes plans from the name of a codec.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_parts.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace hcomp {

/// Makes a plan from the name of a codec:
///
///     auto plan = hcomp::make_plan<float>("thc:bits=4", gradient.size(), transport, executor);
///     plan.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
///
/// Names and settings are those of `registered_codecs<V>()`, in the syntax of codec_from. Codecs
/// are fitted to the number of ranks. Transport and executor are used, not owned, and must outlive
/// the plan.
/// @param options       default: the first algorithm of the codec's entry, such as direct for
///                      lossless_sparse and ring for most codecs
/// @param total_weight  largest weight of a sum; 0: all weights are 1
/// @tparam E  for values in device memory, a device executor; include hcomp/device_plans.hpp
/// @throws std::invalid_argument  unknown codec or setting; otherwise as plan
///
/// Cost: the calling program compiles plans of all codecs, once per value type and executor, or
/// links hcomp::compiled, which has those of host_executor.
template <class V, Transport T, Executor E>
any_plan<V, E> make_plan(std::string_view codec, std::size_t values, T& transport, E& executor,
                         plan_options const& options, std::uint32_t total_weight = 0) {
  detail::float_environment const environment;
  auto const named = codec_from(registered_codecs<V, E>(), codec);
  detail::kept_transport over(transport);
  auto const ranks = static_cast<std::uint32_t>(transport.size());
  auto body = named.entry->make(
      {named.settings, values, *over, executor, options, total_weight > 0 ? total_weight : ranks});
  return {named.text(), std::move(over), std::move(body)};
}
template <class V, Transport T, Executor E>
any_plan<V, E> make_plan(std::string_view codec, std::size_t values, T& transport, E& executor) {
  detail::float_environment const environment;
  auto const named = codec_from(registered_codecs<V, E>(), codec);
  return hcomp::make_plan<V>(codec, values, transport, executor,
                             plan_options{.algorithm = {named.entry->algorithms.front()}});
}

/// Makes encoded_parts of several vectors from the name of a codec, for callers with collectives of
/// their own:
///
///     auto parts = hcomp::make_parts<float>("thc:bits=4", sizes, ranks, rank, executor);
///
/// Codecs are fitted to the number of ranks.
/// @param values  of each vector
/// @tparam V      float
/// @throws std::invalid_argument  unknown codec or setting; a codec of variable rate; otherwise as
///                                encoded_parts
template <class V, Executor E>
std::unique_ptr<any_parts<V, E>> make_parts(
    std::string_view codec, std::span<std::size_t const> values, int ranks, int rank, E& executor,
    nonfinite_policy nonfinite = nonfinite_policy::throw_error) {
  detail::float_environment const environment;
  auto const named = codec_from(registered_codecs<V, E>(), codec);
  if (!named.entry->make_parts)
    throw std::invalid_argument(
        "codec '" + named.text() +
        "' has no parts of fixed size; codecs of fixed rate have, such as thc and fp16");
  return named.entry->make_parts({named.settings, values, ranks, rank, executor, nonfinite});
}

}  // namespace hcomp
