#pragma once
/// @file
/// By what plans of codes of variable rate that are merged can sum.

#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <string>
#include <vector>

namespace hcomp::testing {

/// All their algorithms for so many ranks, with short segments.
inline std::vector<plan_options> merging_algorithms(int ranks) {
  std::vector<plan_options> all;
  for (std::string const how : {"ring", "direct", "aggregator", "torus"}) {
    if (how == "torus" && ranks % 2 != 0) continue;
    auto& one = all.emplace_back();
    one.algorithm = algorithm::from(how == "torus" ? "torus:2x" + std::to_string(ranks / 2) : how);
    one.segment_bytes = 8192;
  }
  return all;
}

}  // namespace hcomp::testing
