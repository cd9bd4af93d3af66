#pragma once
/// @file
/// All-reduces on a simulated cluster, each compared with what the formulas say.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"

namespace scale {

/// One all-reduce on all ranks.
struct outcome {
  std::string algorithm, codec;
  int hops = 0;                     ///< of rank 0
  std::uint64_t bytes_sent = 0;     ///< by rank 0
  double seconds = 0;               ///< simulated, until the last rank was done
  double predicted = 0;             ///< by hcomp::predict
  std::vector<std::string> faults;  ///< hops, bytes or sums that are not what they should be

  double deviation() const { return 100 * (seconds / predicted - 1); }  ///< per cent
};

/// Every codec with every algorithm that the options name. Once per process.
std::vector<outcome> run(options const& o);

}  // namespace scale
