#pragma once
/// @file
/// Sums that hcomp-aggregator makes.

#include <string>

#include "plans.hpp"

namespace perf {

/// The codec by way of --aggregator. Collective.
/// @throws std::invalid_argument, hcomp::transport_error  on all ranks alike: no such address, or an
///                                aggregator that does not answer or refuses the job
void add_aggregated(contender_list<float>& list, job const& it, std::string const& codec);

}  // namespace perf
