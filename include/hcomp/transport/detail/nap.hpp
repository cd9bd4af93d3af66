#pragma once
/// @file
/// Back-off of a waiting thread that shares cores with computation.

#include <algorithm>
#include <chrono>
#include <thread>

namespace hcomp::detail {

/// Sleeps once per this number of polls: Open MPI polls its sockets at every eighth call.
inline constexpr unsigned turns_of_a_nap = 9;

/// Sleeps for 1 / share of the time already waited, 20 us to 1 ms; this bounds the added latency.
/// Not yield: a computing thread would then keep the core for milliseconds.
inline void nap(std::chrono::steady_clock::duration waited, int share = 8) {
  std::this_thread::sleep_for(std::clamp<std::chrono::steady_clock::duration>(
      waited / share, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
}

}  // namespace hcomp::detail
