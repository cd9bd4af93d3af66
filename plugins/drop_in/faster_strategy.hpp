#pragma once
/// @file
/// Chooses between a codec and MPI for reductions of about one size, equally on all ranks.
/// Arithmetic only, no communication.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hcomp::drop_in {

/// Number of a size class. The largest size of a class is less than 1/8 above its smallest.
constexpr unsigned size_class(std::size_t bytes) {
  auto const width = static_cast<unsigned>(std::bit_width(bytes));
  if (width < 4) return static_cast<unsigned>(bytes);
  return 8 * width + static_cast<unsigned>(bytes >> (width - 4)) % 8;
}

/// Statistics that ranks compare, in nanoseconds. The maximum over the ranks counts. The struct has
/// no padding: it is sent as four MPI_INT64_T.
struct strategy_stats {
  std::int64_t by_mpi = 0, by_codec = 0;  ///< time of a reduction, or of a part of one
  std::int64_t cost = 0;                  ///< of a probe
  std::int64_t minus_mean = 0;            ///< of the last calls, negated

  void unite(strategy_stats const& other) {
    by_mpi = std::max(by_mpi, other.by_mpi);
    by_codec = std::max(by_codec, other.by_codec);
    cost = std::max(cost, other.cost);
    minus_mean = std::max(minus_mean, other.minus_mean);
  }
};

/// Chooses the faster of two strategies, MPI and the codec, from call to call.
///
/// A trial times eight calls, alternately with MPI and with the codec. It ignores the first call of
/// each, which touches new memory, and compares the medians of the remaining calls. The codec wins
/// if it is at least 5 % faster. All later calls use the winner.
///
/// A probe (`look` in names) happens between trials. Before a call, both strategies reduce a small
/// part of the vector and discard the result. If the other strategy is faster in three consecutive
/// probes, a new trial starts. Probes, and trials without effect, take about 1 % of the time of the
/// calls.
///
/// After every 20 calls ranks compare the mean time of a call. If it has changed by half or more, a
/// probe follows at once. If calls with MPI have become slower, a trial follows instead, unless a
/// recent trial without effect started at about the same mean. On a link that has become slow a
/// probe reveals little: latency and network buffers determine the time of a small part.
///
/// A probe reveals more than the time of the calls. On a link that has become fast, a codec slower
/// than the link takes as long as before. A probe takes at most about a quarter of a call, unless
/// latency dominates. A call with the slower strategy may take the time of many calls.
///
/// Decisions depend on call counts and on integer statistics that all ranks share. They are equal
/// on all ranks, on any hardware. One call:
///
///     if (one.compares()) one.learn_mean(<one.stats(), united over the ranks>);
///     if (one.look_at() > 0) one.learn_look(<one.stats_of_look(...), united over the ranks>);
///     <reduction with one.by(); if one.is_timed(), all ranks begin together>
///     one.add(nanoseconds, bytes);
///     if (one.ends_trial()) one.learn_trial(<one.medians(), united over the ranks>);
class faster_strategy {
 public:
  enum class strategy : std::uint8_t { mpi, codec };
  static constexpr int calls_of_trial = 8;

  /// Strategy of this call.
  strategy by() const {
    if (!is_timed()) return used_;
    return call_of_trial_ % 2 == 0 ? strategy::mpi : strategy::codec;
  }
  /// True if this call belongs to a trial. All ranks must begin it together.
  bool is_timed() const { return call_of_trial_ < calls_of_trial; }
  /// Divisor for a probe before this call: both strategies reduce 1 / look_at() of the vector. 0:
  /// no probe.
  int look_at() const { return !is_timed() && calls_to_look_ <= 0 ? part_ : 0; }
  /// True if ranks must compare mean times before this call.
  bool compares() const { return !is_timed() && look_at() == 0 && sums_ >= least_calls; }
  /// Winner of the last trial; the codec before the first trial.
  strategy used() const { return used_; }
  std::uint64_t looks() const { return looks_; }
  std::uint64_t trials() const { return trials_; }

  /// @param took  nanoseconds of this call on this rank
  void add(std::int64_t took, std::size_t bytes) {
    took = std::clamp<std::int64_t>(took, 1, most_nanoseconds);
    if (!is_timed()) {
      took_ += took;
      ++sums_;
      --calls_to_look_;
      --calls_to_trial_;
      return;
    }
    auto const turn = static_cast<std::size_t>(call_of_trial_ / 2);
    times_[static_cast<std::size_t>(by())][turn] = std::max<std::int64_t>(
        took * size_of_times / static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)), 1);
    ++call_of_trial_;
    ends_trial_ = !is_timed();
  }

  /// True if ranks must compare medians now.
  bool ends_trial() const { return ends_trial_; }
  /// Medians of this rank's trial, per 64 KiB, because calls of one class differ in size.
  strategy_stats medians() const {
    auto const median = [](std::array<std::int64_t, turns> of) {
      std::sort(of.begin() + 1, of.end());
      return of[1 + (turns - 1) / 2];
    };
    return {.by_mpi = median(times_[0]), .by_codec = median(times_[1])};
  }
  /// @param all  united over the ranks
  void learn_trial(strategy_stats const& all) {
    auto const before = used_;
    used_ = gains(all) ? strategy::codec : strategy::mpi;
    auto const both = all.by_mpi + all.by_codec,
               own = used_ == strategy::mpi ? all.by_mpi : all.by_codec;
    // Both strategies together take at most a quarter of a call for this part.
    auto const least = static_cast<std::uint64_t>((4 * both + own - 1) / own);
    part_ = static_cast<int>(std::clamp(std::bit_ceil(least), least_part, most_part));
    most_of_look_ = calls_worth(both, own);
    auto const for_nothing = calls_worth(calls_of_trial / 2 * (both - 2 * own), own);
    calls_to_trial_ = used_ == before ? std::min(for_nothing, most_calls) : 0;
    if (trials_ == 0 || used_ != before)
      owed_ = calls_worth(both / part_, own);  // for the next probe
    else
      owed_ += for_nothing;
    rest();
    ++trials_;
    ends_trial_ = false;
    cost_ = most_nanoseconds;
    mean_ = mean_of_look_ = 0;
    begin_sums();
  }

  /// Mean time of the calls since ranks last compared, on this rank.
  strategy_stats stats() const {
    return {.minus_mean = -(sums_ > 0 ? std::max<std::int64_t>(took_ / sums_, 1) : mean_)};
  }
  /// @param all  united over the ranks
  void learn_mean(strategy_stats const& all) {
    mean_ = -all.minus_mean;
    begin_sums();
    if (mean_of_look_ == 0) mean_of_look_ = mean_;
    bool const is_faster = 2 * mean_of_look_ >= 3 * mean_;
    if (needs_trial())
      begin_trial();
    else if (is_slower() || is_faster)
      calls_to_look_ = 0;
  }

  /// Statistics of a probe on this rank: time of each strategy, and total cost.
  strategy_stats stats_of_look(std::int64_t by_mpi, std::int64_t by_codec,
                               std::int64_t cost) const {
    auto const limited = [](std::int64_t x) {
      return std::clamp<std::int64_t>(x, 1, most_nanoseconds);
    };
    return {limited(by_mpi), limited(by_codec), limited(cost), stats().minus_mean};
  }
  /// @param all  united over the ranks
  void learn_look(strategy_stats const& all) {
    ++looks_;
    bool const is_other_faster = used_ == strategy::mpi ? gains(all) : all.by_mpi < all.by_codec;
    looks_won_ = is_other_faster ? looks_won_ + 1 : 0;
    // The cost of a disturbed probe does not predict the next one. No probe costs more than one
    // full call of each strategy.
    auto const cost = std::min(all.cost, std::exchange(cost_, all.cost));
    mean_ = -all.minus_mean;
    bool const needs_trial = this->needs_trial() || looks_won_ >= looks_to_win;
    mean_of_look_ = mean_;
    owed_ += std::min(calls_worth(cost, mean_), most_of_look_);
    if (is_other_faster)
      calls_to_look_ = 1;
    else
      rest();
    begin_sums();
    if (needs_trial) begin_trial();
  }

 private:
  static constexpr std::size_t turns = calls_of_trial / 2;
  static constexpr std::int64_t size_of_times = 64 * 1024;
  /// 4.6 minutes. This limit prevents overflow.
  static constexpr std::int64_t most_nanoseconds = std::int64_t{1} << 38;
  static constexpr int looks_to_win = 3;
  static constexpr std::uint64_t least_part = 8, most_part = 1024;
  static constexpr std::int64_t least_calls = 20, most_calls = 1'000'000;

  static bool gains(strategy_stats const& all) { return all.by_codec * 100 <= all.by_mpi * 95; }
  /// Number of calls whose total time is 100 times `cost`.
  static std::int64_t calls_worth(std::int64_t cost, std::int64_t per_call) {
    return (100 * cost + per_call - 1) / per_call;
  }
  bool is_slower() const { return mean_of_look_ > 0 && 2 * mean_ >= 3 * mean_of_look_; }
  bool needs_trial() const {
    return is_slower() && used_ == strategy::mpi &&
           (calls_to_trial_ <= 0 || 2 * mean_ >= 3 * mean_of_trial_);
  }
  void begin_trial() {
    looks_won_ = call_of_trial_ = 0;
    mean_of_trial_ = mean_;
  }
  void rest() { calls_to_look_ = std::clamp(std::exchange(owed_, 0), least_calls, most_calls); }
  void begin_sums() { took_ = sums_ = 0; }

  strategy used_ = strategy::codec;
  int call_of_trial_ = 0;
  bool ends_trial_ = false;
  std::array<std::array<std::int64_t, turns>, 2> times_{};
  std::uint64_t trials_ = 0, looks_ = 0;
  int part_ = least_part, looks_won_ = 0;
  std::int64_t calls_to_look_ = 0;
  std::int64_t calls_to_trial_ = 0;       ///< until a trial without a probe
  std::int64_t owed_ = 0;                 ///< calls, to pay for probes, trials
  std::int64_t most_of_look_ = 0;         ///< in calls
  std::int64_t cost_ = most_nanoseconds;  ///< of the last probe
  std::int64_t took_ = 0, sums_ = 0;      ///< since ranks last compared
  /// Mean times: latest, at the last probe, and before the last trial; 0: unknown.
  std::int64_t mean_ = 0, mean_of_look_ = 0, mean_of_trial_ = 0;
};

}  // namespace hcomp::drop_in
