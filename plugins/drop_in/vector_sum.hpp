#pragma once
/// @file
/// Sums of vectors of one size by a method that is chosen at run time.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/any_plan.hpp>
#include <hcomp/collective/make_plan.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <limits>
#include <span>
#include <vector>

#include "settings.hpp"

namespace hcomp::drop_in {

/// A plan of whatever codec, which adapts to what is summed.
template <class V> class vector_sum {
 public:
  /// @param segment_bytes  of messages, see plan_options
  /// @throws std::invalid_argument  there is no such codec for these values, or it does not go with
  ///                                the algorithm or so many ranks; on all ranks alike
  vector_sum(method const& how, std::size_t values, any_transport& transport,
             host_executor& executor, std::size_t segment_bytes = plan_options{}.segment_bytes)
      : codec_(codec_rows<V>().at(how.codec)),
        plan_(make_plan<V>(how.row_text(), values, transport, executor,
                           options(codec_, how, segment_bytes))),
        transport_(&transport) {}

  /// Sums x over all ranks, in place. Errors as for plan::all_reduce; NaN and infinity are
  /// nonfinite_error with codecs that cannot carry them.
  /// @param residual  what this rank's encoding lost before, if the method says feedback; or none
  report all_reduce(std::span<V> x, error_feedback<V>* residual, call_options const& call) {
    set_magnitude(x, residual);
    return residual ? plan_.all_reduce(x, *residual, call) : plan_.all_reduce(x, call);
  }
  /// The same, but leaves each rank only its `owned()` part of the sum in x.
  /// @throws std::invalid_argument  the method has no such thing: algorithm owner
  report reduce_scatter(std::span<V> x, error_feedback<V>* residual, call_options const& call) {
    set_magnitude(x, residual);
    return residual ? plan_.reduce_scatter(x, *residual, call) : plan_.reduce_scatter(x, call);
  }
  /// Gives every rank all ranks' `owned()` parts of x. Errors as for reduce_scatter.
  report all_gather(std::span<V> x, call_options const& call) {
    set_magnitude(x, nullptr);
    return plan_.all_gather(x, call);
  }
  value_range owned() const { return plan_.owned(); }
  /// See plan::part_unit.
  std::size_t part_unit() const { return plan_.part_unit(); }
  /// What a value becomes depends on all others of the vector.
  bool has_magnitude() const { return codec_.has_magnitude(); }

 private:
  static plan_options options(codec_facts const& codec, method const& how,
                              std::size_t segment_bytes) {
    plan_options options;
    options.how = how.how;
    options.segment_bytes = segment_bytes;
    if (codec.carries_nonfinite) options.nonfinite = nonfinite_policy::ignore;
    return options;
  }

  /// Of what is about to be encoded, over all ranks: what a sign is worth.
  /// Source: S. P. Karimireddy et al., ICML 2019, algorithm 2.
  void set_magnitude(std::span<V const> x, error_feedback<V> const* residual) {
    if (!has_magnitude()) return;
    double sum = 0;
    for (std::size_t i = 0; x.data() && i < x.size(); ++i)
      sum += std::fabs(static_cast<double>(x[i]) +
                       (residual ? static_cast<double>(residual->residual()[i]) : 0.0));
    all_gather_records(*transport_, plan_options{}.tag, sum, sums_);
    double total = 0;
    for (double const one : sums_) total += one;
    double const mean = total / (static_cast<double>(x.size()) * transport_->size());
    constexpr double least = std::numeric_limits<accumulator_t<V>>::min();
    plan_.set_magnitude(std::isfinite(mean) ? std::max(mean, least) : 1);
  }

  codec_facts const& codec_;
  any_plan<V> plan_;
  any_transport* transport_;
  std::vector<double> sums_;
};

}  // namespace hcomp::drop_in
