#pragma once
/// @file
/// What codecs cost, as a file: so that simulations of one day can be compared with another's.

#include <hcomp/collective/cost/costs.hpp>
#include <string>

namespace scale {

/// What `identity` and `sign` cost on this machine, with one thread; `sign` with algorithm `sampled`
/// among `ranks` ranks. The link has no costs.
hcomp::cost_table measured_costs(int ranks);

/// JSON: an object of codecs, each an object of seconds as in codec_cost.
/// @throws std::runtime_error  the file cannot be written, or read as such a table
void write_costs(std::string const& file, hcomp::cost_table const& costs);
hcomp::cost_table read_costs(std::string const& file);

}  // namespace scale
