#pragma once
/// @file
/// All-reduce with a codec of variable rate, for vectors in host or device memory.

#include <cstddef>
#include <hcomp/collective/plan/plan.hpp>
#include <span>

#include "bits_text.hpp"
#include "contender.hpp"

namespace perf {

/// A plan that reports its bytes to a contender.
template <class C, class T, class E> class variable_rate_reduction {
 public:
  variable_rate_reduction(std::size_t values, C const& codec, hcomp::plan_options const& options,
                          T& transport, E& executor)
      : values_sent_(2.0 * (transport.size() - 1) / transport.size() * static_cast<double>(values)),
        plan_(values, codec, transport, executor, options) {}

  /// All-reduces `x`. Stores the bytes to send and the bits per value in `told`.
  hcomp::report run(std::span<float> x, hcomp::call_options const& call, contender<float>& told) {
    auto const stats = plan_.all_reduce(x, call);
    told.bytes_to_send = static_cast<double>(stats.bytes_sent);
    if (values_sent_ > 0 && plan_.options().algorithm.kind != hcomp::algorithm_kind::aggregator)
      told.remark = bits_text(told.name.codec, 8 * told.bytes_to_send / values_sent_, stats);
    return stats;
  }

 private:
  double values_sent_;  ///< values that a rank sends on a ring
  hcomp::plan<C, T, E> plan_;
};

}  // namespace perf
