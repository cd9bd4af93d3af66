#pragma once
/// @file
/// All-reduces by hcomp-aggregator.

#include <string>

#include "plans.hpp"

namespace perf {

/// Adds the codec with the aggregators of --aggregator. Collective.
/// @throws std::invalid_argument, hcomp::transport_error  on all ranks: an address does not exist,
///                                or an aggregator does not answer or refuses the job
void add_aggregated(contender_list<float>& list, job const& it, std::string const& codec);

}  // namespace perf
