#pragma once
/// @file
/// All-reduce of every rank's largest values.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/detail/value_selection.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Like a plan with codec lossless_sparse, but each rank encodes only the largest values of the sum
/// of x and feedback, exactly, as selected by sparsifier. all_gather sends all values.
///
/// Memory: 8 bytes per value in addition to the plan's.
class top_k_plan {
 public:
  using value_type = float;

  /// @param share  share of the values, from 0 to 1
  top_k_plan(plan_request<> const& asked, double share)
      : executor_(&asked.executor),
        select_(value_selection::of_share(share, asked.values)),
        all_(asked.values),
        selected_(asked.values),
        plan_(asked.values, lossless_sparse<>{}, asked.transport, asked.executor, asked.options) {}

  std::size_t values() const { return plan_.values(); }
  value_range shard() const { return plan_.shard(); }
  std::size_t shard_alignment() const { return plan_.shard_alignment(); }
  sparse_choice const& choice() const { return plan_.choice(); }

  report all_reduce(std::span<float> x, call_options const& call) {
    no_feedback<float> nothing(x.size());
    return all_reduce(x, nothing, call);
  }
  template <Feedback<float> F>
  report all_reduce(std::span<float> x, F& feedback, call_options const& call) {
    return reduce(x, feedback, {0, x.size()}, [&](std::span<float> of, auto&... more) {
      return plan_.all_reduce(of, more..., call);
    });
  }
  report reduce_scatter(std::span<float> x, call_options const& call) {
    no_feedback<float> nothing(x.size());
    return reduce_scatter(x, nothing, call);
  }
  template <Feedback<float> F>
  report reduce_scatter(std::span<float> x, F& feedback, call_options const& call) {
    return reduce(x, feedback, shard(), [&](std::span<float> of, auto&... more) {
      return plan_.reduce_scatter(of, more..., call);
    });
  }
  report all_gather(std::span<float> x, call_options const& call) {
    return plan_.all_gather(x, call);
  }

 private:
  /// @param result      the values of x that receive the result
  /// @param collective  (values) and (values, feedback), of the plan
  template <class F, class Collective>
  report reduce(std::span<float> x, F& feedback, value_range result, Collective const& collective) {
    auto const given = arguments_of(executor_, x, feedback);
    // The plan reports invalid arguments to all ranks.
    if (complaint_about(given, values()) != complaint::none) return collective(x, feedback);
    serial_group const group;
    auto const view = feedback.view(x.data());
    auto const source = view.source();
    for (std::size_t i = 0; i < x.size(); ++i) all_[i] = source[i];
    select_(all_, selected_);
    for_parts({0, x.size()}, [&](std::size_t first, int n) {
      view.encoded(group, first, n, [&](float* out) { copy_selected(first, n, out); });
      if constexpr (requires { view.settle(group, first, n, false, true); })
        view.settle(group, first, n, false, true);
    });
    auto stats = collective(selected_);
    stats.error = unknown_error;
    for_parts(result, [&](std::size_t first, int n) {
      float* const out = x.data() + first;
      view.decoded(group, first, n, out, [&] { copy_selected(first, n, out); });
    });
    feedback.commit();
    return stats;
  }

  /// Calls f(first, count) for parts that fit a cache.
  template <class F> static void for_parts(value_range of, F const& f) {
    constexpr std::size_t most = 4096;
    for (std::size_t done = 0; done < of.count; done += most)
      f(of.first + done, static_cast<int>(std::min(most, of.count - done)));
  }
  void copy_selected(std::size_t first, int n, float* out) const {
    std::copy_n(selected_.data() + first, n, out);
  }

  host_executor* executor_;
  value_selection select_;
  std::vector<float> all_, selected_;
  plan<lossless_sparse<>, any_transport, host_executor> plan_;
};

}  // namespace hcomp::detail
