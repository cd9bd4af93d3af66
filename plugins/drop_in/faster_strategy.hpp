#pragma once
/// @file
/// Whether sums of about one size go by a codec or by MPI, whichever is quicker: what all ranks do in
/// which call. Arithmetic only, no communication.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace hcomp::drop_in {

/// Number of a class of sizes, of which the largest is less than an eighth above the smallest.
constexpr unsigned size_class(std::size_t bytes) {
  auto const width = static_cast<unsigned>(std::bit_width(bytes));
  if (width < 4) return static_cast<unsigned>(bytes);
  return 8 * width + static_cast<unsigned>(bytes >> (width - 4)) % 8;
}

/// What ranks compare, in nanoseconds: of each figure the largest of all ranks counts. Without
/// padding: it is sent as four MPI_INT64_T.
struct strategy_stats {
  std::int64_t by_mpi = 0, by_codec = 0;  ///< that sums, or a part of one, took
  std::int64_t cost = 0;                  ///< of a look
  std::int64_t minus_mean = 0;            ///< of the last sums, with a minus

  void unite(strategy_stats const& other) {
    by_mpi = std::max(by_mpi, other.by_mpi);
    by_codec = std::max(by_codec, other.by_codec);
    cost = std::max(cost, other.cost);
    minus_mean = std::max(minus_mean, other.minus_mean);
  }
};

/// The quicker of two ways to sum, from call to call.
///
/// A trial makes eight sums, in turns by MPI and by the codec. The first of each does not count: it
/// touches new memory. Medians of the others decide: the codec must be quicker by 5 %. From then on
/// all sums go by that way. Now and then there is a look: beside a sum both ways sum a small part of
/// the vector, for nothing. When the other way is quicker in three looks in a row, there is a new
/// trial. Looks, and trials that change nothing, take about 1 % of the time of the sums. After 20 sums
/// ranks compare what they took: when that has changed by half or more, there is a look at once; or,
/// where MPI's sums take longer, a trial, unless the last one was for nothing not long ago, when they
/// took about as long: of a link that has become slow a small part says little, for it is latency, and
/// what buffers take.
///
/// A look says more than the time of the sums themselves: a codec that is slower than the link takes as
/// long when the link becomes quick. And it takes about a quarter of a sum at most, unless latency is
/// most of that; a sum by the slower way may take as long as many.
///
/// Decisions depend on numbers of calls and on figures that all ranks have, in integers: they are the
/// same on all ranks, whatever machines these are. One call:
///
///     if (one.compares()) one.learn_mean(<one.figures(), united over the ranks>);
///     if (one.look_at() > 0) one.learn_look(<figures of a look, united over the ranks>);
///     <sum by one.by(); where one.is_timed(), all ranks begin together>
///     one.add(nanoseconds, bytes);
///     if (one.ends_trial()) one.learn_trial(<one.medians(), united over the ranks>);
class faster_strategy {
 public:
  enum class strategy : std::uint8_t { mpi, codec };
  static constexpr int calls_of_trial = 8;

  /// Of the sum of this call.
  strategy by() const {
    if (!is_timed()) return used_;
    return call_of_trial_ % 2 == 0 ? strategy::mpi : strategy::codec;
  }
  /// Whether this call is one of a trial, in which all ranks must begin together.
  bool is_timed() const { return call_of_trial_ < calls_of_trial; }
  /// What part of the vector, 1 / look_at(), both ways sum before this call's sum; 0: none.
  int look_at() const { return !is_timed() && calls_to_look_ <= 0 ? part_ : 0; }
  /// Whether ranks must compare what sums took, before this call's sum.
  bool compares() const { return !is_timed() && look_at() == 0 && sums_ >= least_calls; }
  /// The last trial's decision; the codec before there was one.
  strategy used() const { return used_; }
  std::uint64_t looks() const { return looks_; }
  std::uint64_t trials() const { return trials_; }

  /// @param took  nanoseconds of this call's sum, on this rank
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

  /// Whether ranks must compare medians now.
  bool ends_trial() const { return ends_trial_; }
  /// Of this rank's trial, per 64 KiB: sums of one class differ in size.
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
    // of which both ways take at most a quarter of a sum
    auto const least = static_cast<std::uint64_t>((4 * both + own - 1) / own);
    part_ = static_cast<int>(std::clamp(std::bit_ceil(least), least_part, most_part));
    most_of_look_ = calls_worth(both, own);
    auto const for_nothing = calls_worth(calls_of_trial / 2 * (both - 2 * own), own);
    calls_to_trial_ = used_ == before ? std::min(for_nothing, most_calls) : 0;
    if (trials_ == 0 || used_ != before)
      owed_ = calls_worth(both / part_, own);  // the next look
    else
      owed_ += for_nothing;
    rest();
    ++trials_;
    ends_trial_ = false;
    cost_ = most_nanoseconds;
    mean_ = mean_of_look_ = 0;
    begin_sums();
  }

  /// Of the sums since ranks compared figures, on this rank.
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

  /// Of a look, on this rank: what both ways took, and all of it.
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
    // a look that was disturbed does not say what the next one costs, and none costs more than all of both
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
  /// 4.6 minutes: with no more nothing overflows.
  static constexpr std::int64_t most_nanoseconds = std::int64_t{1} << 38;
  static constexpr int looks_to_win = 3;
  static constexpr std::uint64_t least_part = 8, most_part = 1024;
  static constexpr std::int64_t least_calls = 20, most_calls = 1'000'000;

  static bool gains(strategy_stats const& all) { return all.by_codec * 100 <= all.by_mpi * 95; }
  /// So many sums that `cost` is 1 % of them.
  static std::int64_t calls_worth(std::int64_t cost, std::int64_t of_a_sum) {
    return (100 * cost + of_a_sum - 1) / of_a_sum;
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
  std::int64_t calls_to_trial_ = 0;       ///< before there is one without looks
  std::int64_t owed_ = 0;                 ///< calls, for what looks and trials took
  std::int64_t most_of_look_ = 0;         ///< calls
  std::int64_t cost_ = most_nanoseconds;  ///< of the last look
  std::int64_t took_ = 0, sums_ = 0;      ///< since ranks compared figures
  /// Of sums: last, at the last look, and before the last trial; 0: not known.
  std::int64_t mean_ = 0, mean_of_look_ = 0, mean_of_trial_ = 0;
};

}  // namespace hcomp::drop_in
