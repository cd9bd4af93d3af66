#pragma once
/// @file
/// Helpers for tests that kill ranks, over any transport.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::testing {

/// Seconds, on a clock that all processes of a node share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// @throws std::runtime_error  `what` does not hold
inline void must(bool holds, std::string const& what) {
  if (!holds) throw std::runtime_error("expected: " + what);
}

/// Outcome of a rank; gave_up: it got a transport_error.
enum class ending { none, finished, gave_up, other_exception };

/// Counts of a campaign whose trials kill ranks.
struct campaign_stats {
  int killed = 0;
  int fetched = 0;            ///< results that came from another rank
  std::vector<double> waits;  ///< seconds from one rank's death to the next result on all ranks

  void print(unsigned trials) {
    std::printf("%u trials, %d ranks killed, %d results came from another rank\n", trials, killed,
                fetched);
    std::ranges::sort(waits);
    if (waits.empty()) return;
    std::printf(
        "seconds from the death of one rank to the next sum on all others: median %.3f, most "
        "%.3f\n",
        waits[waits.size() / 2], waits.back());
  }
};

}  // namespace hcomp::testing
