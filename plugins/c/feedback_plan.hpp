#pragma once
/// @file
/// Plan with a codec chosen at run time that adapts to its input before each call.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <hcomp/node/some_ranks.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "settings.hpp"

namespace hcomp::drop_in {

namespace detail {

/// Statistics of one rank's values. They determine the magnitude that a sign stands for.
struct sizes {
  double sum = 0;      ///< sum of all magnitudes
  double typical = 0;  ///< geometric mean of the nonzero magnitudes, within a factor of 2
};

/// Kernel for run_at. It keeps 16 partial sums at every SIMD level, so the result is bit-identical.
template <class V, class Lost> struct sizes_work {
  std::span<V const> x;
  Lost const& lost;

  template <int> [[gnu::always_inline]] sizes run() const {
    constexpr int lanes = 16;
    double sums[lanes] = {};
    std::int64_t exponents[lanes] = {}, counts[lanes] = {};
    auto const add = [&](std::size_t i, int lane) __attribute__((always_inline)) {
      double const value = std::fabs(static_cast<double>(x[i]) + lost(i));
      auto const exponent = static_cast<std::int64_t>(same_bits<std::uint64_t>(value) >> 52) - 1023;
      std::int64_t const is_counted = value != 0;
      sums[lane] += value;
      exponents[lane] += exponent & -is_counted;
      counts[lane] += is_counted;
    };
    std::size_t const whole = x.size() / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes)
      for (int lane = 0; lane < lanes; ++lane) add(i + static_cast<std::size_t>(lane), lane);
    for (std::size_t i = whole; i < x.size(); ++i) add(i, static_cast<int>(i - whole));
    for (int lane = 1; lane < lanes; ++lane) {
      sums[0] += sums[lane];
      exponents[0] += exponents[lane];
      counts[0] += counts[lane];
    }
    sizes found;
    found.sum = sums[0];
    if (counts[0] > 0) found.typical = std::ldexp(1.0, static_cast<int>(exponents[0] / counts[0]));
    return found;
  }
};

/// @param lost  (i) returns the residual that is added to value i
template <class V, class Lost> sizes sizes_of(std::span<V const> x, Lost const& lost) {
  return run_at(best_simd_level(), sizes_work<V, Lost>{x, lost});
}

}  // namespace detail

inline plan_options options_of(codec_info const& codec, codec_spec const& how,
                               std::size_t segment_bytes = plan_options{}.segment_bytes) {
  plan_options options;
  options.algorithm = how.algorithm.between_nodes();
  options.segment_bytes = segment_bytes;
  if (codec.carries_nonfinite) options.nonfinite = nonfinite_policy::ignore;
  return options;
}
/// Whether a plan with this codec uses shared memory where it can; see node::uses_shared_memory.
template <class V> bool uses_shared_memory(codec_spec const& how) {
  auto const& codec = registered_codecs<V>().at(how.codec);
  return !how.algorithm.hierarchical && node::uses_shared_memory(codec, options_of(codec, how));
}

/// Plan with any codec. It adapts the codec to the values before each call. Used inside any_plan.
template <class V> class feedback_plan {
 public:
  using value_type = V;

  /// @param segment_bytes  size of message segments, see plan_options
  /// @throws std::invalid_argument  no codec of this name exists for V, or the codec does not
  ///                                support the algorithm or this number of ranks; on all ranks
  ///                                alike
  template <Transport T>
  feedback_plan(codec_spec const& how, std::size_t values, T& transport, host_executor& executor,
                std::size_t segment_bytes = plan_options{}.segment_bytes)
      : codec_(registered_codecs<V>().at(how.codec)),
        transport_(transport),
        plan_(make_plan<V>(how.entry_text(), values, *transport_, executor,
                           options_of(codec_, how, segment_bytes))) {}

  /// All-reduces x in place. Errors: those of plan::all_reduce. Throws nonfinite_error for NaN and
  /// infinity if the codec cannot encode them. With sign codecs it also throws if a sign would
  /// stand for a magnitude of 2^40 times the typical value.
  report all_reduce(std::span<V> x, call_options const& call) {
    adapt_to(x, nullptr);
    return plan_.all_reduce(x, call);
  }
  /// @param residual  this rank's error feedback from earlier calls
  report all_reduce(std::span<V> x, error_feedback<V>& residual, call_options const& call) {
    adapt_to(x, &residual);
    return plan_.all_reduce(x, residual, call);
  }
  /// Reduce-scatter in place: each rank keeps only its `shard()` of x.
  /// @throws std::invalid_argument  the algorithm has no reduce-scatter: `sampled`
  report reduce_scatter(std::span<V> x, call_options const& call) {
    adapt_to(x, nullptr);
    return plan_.reduce_scatter(x, call);
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>& residual, call_options const& call) {
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
  void adapt_to(std::span<V const> x, error_feedback<V> const* residual) {
    if (!codec_.has_magnitude()) return;
    detail::sizes mine;
    if (x.data() && residual)
      mine = detail::sizes_of(
          x, [lost = residual->residual()](std::size_t i) { return static_cast<double>(lost[i]); });
    else if (x.data())
      mine = detail::sizes_of(x, [](std::size_t) { return 0.0; });
    all_gather_records(*transport_, plan_options{}.tag, mine, sizes_);
    double total = 0, typical = 0;
    for (detail::sizes const& one : sizes_) {
      total += one.sum;
      typical = std::max(typical, one.typical);
    }
    double const mean = total / (static_cast<double>(x.size()) * transport_->size());
    if (std::isfinite(mean) && mean > std::ldexp(typical, 40))
      throw nonfinite_error(hcomp::detail::error_text(
          {codec_.name, ": a sign would be worth the mean of all magnitudes, ", mean,
           ", but typical are ", typical, "; few values are too large for signs; x is unchanged"}));
    constexpr double least = std::numeric_limits<accumulator_t<V>>::min();
    plan_.set_magnitude(std::isfinite(mean) ? std::max(mean, least) : 1);
  }

  codec_info const& codec_;
  hcomp::detail::kept_transport transport_;
  any_plan<V> plan_;
  std::vector<detail::sizes> sizes_;
};

/// A feedback_plan over all ranks. With a hierarchical algorithm it covers one rank per node and
/// shard. Without compression it is a node::shared_memory_plan if there is memory.
/// @param nodes   () returns the node::node_ranks of the transport, which must outlive the plan;
///                called only with a hierarchical algorithm, then on all ranks
/// @param memory  () returns shared memory of all ranks or null, as node::make_shared_memory;
///                called only if uses_shared_memory, then on all ranks
/// @throws as feedback_plan
template <class V, class Nodes, class Memory>
any_plan<V> make_feedback_plan(codec_spec const& how, std::size_t values, any_transport& transport,
                               host_executor& executor, Nodes const& nodes, Memory const& memory,
                               std::size_t segment_bytes = plan_options{}.segment_bytes) {
  hcomp::detail::kept_transport over(transport);
  std::unique_ptr<hcomp::detail::plan_body<V>> body;
  if (how.algorithm.hierarchical)
    body = std::make_unique<hcomp::detail::some_plan<node::hierarchical_plan<V, feedback_plan<V>>>>(
        nodes(), values, [&](std::size_t count, node::some_ranks& between) {
          return std::make_unique<feedback_plan<V>>(how, count, between, executor, segment_bytes);
        });
  else
    body = std::make_unique<hcomp::detail::some_plan<feedback_plan<V>>>(how, values, transport,
                                                                        executor, segment_bytes);
  any_plan<V> plan(how.entry_text(), std::move(over), std::move(body));
  if (!uses_shared_memory<V>(how)) return plan;
  return node::in_shared_memory(
      std::move(plan), options_of(registered_codecs<V>().at(how.codec), how, segment_bytes),
      hcomp::detail::kept_transport(transport), memory());
}

}  // namespace hcomp::drop_in
