#pragma once
/// @file
/// A plan that chooses codec and algorithm by their measured costs.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/automatic/automatic_options.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/automatic/detail/adaptive_strategy.hpp>
#include <hcomp/collective/automatic/detail/automatic_agreement.hpp>
#include <hcomp/collective/automatic/detail/running_costs.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/float_environment.hpp>
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

template <class V, Executor E> void require_measurable(named_codec<V, E> const& codec) {
  if (!codec.entry->measure)
    throw std::invalid_argument("codec '" + codec.text() +
                                "' has no cost measurement; automatic_plan cannot choose it");
}

}  // namespace detail

/// Like measure_codec for a codec type, with the codec fitted.
/// @param total_weight  weight that the codec is fitted to; 0: the number of ranks
/// @throws std::invalid_argument  the codec's entry cannot measure it
template <class V, Executor E>
codec_cost measure_codec(named_codec<V, E> const& codec, E& executor, int ranks,
                         measure_options const& options = {}, std::uint32_t total_weight = 0) {
  detail::require_measurable(codec);
  auto const probe =
      detail::probe_on(executor, ranks, options.values, options.codec_seconds, [] {});
  return codec.entry->measure(
      {codec.settings, executor, std::max(total_weight, static_cast<std::uint32_t>(ranks)), probe});
}
template <class V, Executor E>
codec_cost measure_codec(named_codec<V, E> const& codec, E& executor, any_transport& transport,
                         measure_options const& options = {}, std::uint32_t total_weight = 0) {
  detail::require_measurable(codec);
  auto const probe = detail::probe_of(executor, transport, options);
  auto cost = codec.entry->measure(
      {codec.settings, executor,
       std::max(total_weight, static_cast<std::uint32_t>(transport.size())), probe});
  detail::agree_on_slowest(transport, options.tag, cost);
  return cost;
}

/// Measures the link and the codecs `codecs`, in the syntax of codec_from. Collective; every rank
/// gets the same table.
/// @param total_weight  weight that the codecs are fitted to; 0: the number of ranks
/// @throws std::invalid_argument  unknown codec or setting (the text lists the codecs), or a codec
///                                whose entry cannot measure it
template <class V, Executor E, Transport T>
cost_table measure_costs(codec_registry<V, E> const& table, std::vector<std::string> const& codecs,
                         E& executor, T& transport, measure_options const& options = {},
                         std::uint32_t total_weight = 0) {
  for (auto const& codec : codecs) detail::require_measurable(codec_from(table, codec));
  detail::erased_transport<T> over(transport);
  cost_table costs;
  costs.link = measure_link(over, executor, options.link_seconds, options.tag);
  for (auto const& codec : codecs)
    costs.codecs.push_back(
        {codec, measure_codec(codec_from(table, codec), executor, over, options, total_weight)});
  return costs;
}

/// The interface through which an automatic_plan uses hierarchical algorithms.
/// hcomp::node::automatic_plan implements it.
template <class V> class hierarchical_strategies_of {
 public:
  hierarchical_strategies_of() = default;
  hierarchical_strategies_of(hierarchical_strategies_of const&) = delete;
  hierarchical_strategies_of& operator=(hierarchical_strategies_of const&) = delete;
  virtual ~hierarchical_strategies_of() = default;

  /// For cost_table::nodes. Collective; the same on all ranks.
  virtual std::optional<node_cost> measure(any_transport& transport,
                                           measure_options const& options) = 0;
  /// Makes a hierarchical plan. Collective.
  /// @param codec    in the syntax of codec_from
  /// @param options  `algorithm` is hierarchical
  virtual std::unique_ptr<detail::plan_body<V>> make(std::string const& codec, std::size_t values,
                                                     any_transport& transport,
                                                     host_executor& executor,
                                                     plan_options const& options) = 0;
};

/// Reduces vectors of one size with the codec and algorithm of the smallest expected time among the
/// allowed ones. By default only codecs without loss are allowed.
///
/// Construction is collective. The ranks compare their settings, measure the costs of link and
/// codecs unless they are given, and make the same choice from the same numbers. Errors and results
/// are those of the chosen plan.
///
/// The ring is preferred. Another algorithm must be expected to be faster by 10 %. An algorithm
/// that crowds links (several ranks send to one at once, or send more bytes than necessary) must be
/// faster even if its bytes took 1.5 times as long, because it loses packets on links that become
/// slow. After a sudden slow-down, rings come first.
///
/// Re-tuning: unless options.watching is 0 or plan.check is off, the plan compares measured with
/// expected times. It switches strategy, on all ranks at the same call, when link or load have
/// changed so that another strategy is faster by 5 %. Example: it switches to `identity`, if
/// allowed, where compression would be slower. The codec of a call then depends on the machines'
/// speed.
///
/// The ranks exchange their times before a call, in ceil(log2 P) small messages: every few calls,
/// and after a call that took 1.5 times the expected time or less than two thirds of it. If all
/// time is spent in codecs and another strategy might be faster, they measure the link, with 0.2 to
/// 1.2 MB.
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Cost of construction: about 0.2 s for the link and 0.1 s per codec if costs are measured.
/// @tparam E  the executor; its memory space has the values. A DeviceExecutor needs
///            hcomp/device_plans.hpp and a transport that reaches its memory, such as
///            host_staged; it has neither `sampled` nor hierarchical strategies
template <class V, Executor E = host_executor> class automatic_plan {
 public:
  using value_type = V;
  using error_type = typename detail::feedback_of<V, E>::error;
  using global_type = typename detail::feedback_of<V, E>::global;

  /// @param values  per vector, >= 0
  /// @param codecs  registry of the allowed codecs. `registered_codecs<V>()` has all codecs, and
  ///                takes as long to compile; the default has identity, fp16 and bf16. Must outlive
  ///                the plan
  /// @param nodes   implements hierarchical algorithms; null: they are left out. Must outlive the
  ///                plan
  /// @throws std::invalid_argument  an unknown codec (the text lists the codecs), no strategy left,
  ///                                given costs that lack an allowed codec, watching outside 0 to
  ///                                1, a torus that does not fit the ranks, a stream-ordered
  ///                                transport, or as plan
  /// @throws disagreement_error     ranks passed different arguments
  ///
  /// Errors occur on all ranks alike.
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, E& executor, automatic_options const& options,
                 codec_registry<V, E> const& codecs, hierarchical_strategies_of<V>* nodes = nullptr)
      : transport_(transport),
        executor_(&executor),
        values_(values),
        options_(options),
        nodes_(nodes) {
    choose_plan(codecs);
  }
  template <Transport T>
  automatic_plan(std::size_t values, T& transport, E& executor,
                 automatic_options const& options = {})
      : automatic_plan(values, transport, executor, options, detail::rounding_codecs<V, E>()) {}

  /// Codec, algorithm, and their expected time at the moment of the choice.
  choice const& chosen() const { return choices_.front(); }
  /// All allowed strategies: the chosen one first, then by expected time.
  std::vector<choice> const& choices() const { return choices_; }
  /// The costs that the choice is based on; the same on all ranks.
  cost_table const& costs() const { return costs_; }
  /// Number of changes of strategy.
  std::uint64_t changes() const { return changes_; }

  /// Sets the value of one sign from the next call on. Codecs without a magnitude ignore it. Equal
  /// on all ranks.
  /// @throws std::invalid_argument  not finite
  void set_magnitude(double magnitude) {
    if (!std::isfinite(magnitude))
      throw std::invalid_argument(
          detail::error_text({"automatic_plan: the magnitude is ", magnitude}));
    plan_->set_magnitude(magnitude);
    options_.magnitude = magnitude;
  }

  /// See plan::all_reduce.
  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return timed(call, [&](auto const& once) { return plan_->all_reduce(x, once); });
  }
  /// @throws std::invalid_argument  on all ranks alike: hierarchical algorithms are allowed, whose
  ///                                residual covers only a share of the vector
  report all_reduce(std::span<V> x, error_type& feedback, call_options const& call = {}) {
    refuse_feedback_by_nodes();
    return timed(call, [&](auto const& once) { return plan_->all_reduce(x, feedback, once); });
  }
  report all_reduce(std::span<V> x, global_type& feedback, call_options const& call = {}) {
    refuse_feedback_by_nodes();
    return timed(call, [&](auto const& once) { return plan_->all_reduce(x, feedback, once); });
  }

 private:
  void choose_plan(codec_registry<V, E> const& codecs) {
    detail::float_environment const environment;
    any_transport& transport = *transport_;
    if (transport.is_stream_ordered())
      throw std::invalid_argument(
          "automatic_plan: it compares times between calls, for which a stream-ordered transport "
          "does not wait; use hcomp::plan or make_plan");
    detail::agree_on(transport, values_, options_, nodes_ != nullptr);
    if (!(options_.watching >= 0 && options_.watching <= 1))
      throw std::invalid_argument(
          detail::error_text({"automatic_plan: watching is ", options_.watching,
                              "; it is a share of the time, from 0 to 1"}));
    for (auto const& codec : options_.allowed.codecs) named_.push_back(codec_from(codecs, codec));
    total_weight_ = std::max(options_.total_weight, static_cast<std::uint32_t>(transport.size()));
    auto measuring = options_.measuring;
    measuring.values = std::min(measuring.values, std::max(values_, least_measured));
    measuring.tag = options_.plan.tag;
    costs_ = options_.costs ? *options_.costs
                            : measure_costs(codecs, options_.allowed.codecs, *executor_, transport,
                                            measuring, total_weight_);
    bool const has_nodes =
        !DeviceExecutor<E> && nodes_ && total_weight_ == static_cast<unsigned>(transport.size()) &&
        std::ranges::any_of(options_.allowed.algorithms, &algorithm::hierarchical);
    if (!has_nodes)
      costs_.nodes.reset();
    else if (!costs_.nodes)
      costs_.nodes = nodes_->measure(transport, measuring);
    if (!options_.plan.narrow)
      for (auto& row : costs_.codecs) row.cost = row.cost.wide();
    double const exchange =
        detail::agreement_steps(transport.size()) *
        (costs_.link.seconds_per_message + costs_.link.seconds_between_messages);
    strategies_.emplace(
        detail::running_costs(costs_, transport.size(), values_, options_.allowed, options_.plan),
        options_.watching, exchange);
    take(of_rank_0(strategies_->decide(transport.rank())));
  }

  /// Times one call. Before it, if due, the ranks compare the times of earlier calls.
  template <class Call> report timed(call_options const& call, Call const& sum) {
    detail::float_environment const environment;
    if (watches() && times_.added() > 0 && calls_ >= next_look_) look();
    auto once = call;
    if (!once.step) once.step = calls_;
    ++calls_;
    detail::stopwatch watch;
    double seconds = 0;
    report const made = sum(once);
    watch.add_to(seconds);
    times_.add(seconds - made.seconds_agree,
               made.seconds_encode + made.seconds_merge + made.seconds_decode);
    if (watches() && strategies_->hurries(times_, made.seconds_of_last)) next_look_ = calls_;
    return made;
  }
  bool watches() const {
    return options_.watching > 0 && options_.plan.check && values_ > 0 && transport_->size() > 1 &&
           strategies_->costs().strategies().size() > 1;
  }

  /// Collective: compares the times of the last calls with the expected ones, updates the costs,
  /// and switches strategy if another one is faster now.
  void look() {
    unite_records(
        *transport_, options_.plan.tag, times_, [](auto& a, auto const& b) { a.unite(b); }, calls_);
    auto const took = strategies_->judge(times_);
    bool learns = true;
    if (strategies_->look(took, calls_ - last_look_))
      strategies_->learn(
          took, detail::measure_seconds_per_byte(*transport_, *executor_, options_.plan.tag,
                                                 strategies_->costs().per_byte(), costs_.link));
    else
      learns = strategies_->learn(took);
    last_look_ = calls_;
    take(learns ? of_rank_0(strategies_->decide(transport_->rank())) : strategies_->decided());
  }
  detail::strategy_decision of_rank_0(detail::strategy_decision decision) {
    unite_records(
        *transport_, options_.plan.tag, decision,
        [](auto& a, auto const& b) {
          if (b.rank < a.rank) a = b;
        },
        calls_);
    return decision;
  }
  /// Uses the strategy of the decision until the ranks compare times again.
  void take(detail::strategy_decision const& decision) {
    bool const is_other = strategies_->take(decision);
    if (plan_ && is_other) ++changes_;
    bool const is_new = !plan_ || is_other;
    std::uint64_t const cold = is_new ? 1 : 0;  // its first call touches new memory
    times_ = detail::recent_times(cold);
    next_look_ = calls_ + cold + decision.calls;
    if (is_new) create_plan();
  }
  void create_plan() {
    costs_ = strategies_->costs().now();
    choices_ = strategies_->costs().choices(strategies_->used());
    auto plan = options_.plan;
    plan.algorithm = chosen().algorithm;
    auto const& allowed = options_.allowed.codecs;
    auto const& named = named_[static_cast<std::size_t>(
        std::find(allowed.begin(), allowed.end(), chosen().codec) - allowed.begin())];
    plan_.reset();  // frees its memory first
    if constexpr (!DeviceExecutor<E>)
      if (plan.algorithm.hierarchical)
        plan_ = nodes_->make(chosen().codec, values_, *transport_, *executor_, plan);
    if (!plan_)
      plan_ = named.entry->make(
          {named.settings, values_, *transport_, *executor_, plan, total_weight_});
    if (options_.magnitude) plan_->set_magnitude(*options_.magnitude);
  }

  void refuse_feedback_by_nodes() const {
    auto const& strategies = strategies_->costs().strategies();
    if (std::ranges::any_of(strategies,
                            [](choice const& one) { return one.algorithm.hierarchical; }))
      throw std::invalid_argument(
          "automatic_plan: error feedback is not available: allowed hierarchical algorithms keep "
          "a residual only for a rank's share");
  }

  static constexpr std::size_t least_measured = 8192;  ///< a full block or more of most codecs

  detail::kept_transport transport_;
  E* executor_;
  std::size_t values_;
  automatic_options options_;
  hierarchical_strategies_of<V>* nodes_;
  std::uint32_t total_weight_ = 0;
  std::vector<named_codec<V, E>> named_;  ///< the allowed ones
  cost_table costs_;
  std::vector<choice> choices_;
  std::unique_ptr<detail::plan_body<V, E>> plan_;

  std::optional<detail::adaptive_strategy> strategies_;
  detail::recent_times times_;  ///< since the last comparison; the same number on all ranks
  std::uint64_t calls_ = 0, changes_ = 0, next_look_ = 0, last_look_ = 0;
};

}  // namespace hcomp
