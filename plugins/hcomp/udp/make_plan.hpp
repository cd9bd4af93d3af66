#pragma once
/// @file
/// Aggregated plans by codec name.

#include <cstddef>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <hcomp/udp/aggregated_plan.hpp>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace hcomp::udp {

/// Creates an aggregated_plan by the name of its codec, as hcomp::make_plan does for other plans:
///
///     auto plan = hcomp::udp::make_plan<float>("thc:bits=4", gradient.size(), transport,
///                                              {.aggregators = {"10.0.0.9:7475"}});
///
/// @throws std::invalid_argument  the codec has no indices; otherwise as aggregated_plan
template <class V, Transport T>
any_plan<V> make_plan(std::string_view codec, std::size_t values, T& transport,
                      aggregated_plan_options const& options) {
  auto const named = codec_from(registered_codecs<V>(), codec);
  hcomp::detail::kept_transport over(transport);
  auto const made = [&]<class C>(C const& one) -> any_plan<V> {
    auto body =
        std::make_unique<hcomp::detail::some_plan<aggregated_plan<C>>>(values, one, *over, options);
    return {named.text(), std::move(over), std::move(body)};
  };
  if (named.entry->is_called(thc<V>::name))
    return made(thc<V>(hcomp::detail::thc_options_of(named.settings)));
  if (named.entry->is_called(uniform_thc<V>::name))
    return made(uniform_thc<V>(hcomp::detail::thc_options_of(named.settings)));
  throw std::invalid_argument("codec '" + named.text() +
                              "' has no indices that an aggregator adds; thc and uniform_thc have");
}

}  // namespace hcomp::udp
