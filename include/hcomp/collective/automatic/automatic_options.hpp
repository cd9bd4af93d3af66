#pragma once
/// @file
/// Options of automatic_plan.

#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <optional>

namespace hcomp {

/// Which strategies an automatic_plan may choose, and from which costs. Equal on all ranks.
struct automatic_options {
  allowed_strategies allowed = {};       ///< lossy codecs only if they are named here
  std::optional<double> magnitude = {};  ///< for codecs that have a magnitude, such as `sign`
  std::uint32_t total_weight = 0;  ///< largest sum of the ranks' weights; 0: the number of ranks
  std::optional<cost_table> costs = {};  ///< measured before; none: the constructor measures
  measure_options measuring = {};        ///< with vectors of at most `values` values
  /// Share of the time of all-reduces for re-tuning: measured times show changes of link and load,
  /// and the plan switches to a strategy that has become faster. 0: keeps the first choice, as
  /// without plan.check.
  double watching = 0.01;
  plan_options plan = {};  ///< `algorithm` is chosen by the plan
};

}  // namespace hcomp
