#pragma once
/// @file
/// Sums with codecs of variable rate, in turns with all others.

#include <hcomp/codec/error_bounded_stream.hpp>
#include <string>

#include "plans.hpp"

namespace perf {

/// What a codec, fitted to its ranks, says of their sum or mean: its bound, where all values become
/// integers; where floats are added, they round as well.
promise promise_of(hcomp::error_bounded_stream const& codec, bool mean);

/// The codec by every algorithm that is asked for and goes with it, the worker-aggregator among
/// them. In one thread.
void add_streams(contender_list<float>& list, job const& it, std::string const& codec,
                 std::string const& transport);

}  // namespace perf
