#pragma once
/// @file
/// The plan that chooses codec and algorithm itself, by what they cost here.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/any_plan.hpp>
#include <hcomp/collective/automatic_options.hpp>
#include <hcomp/collective/choose.hpp>
#include <hcomp/collective/costs.hpp>
#include <hcomp/collective/detail/automatic_agreement.hpp>
#include <hcomp/collective/measure_cost.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace hcomp {

/// Sums vectors of one size with the codec and the algorithm that are expected to be quickest among
/// those allowed. By default no codec is allowed that loses anything.
///
/// Constructed collectively: the ranks compare their settings, measure what link and codecs cost
/// unless costs are given, and choose once, all alike, by figures that all of them know. From then
/// on it is the plan that was chosen, and has its errors and its results.
/// Transport and executor are used, not owned, and must outlive it. One call at a time.
/// Cost of construction: about 0.2 s for the link and 0.1 s per codec if costs are measured.
template <class V, Transport T, Executor E> class automatic_plan {
 public:
  using value_type = V;

  /// @param values  of every vector to be summed, >= 0
  /// @throws std::invalid_argument  an unknown codec (the text lists those that exist), nothing
  ///                                left to choose from, given costs without those of an allowed
  ///                                codec, a torus that does not fit the ranks, or as plan
  /// @throws disagreement_error     ranks passed different arguments
  /// All on all ranks alike.
  automatic_plan(std::size_t values, T& transport, E& executor,
                 automatic_options const& options = {}) {
    detail::agree_on(transport, values, options);
    for (auto const& name : options.allowed.codecs) builtin_codecs<V>::with(name, []<class C>() {});
    auto const total_weight =
        std::max(options.total_weight, static_cast<std::uint32_t>(transport.size()));
    costs_ = options.costs ? *options.costs
                           : measured(values, transport, executor, total_weight, options);
    auto allowed = options.allowed;
    if constexpr (E::space != memory_space::host)
      std::erase_if(allowed.algorithms,
                    [](algorithm const& how) { return how.kind == algorithm_kind::owner; });
    if (!options.plan.narrow)
      for (auto& row : costs_.codecs) row.cost = row.cost.wide();
    choices_ = choose(costs_, transport.size(), values, allowed, options.plan.segment_bytes,
                      options.plan.check, options.plan.decode_on_arrival_bytes);
    follow_rank_0(transport, options.plan.tag);

    auto plan = options.plan;
    plan.how = chosen().how;
    builtin_codecs<V>::with(chosen().codec, [&]<class C>() {
      C const codec = detail::with_magnitude(fit(C{}, total_weight), options.magnitude);
      sum_ = std::make_unique<detail::some_plan<hcomp::plan<C, T, E>>>(values, codec, transport,
                                                                       executor, plan);
    });
  }
  automatic_plan(automatic_plan const&) = delete;
  automatic_plan& operator=(automatic_plan const&) = delete;

  /// Codec, algorithm and the time that is expected of them.
  choice const& chosen() const { return choices_.front(); }
  /// All that were allowed, the chosen one first, the others by their expected time.
  std::vector<choice> const& choices() const { return choices_; }
  /// On which the choice is founded; the same on all ranks.
  cost_table const& costs() const { return costs_; }

  /// What one sign is worth from the next call on, in codecs that have such a parameter; others do
  /// not mind. Equal on all ranks.
  /// @throws std::invalid_argument  not finite
  void set_magnitude(double magnitude) { sum_->set_magnitude(magnitude); }

  /// See plan::all_reduce.
  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return sum_->all_reduce(x, call);
  }
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return sum_->all_reduce(x, feedback, call);
  }
  report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                    call_options const& call = {}) {
    return sum_->all_reduce(x, feedback, call);
  }

 private:
  static cost_table measured(std::size_t values, T& transport, E& executor,
                             std::uint32_t total_weight, automatic_options const& options) {
    auto how = options.measuring;
    how.values = std::min(how.values, std::max<std::size_t>(values, sign<V>::block_values));
    how.tag = options.plan.tag;
    return measure_costs<V>(options.allowed.codecs, executor, transport, how, total_weight);
  }

  /// The figures are the same on all ranks; what unlike machines calculate from them may not be.
  void follow_rank_0(T& transport, tag_t tag) {
    detail::chosen_way way{transport.rank(), chosen()};
    unite_records(transport, tag, way, [](auto& a, auto const& b) {
      if (b.rank < a.rank) a = b;
    });
    auto const same = std::find_if(choices_.begin(), choices_.end(), [&](choice const& mine) {
      return detail::chosen_way(way.rank, mine) == way;
    });
    std::rotate(choices_.begin(), same, same + 1);
  }

  cost_table costs_;
  std::vector<choice> choices_;
  std::unique_ptr<detail::plan_body<V>> sum_;
};

}  // namespace hcomp
