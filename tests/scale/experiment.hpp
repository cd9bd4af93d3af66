#pragma once
/// @file
/// All-reduces on a simulated cluster, each compared with the cost formulas.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"

namespace scale {

/// Result of one all-reduce on all ranks.
struct outcome {
  std::string algorithm, codec;
  int hops = 0;                     ///< of rank 0
  std::uint64_t bytes_sent = 0;     ///< by rank 0
  double seconds = 0;               ///< simulated, until the last rank is done
  double predicted = 0;             ///< by hcomp::predict
  std::vector<std::string> faults;  ///< wrong hops, bytes or values

  double deviation() const { return 100 * (seconds / predicted - 1); }  ///< per cent
};

/// Runs every codec with every algorithm that the options name. Call it once per process.
std::vector<outcome> run(options const& o);

}  // namespace scale
