#pragma once
/// @file
/// Sums with codecs of variable rate, of vectors in any memory.

#include <hcomp/codec/error_bounded_stream.hpp>
#include <hcomp/codec/inceptionn.hpp>
#include <hcomp/collective/plan.hpp>
#include <span>
#include <string>
#include <type_traits>

#include "codec_promise.hpp"
#include "plans.hpp"

namespace perf {

/// What a codec, fitted to its ranks, says of their sum or mean: its bound, where all values become
/// integers; where floats are added, they round as well.
promise promise_of(hcomp::error_bounded_stream const& codec, bool mean);

/// What a sum was sent in: "inceptionn:10 sent 9.1 bits per value and hop, prescaled by 2^-2".
/// @param codec   as it was asked for
/// @param fitted  as it was used
std::string about_sum(std::string const& codec, double bits, hcomp::inceptionn const& fitted,
                      hcomp::report const& figures);
std::string about_sum(std::string const& codec, double bits,
                      hcomp::error_bounded_stream const& fitted, hcomp::report const& figures);

/// A plan, and what is to be said of it.
template <class C, class T, class E> class stream_sum {
 public:
  stream_sum(std::size_t values, C const& codec, hcomp::plan_options const& options, T& transport,
             E& executor)
      : values_sent_(2.0 * (transport.size() - 1) / transport.size() * static_cast<double>(values)),
        plan_(values, codec, transport, executor, options) {}

  promise accuracy(bool mean) const {
    if constexpr (hcomp::BoundedVariableRate<C>) return promise_of(plan_.codec(), mean);
    return {};
  }
  /// Sums `x`, and says in `told` what was sent.
  hcomp::report run(std::span<float> x, hcomp::call_options const& call, contender<float>& told) {
    auto const figures = plan_.all_reduce(x, call);
    told.bytes_to_send = static_cast<double>(figures.bytes_sent);
    if (values_sent_ == 0 || plan_.options().how.kind == hcomp::algorithm_kind::aggregator)
      return figures;
    told.remark =
        about_sum(told.name.codec, 8 * told.bytes_to_send / values_sent_, plan_.codec(), figures);
    return figures;
  }

 private:
  double values_sent_;  ///< by a rank on a ring
  hcomp::plan<C, T, E> plan_;
};

/// f(codec, options) for all algorithms that are asked for and go with `codec`.
/// @param codec  a stream_name
template <class F> void for_stream_ways(job const& it, std::string const& codec, F const& f) {
  auto const all_ways = [&](auto const& one) {
    for (auto const& how : it.o.algorithms)
      if (sums_streams(how)) f(one, hcomp::plan_options{.how = how});
  };
  auto const [exponent, bound] = *stream_name::from(codec);
  if (exponent > 0)
    all_ways(hcomp::inceptionn({.bound_exponent = exponent, .fitted = true}));
  else
    all_ways(hcomp::error_bounded_stream({.bound = bound}));
}

}  // namespace perf
