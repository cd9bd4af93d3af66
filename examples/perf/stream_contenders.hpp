#pragma once
/// @file
/// Sums with codecs of variable rate, in turns with all others.

#include <string>

#include "plans.hpp"

namespace perf {

/// The codec by every algorithm that is asked for and goes with it. In one thread, as plans of such
/// codecs are.
void add_streams(contender_list<float>& list, job const& it, std::string const& codec,
                 std::string const& transport);

}  // namespace perf
