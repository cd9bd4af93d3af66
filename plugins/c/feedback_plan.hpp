#pragma once
/// @file
/// Plan with a codec chosen at run time that adapts to its input before each call.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "magnitude_statistics.hpp"

namespace hcomp::drop_in {

/// Plan with any codec. It adapts the codec to the values before each call. Used inside any_plan.
/// Vectors are in the executor's memory space.
template <class V, Executor E = host_executor> class feedback_plan {
 public:
  using value_type = V;
  using error_type = typename any_plan<V, E>::error_type;

  /// @param codec  as for make_plan
  /// @throws std::invalid_argument  no codec of this name exists for V, or the codec does not
  ///                                support the algorithm or this number of ranks; on all ranks
  ///                                alike
  template <Transport T>
  feedback_plan(std::string_view codec, std::size_t values, T& transport, E& executor,
                plan_options const& options)
      : codec_(*codec_from(registered_codecs<V, E>(), codec).entry),
        transport_(transport),
        executor_(executor),
        plan_(make_plan<V>(codec, values, *transport_, executor, options)) {
    if (codec_.has_magnitude()) meter_.emplace(values);
  }

  /// All-reduces x in place. Errors: those of plan::all_reduce. Throws nonfinite_error for NaN and
  /// infinity if the codec cannot encode them. With sign codecs it also throws if a sign would
  /// stand for a magnitude of 2^40 times the typical value.
  report all_reduce(std::span<V> x, call_options const& call) {
    adapt_to(x, nullptr);
    return plan_.all_reduce(x, call);
  }
  /// @param residual  this rank's error feedback from earlier calls
  report all_reduce(std::span<V> x, error_type& residual, call_options const& call) {
    adapt_to(x, &residual);
    return plan_.all_reduce(x, residual, call);
  }
  /// Reduce-scatter in place: each rank keeps only its `shard()` of x.
  /// @throws std::invalid_argument  the algorithm has no reduce-scatter: `sampled`
  report reduce_scatter(std::span<V> x, call_options const& call) {
    adapt_to(x, nullptr);
    return plan_.reduce_scatter(x, call);
  }
  report reduce_scatter(std::span<V> x, error_type& residual, call_options const& call) {
    adapt_to(x, &residual);
    return plan_.reduce_scatter(x, residual, call);
  }
  /// All-gathers the `shard()` parts of x. Errors: those of reduce_scatter.
  report all_gather(std::span<V> x, call_options const& call) {
    adapt_to(x, nullptr);
    return plan_.all_gather(x, call);
  }
  std::size_t values() const { return plan_.values(); }
  value_range shard() const { return plan_.shard(); }
  /// See plan::shard_alignment.
  std::size_t shard_alignment() const { return plan_.shard_alignment(); }
  std::string about_last_call() const { return plan_.about_last_call(); }

 private:
  /// Sets the magnitude of a sign from the values that all ranks are about to encode.
  /// @throws nonfinite_error  the magnitude exceeds 2^40 times the largest typical value of any
  ///                          rank, so a few large values would spoil all other values and their
  ///                          residuals; on all ranks alike
  /// Source: S. P. Karimireddy et al., ICML 2019, algorithm 2.
  void adapt_to(std::span<V const> x, error_type const* residual) {
    if (!meter_) return;
    magnitude_statistics mine;
    bool const is_sound = x.data() && x.size() == values() &&
                          (!residual || residual->values() == values());  // plan_ refuses the rest
    if (is_sound && residual)
      mine = meter_->measure(executor_, compensated<V>{x.data(), residual->residual().data()},
                             x.size());
    else if (is_sound)
      mine = meter_->measure(executor_, x.data(), x.size());
    all_gather_records(*transport_, plan_options{}.tag, mine, of_ranks_);
    auto const all = detail::magnitude_of(of_ranks_.data(), 1, transport_->size(), values());
    if (all.is_finite() && all.is_of_few())
      throw nonfinite_error(hcomp::detail::error_text(
          {codec_.name, ": a sign would be worth the mean of all magnitudes, ", all.mean,
           ", but typical are ", all.typical,
           "; few values are too large for signs; x is unchanged"}));
    constexpr double least = std::numeric_limits<accumulator_t<V>>::min();
    plan_.set_magnitude(all.is_finite() ? std::max(all.mean, least) : 1);
  }

  codec_info const& codec_;
  hcomp::detail::kept_transport transport_;
  E& executor_;
  any_plan<V, E> plan_;
  std::optional<magnitude_meter<E>> meter_;  ///< of codecs with a magnitude
  std::vector<magnitude_statistics> of_ranks_;
};

}  // namespace hcomp::drop_in
