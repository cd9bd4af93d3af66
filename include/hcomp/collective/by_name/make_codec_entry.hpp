#pragma once
/// @file
/// Makes an entry of a codec, so that it can be chosen by name.

#include <algorithm>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/detail/codec_probe.hpp>
#include <hcomp/collective/plan/any_parts.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/plan/encoded_parts.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/schedule/detail/codec_algorithms.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace hcomp {
namespace detail {

template <Summable C> C fitted_to(C const& codec, [[maybe_unused]] std::uint32_t total_weight) {
  if constexpr (HomomorphicSum<C>)
    return fit(codec, total_weight);
  else
    return codec;
}

}  // namespace detail

/// Makes the entry of codec C, or of several codecs among which the settings choose.
/// @param info       properties; empty `algorithms` and `takes_feedback` follow from the concept of
///                   C
/// @tparam E         the executor of its plans
/// @tparam CodecOf   (codec_settings const&) -> C, or a std::variant of C and `Others`; may throw
///                   std::invalid_argument; without captures
template <Executor E, Summable C, Summable... Others, class CodecOf>
  requires(std::is_empty_v<CodecOf>)
codec_entry<typename C::value_type, E> make_codec_entry(codec_info info, CodecOf) {
  if (!HomomorphicSum<C>) info.takes_feedback = false;
  if constexpr (RefusesFeedback<C>)
    info.feedback_refusal = [](codec_settings const& settings) {
      return C(CodecOf{}(settings)).feedback_refusal();
    };
  if (info.algorithms.empty()) {
    detail::algorithms_of<C>().for_each(
        [&](algorithm_kind kind) { info.algorithms.push_back(kind); });
    auto const usual = std::ranges::find(info.algorithms, detail::usual_algorithm<C>);
    std::rotate(info.algorithms.begin(), usual, usual + 1);
  }
  using body = std::unique_ptr<detail::plan_body<typename C::value_type, E>>;
  codec_entry<typename C::value_type, E> entry{
      std::move(info), [](codec_settings const& settings) { CodecOf{}(settings); },
      [](plan_request<E> const& asked) -> body {
        std::variant<C, Others...> const chosen = CodecOf{}(asked.settings);
        return std::visit(
            [&]<class Chosen>(Chosen const& codec) -> body {
              using plan_of = plan<Chosen, any_transport, E>;
              return std::make_unique<detail::some_plan<plan_of, E>>(
                  asked.values, detail::fitted_to(codec, asked.total_weight), asked.transport,
                  asked.executor, asked.options);
            },
            chosen);
      }};
  if constexpr (!Sparse<C> && sizeof...(Others) == 0)
    entry.measure = [](cost_request<E> const& asked) {
      return detail::measured_cost(
          detail::fitted_to(C(CodecOf{}(asked.settings)), asked.total_weight), asked.executor,
          asked.probe);
    };
  if constexpr (HomomorphicSum<C> && std::is_same_v<typename C::value_type, float>)
    entry.make_parts = [](parts_request<E> const& asked) {
      using made = detail::some_parts<encoded_parts<C, E>, E>;
      auto const ranks = static_cast<std::uint32_t>(std::max(asked.ranks, 1));
      std::unique_ptr<any_parts<float, E>> parts = std::make_unique<made>(
          asked.values, asked.ranks, asked.rank,
          detail::fitted_to(C(CodecOf{}(asked.settings)), ranks), asked.executor, asked.nonfinite);
      return parts;
    };
  return entry;
}
template <Summable C, Summable... Others, class CodecOf>
  requires(std::is_empty_v<CodecOf>)
codec_entry<typename C::value_type> make_codec_entry(codec_info info, CodecOf codec_of) {
  return make_codec_entry<host_executor, C, Others...>(std::move(info), codec_of);
}

}  // namespace hcomp
