#pragma once
/// @file
/// Sums by several ways in turns, while somebody changes the links: what bench_changing_link and
/// bench_drop_in's `quicker` share.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace bench {

/// All ways once.
struct turn {
  std::string rate;             ///< of the links
  std::vector<double> seconds;  ///< of each way's sum
  std::string chosen = {};      ///< by what the way summed that chooses, where somebody tells
};

inline constexpr std::size_t window = 20;  ///< turns
inline constexpr char const* being_changed = "-";

inline double seconds_of(std::size_t strategy, turn const* from, turn const* to) {
  double seconds = 0;
  for (; from != to; ++from) seconds += from->seconds[strategy];
  return seconds;
}
/// Behind the turns that have the rate of the first.
inline turn const* end_of_rate(turn const* from, turn const* end) {
  return std::find_if(from, end, [&](turn const& one) { return one.rate != from->rate; });
}
/// The least of seconds of `than` / seconds of `way` over `window` turns; infinite with fewer turns.
inline double worst_speed(std::size_t strategy, std::size_t than, turn const* from,
                          turn const* end) {
  double worst = std::numeric_limits<double>::infinity();
  for (; static_cast<std::size_t>(end - from) >= window; ++from)
    worst = std::min(
        worst, seconds_of(than, from, from + window) / seconds_of(strategy, from, from + window));
  return worst;
}

/// Calls sum(way, x) with floats of x in [-1, 1] for each way, in turns, for about `seconds`. Collective
/// of MPI_COMM_WORLD. Rank 0 has what is printed: by its clock, and by the rates that it has read.
/// @param rate_file  in which stands, at any time, how quick the links are, or being_changed; may be
///                   empty
/// @param chosen     its result is turn::chosen, before the turn
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
      // forwards and backwards: none is always behind the same other
      std::size_t const strategy =
          (number + (number / strategies % 2 == 0 ? k : strategies - k)) % strategies;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2001) / 1000 - 1;
      MPI_Barrier(MPI_COMM_WORLD);
      double const before = MPI_Wtime();
      sum(strategy, x);
      MPI_Barrier(MPI_COMM_WORLD);
      now.seconds[strategy] = MPI_Wtime() - before;
    }
    // where some sums had the one rate and some the other, the turn does not count
    if (rate_now() != now.rate || now.rate == being_changed) turns.pop_back();
    goes_on = MPI_Wtime() - start < seconds;
    MPI_Bcast(&goes_on, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  return turns;
}

}  // namespace bench
