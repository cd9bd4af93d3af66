#pragma once
/// @file
/// How a thread that waits beside others that calculate leaves them the processor.

#include <algorithm>
#include <chrono>
#include <thread>

namespace hcomp::detail {

/// It sleeps once in so many questions: Open MPI looks at its sockets every eighth time.
inline constexpr unsigned turns_of_a_nap = 9;

/// For 1 / share of what it has waited, 20 us to 1 ms: as much later it may notice. Not yield: a
/// thread that calculates would keep the processor for milliseconds.
inline void nap(std::chrono::steady_clock::duration waited, int share = 8) {
  std::this_thread::sleep_for(std::clamp<std::chrono::steady_clock::duration>(
      waited / share, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
}

}  // namespace hcomp::detail
