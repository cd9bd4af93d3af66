#pragma once
/// @file
/// The plan that chooses codec and algorithm itself, by what they cost here.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/any_plan.hpp>
#include <hcomp/collective/automatic_options.hpp>
#include <hcomp/collective/choose.hpp>
#include <hcomp/collective/codec_row.hpp>
#include <hcomp/collective/costs.hpp>
#include <hcomp/collective/detail/automatic_agreement.hpp>
#include <hcomp/collective/make_plan.hpp>
#include <hcomp/collective/measure_cost.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {
namespace detail {

template <class V> void require_measurable(named_codec<V> const& codec) {
  if (!codec.row->measure)
    throw std::invalid_argument("nobody knows what codec '" + codec.text() + "' costs");
}

}  // namespace detail

/// As measure_codec of the codec itself, fitted.
/// @param total_weight  that it is fitted to; 0: the number of ranks
/// @throws std::invalid_argument  its row cannot measure it
template <class V>
codec_cost measure_codec(named_codec<V> const& codec, host_executor& executor, int ranks,
                         measure_options const& options = {}, std::uint32_t total_weight = 0) {
  detail::require_measurable(codec);
  auto const probe =
      detail::probe_on(executor, ranks, options.values, options.codec_seconds, [] {});
  return codec.row->measure(
      {codec.settings, executor, std::max(total_weight, static_cast<std::uint32_t>(ranks)), probe});
}
template <class V>
codec_cost measure_codec(named_codec<V> const& codec, host_executor& executor,
                         any_transport& transport, measure_options const& options = {},
                         std::uint32_t total_weight = 0) {
  detail::require_measurable(codec);
  auto const probe = detail::probe_of(executor, transport, options);
  auto cost = codec.row->measure(
      {codec.settings, executor,
       std::max(total_weight, static_cast<std::uint32_t>(transport.size())), probe});
  detail::agree_on_slowest(transport, options.tag, cost);
  return cost;
}

/// The link and the codecs `codecs`, each as codec_from reads it. Collective; every rank gets the
/// same table.
/// @param total_weight  that the codecs are fitted to; 0: the number of ranks
/// @throws std::invalid_argument  no such codec or setting (the text lists those that exist), or a
///                                codec whose row cannot measure it
template <class V, Transport T>
cost_table measure_costs(codec_table<V> const& table, std::vector<std::string> const& codecs,
                         host_executor& executor, T& transport, measure_options const& options = {},
                         std::uint32_t total_weight = 0) {
  for (auto const& codec : codecs) detail::require_measurable(codec_from(table, codec));
  detail::erased_transport<T> over(transport);
  cost_table costs;
  costs.link = measure_link(over, options.link_seconds, options.tag);
  for (auto const& codec : codecs)
    costs.codecs.push_back(
        {codec, measure_codec(codec_from(table, codec), executor, over, options, total_weight)});
  return costs;
}

/// Sums vectors of one size with the codec and the algorithm that are expected to be quickest among
/// those allowed. By default no codec is allowed that loses anything.
///
/// Constructed collectively: the ranks compare their settings, measure what link and codecs cost
/// unless costs are given, and choose once, all alike, by figures that all of them know. From then
/// on it is the plan that was chosen, and has its errors and its results.
/// Transport and executor are used, not owned, and must outlive it. One call at a time.
/// Cost of construction: about 0.2 s for the link and 0.1 s per codec if costs are measured.
template <class V> class automatic_plan {
 public:
  using value_type = V;

  /// @param values  of every vector to be summed, >= 0
  /// @param codecs  among which those that are allowed are looked up. `codec_rows<V>()` has them
  ///                all, and takes as long to compile; otherwise there are identity, fp16 and bf16
  /// @throws std::invalid_argument  an unknown codec (the text lists those that exist), nothing
  ///                                left to choose from, given costs without those of an allowed
  ///                                codec, a torus that does not fit the ranks, or as plan
  /// @throws disagreement_error     ranks passed different arguments
  /// All on all ranks alike.
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, host_executor& executor,
                 automatic_options const& options, codec_table<V> const& codecs)
      : transport_(transport) {
    choose_plan(values, executor, options, codecs);
  }
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, host_executor& executor,
                 automatic_options const& options = {})
      : automatic_plan(values, transport, executor, options, detail::rounding_codecs<V>()) {}

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
  void choose_plan(std::size_t values, host_executor& executor, automatic_options const& options,
                   codec_table<V> const& codecs) {
    any_transport& transport = *transport_;
    detail::agree_on(transport, values, options);
    for (auto const& codec : options.allowed.codecs) codec_from(codecs, codec);
    auto const total_weight =
        std::max(options.total_weight, static_cast<std::uint32_t>(transport.size()));
    auto measuring = options.measuring;
    measuring.values = std::min(measuring.values, std::max(values, least_measured));
    measuring.tag = options.plan.tag;
    costs_ = options.costs ? *options.costs
                           : measure_costs(codecs, options.allowed.codecs, executor, transport,
                                           measuring, total_weight);
    costs_.hosts.reset();  // the plans of the rows know no hosts
    if (!options.plan.narrow)
      for (auto& row : costs_.codecs) row.cost = row.cost.wide();
    choices_ = choose(costs_, transport.size(), values, options.allowed, options.plan);
    follow_rank_0(options.plan.tag);

    auto plan = options.plan;
    plan.how = chosen().how;
    auto const named = codec_from(codecs, chosen().codec);
    sum_ = named.row->make({named.settings, values, transport, executor, plan, total_weight});
    if (options.magnitude) sum_->set_magnitude(*options.magnitude);
  }

  /// The figures are the same on all ranks; what unlike machines calculate from them may not be.
  void follow_rank_0(tag_t tag) {
    detail::chosen_way way{transport_->rank(), chosen()};
    unite_records(*transport_, tag, way, [](auto& a, auto const& b) {
      if (b.rank < a.rank) a = b;
    });
    auto const same = std::find_if(choices_.begin(), choices_.end(), [&](choice const& mine) {
      return detail::chosen_way(way.rank, mine) == way;
    });
    std::rotate(choices_.begin(), same, same + 1);
  }

  static constexpr std::size_t least_measured = 8192;  ///< a full block or more of most codecs

  detail::kept_transport transport_;
  cost_table costs_;
  std::vector<choice> choices_;
  std::unique_ptr<detail::plan_body<V>> sum_;
};

}  // namespace hcomp
