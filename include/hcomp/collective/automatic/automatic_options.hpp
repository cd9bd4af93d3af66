#pragma once
/// @file
/// What a caller of automatic_plan can choose: the ways to choose among.

#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <optional>

namespace hcomp {

/// What an automatic_plan may choose, and on which grounds. Equal on all ranks.
struct automatic_options {
  allowed_strategies allowed = {};       ///< codecs that lose something only if they are named here
  std::optional<double> magnitude = {};  ///< of the codecs that have one, such as `sign`
  std::uint32_t total_weight = 0;  ///< largest sum of the ranks' weights; 0: the number of ranks
  std::optional<cost_table> costs = {};  ///< as measured before; otherwise they are measured now
  measure_options measuring = {};        ///< of vectors of at most so many values
  /// Of the time of the sums, how much watching them may take: real times say how link and load
  /// change, and another way is taken once it is quicker. 0: the first choice stays, as it does
  /// without plan.check.
  double watching = 0.01;
  plan_options plan = {};  ///< `how` is what is chosen
};

}  // namespace hcomp
