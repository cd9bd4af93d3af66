#pragma once
/// @file
/// All-reduces by several strategies in turn, on links that change. Shared by bench_changing_link
/// and the benchmark `faster` of bench_drop_in.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace bench {

/// One call of each strategy.
struct turn {
  std::string rate;             ///< of the links
  std::vector<double> seconds;  ///< per strategy
  std::string chosen = {};      ///< the codec that an adaptive strategy used, if it reports one
};

inline constexpr std::size_t window = 20;  ///< turns
inline constexpr char const* being_changed = "-";

inline double seconds_of(std::size_t strategy, turn const* from, turn const* to) {
  double seconds = 0;
  for (; from != to; ++from) seconds += from->seconds[strategy];
  return seconds;
}
/// Returns the end of the turns with the first turn's rate.
inline turn const* end_of_rate(turn const* from, turn const* end) {
  return std::find_if(from, end, [&](turn const& one) { return one.rate != from->rate; });
}
/// Returns the smallest ratio seconds of `than` / seconds of `strategy` over `window` turns;
/// infinite with fewer turns.
inline double worst_speed(std::size_t strategy, std::size_t than, turn const* from,
                          turn const* end) {
  double worst = std::numeric_limits<double>::infinity();
  for (; static_cast<std::size_t>(end - from) >= window; ++from)
    worst = std::min(
        worst, seconds_of(than, from, from + window) / seconds_of(strategy, from, from + window));
  return worst;
}

/// Calls sum(strategy, x) with floats of x in [-1, 1] for each strategy, in turn, for about
/// `seconds`. Collective on MPI_COMM_WORLD. Rank 0 returns the turns, measured with its clock and
/// the rates that it read.
/// @param rate_file  always contains the current rate of the links, or being_changed; may be empty
/// @param chosen     called before the turn; its result is turn::chosen
template <class Sum, class Chosen>
std::vector<turn> take_turns(std::size_t strategies, std::size_t values, double seconds,
                             std::string const& rate_file, Sum const& sum, Chosen const& chosen) {
  auto const rate_now = [&] {
    std::string rate = "as it is";
    if (!rate_file.empty()) std::ifstream(rate_file) >> rate;
    return rate;
  };
  std::vector<float> x(values);
  std::vector<turn> turns;
  double const start = MPI_Wtime();
  char goes_on = 1;
  for (std::size_t number = 0; goes_on != 0; ++number) {
    auto& now = turns.emplace_back(turn{rate_now(), std::vector<double>(strategies), chosen()});
    for (std::size_t k = 0; k < strategies; ++k) {
      // alternates the direction: no strategy always follows the same other strategy
      std::size_t const strategy =
          (number + (number / strategies % 2 == 0 ? k : strategies - k)) % strategies;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2001) / 1000 - 1;
      MPI_Barrier(MPI_COMM_WORLD);
      double const before = MPI_Wtime();
      sum(strategy, x);
      MPI_Barrier(MPI_COMM_WORLD);
      now.seconds[strategy] = MPI_Wtime() - before;
    }
    // a turn does not count if the rate changed during it
    if (rate_now() != now.rate || now.rate == being_changed) turns.pop_back();
    goes_on = MPI_Wtime() - start < seconds;
    MPI_Bcast(&goes_on, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  return turns;
}

}  // namespace bench
