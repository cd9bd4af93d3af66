#pragma once
/// @file
/// Decides when the ranks of an automatic_plan compare times, measure the link and switch strategy.
/// Defines the records they exchange; does not communicate.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/automatic/detail/running_costs.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <limits>
#include <utility>

namespace hcomp::detail {

/// Times of the last calls, of one rank or united over all ranks. Without padding, because it is
/// sent as bytes.
class recent_times {
 public:
  /// @param left_out  number of following calls that do not count
  explicit recent_times(std::uint64_t left_out = 0) : left_out_(left_out) {}

  /// @param seconds  time of the call after all ranks had called
  /// @param work     time of encoding, merging and decoding
  void add(double seconds, double work) {
    if (left_out_ > 0) {
      --left_out_;
      return;
    }
    seconds_[added_ % kept] = seconds;
    work_[added_ % kept] = work;
    ++added_;
  }
  std::uint64_t added() const { return added_; }
  void unite(recent_times const& other) {
    for (std::size_t i = 0; i < kept; ++i) {
      seconds_[i] = std::max(seconds_[i], other.seconds_[i]);
      work_[i] = std::max(work_[i], other.work_[i]);
    }
  }
  /// The one of the last two times that is nearer to `expected`. Requires two.
  call_time nearest(double expected) const {
    auto const a = (added_ - 1) % kept, b = (added_ - 2) % kept;
    auto const which = std::abs(seconds_[a] - expected) < std::abs(seconds_[b] - expected) ? a : b;
    return {seconds_[which], work_[which]};
  }
  /// The median; of two, the larger. Requires one.
  call_time median() const {
    auto const count = static_cast<std::size_t>(std::min<std::uint64_t>(added_, kept));
    auto const middle = [&](std::array<double, kept> all) {
      std::sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      return all[count / 2];
    };
    return {middle(seconds_), middle(work_)};
  }

 private:
  static constexpr std::size_t kept = 8;
  std::uint64_t left_out_, added_ = 0;
  std::array<double, kept> seconds_{}, work_{};
};

/// The decision of one rank, which all ranks follow. Without padding, because it is sent as bytes.
struct strategy_decision {
  std::int32_t rank = 0;
  std::uint32_t strategy = 0;  ///< index in running_costs
  std::uint64_t calls = 1;     ///< least number of calls until the ranks compare times again
  double expected = 0;         ///< seconds per call
  double measure_after = 0;    ///< seconds of calls after which the link is measured
  double try_after = 0;  ///< seconds of calls after which a strategy slowed by load is tried again
  double per_byte = 0, load = 1;
};

/// Chooses the strategy of calls from measured times.
///
/// `look` and `learn` have equal effects on all ranks, since all ranks pass equal times. Results of
/// floating-point computation may differ between machines. So the `decide` of one rank is sent to
/// all ranks, which `take` it.
class adaptive_strategy {
 public:
  /// @param share     share of the time of calls for comparing and measuring, > 0
  /// @param exchange  seconds per comparison
  adaptive_strategy(running_costs costs, double share, double exchange)
      : costs_(std::move(costs)), share_(share), exchange_(exchange), used_(costs_.fastest()) {}

  running_costs const& costs() const { return costs_; }
  std::size_t used() const { return used_; }
  /// The last decision taken.
  strategy_decision const& decided() const { return decided_; }
  /// After a call: whether the ranks compare times before the next call, out of turn, because the
  /// previous call took much more or less time than expected. At most once between two regular
  /// comparisons.
  /// @param times            of the calls since the last comparison
  /// @param seconds_of_last  as in the report of the call
  bool hurries(recent_times const& times, double seconds_of_last) {
    bool const is_as_expected = seconds_of_last <= sudden * decided_.expected &&
                                seconds_of_last * sudden >= decided_.expected;
    if (!may_hurry_ || times.added() < 2 || seconds_of_last <= 0 || is_as_expected) return false;
    may_hurry_ = false;
    return is_hurried_ = true;
  }
  /// The time to use in a comparison. Out of turn, the one of the last two calls nearer to the
  /// expectation, so that a single outlier does not count.
  /// @param times  of all ranks
  call_time judge(recent_times const& times) {
    if (std::exchange(is_hurried_, false)) return times.nearest(decided_.expected);
    may_hurry_ = true;
    return times.median();
  }

  /// @param took  by one of the `sums` calls since the last comparison
  /// @return whether the link must be measured first
  bool look(call_time const& took, std::uint64_t sums) {
    double const passed = took.seconds * static_cast<double>(sums);
    since_measured_ += passed;
    since_tried_ += passed;
    bool const is_shock = disappoints(took);
    is_over_shock_ = costs_.is_in_shock() && !is_shock;
    costs_.set_shock(is_shock);
    return is_shock || since_measured_ >= decided_.measure_after;
  }
  /// @return whether a decision is needed
  bool learn(call_time const& took) {
    bool const surprises =
                   std::abs(took.seconds - decided_.expected) > surprise * decided_.expected,
               tries = since_tried_ >= decided_.try_after;
    if (surprises) costs_.learn(used_, took);
    if (tries) {
      costs_.forget_load();
      since_tried_ = 0;
    }
    is_first_ = false;
    return surprises || tries || is_over_shock_;
  }
  /// @param seconds_per_byte  of the link, just measured
  void learn(call_time const& took, double seconds_per_byte) {
    since_measured_ = 0;
    if (disappoints(took))
      costs_.learn(used_, took, seconds_per_byte);
    else
      costs_.learn_link(seconds_per_byte);
    is_first_ = false;
  }
  /// @param rank  the rank that decides
  strategy_decision decide(int rank) const {
    std::size_t const strategy = costs_.best(used_);
    double const expected = costs_.seconds(strategy),
                 in_turn = share_ / 2,  // the same share for comparisons out of turn
        calls = std::ceil(exchange_ / std::max(in_turn * expected, 1e-9)),
                 measuring = bytes_of_link_measurement * costs_.per_byte() + exchange_,
                 spread = share_ * (costs_.is_link_faster() ? hurry : 1);
    return {
        rank,
        static_cast<std::uint32_t>(strategy),
        static_cast<std::uint64_t>(std::clamp(calls, 1., most_calls)),
        expected,
        costs_.wants_link(strategy) ? measuring / spread : std::numeric_limits<double>::infinity(),
        reductions_of_trial * costs_.seconds_of_trial(strategy) / share_,
        costs_.per_byte(),
        costs_.load()};
  }
  /// @return whether the strategy changes
  bool take(strategy_decision const& decision) {
    costs_.follow(decision.per_byte, decision.load);
    decided_ = decision;
    bool const is_other = decision.strategy != used_;
    is_first_ = is_first_ || is_other;
    if (is_other) since_tried_ = 0;
    used_ = decision.strategy;
    return is_other;
  }

 private:
  /// Whether calls took so much longer than expected that only a measurement shows whether the link
  /// is the cause: since the first call of a strategy, or suddenly.
  bool disappoints(call_time const& took) const {
    return took.seconds > (is_first_ ? 1 + surprise : sudden) * decided_.expected;
  }

  static constexpr double surprise = 0.1,     ///< share of the expected time that shows a change
      sudden = 1.5;                           ///< factor of the expected time
  static constexpr double most_calls = 1000,  ///< between two comparisons
      hurry = 10,               ///< factor for measuring a link sooner that has become faster
      reductions_of_trial = 2;  ///< the first call touches new memory

  running_costs costs_;
  double share_, exchange_;
  std::size_t used_;
  bool is_first_ = true, may_hurry_ = true, is_hurried_ = false, is_over_shock_ = false;
  strategy_decision decided_;
  double since_measured_ = 0, since_tried_ = 0;  ///< seconds of calls
};

}  // namespace hcomp::detail
