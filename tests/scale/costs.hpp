#pragma once
/// @file
/// Codec costs in a file, so that simulations of different days are comparable.

#include <hcomp/collective/cost/costs.hpp>
#include <string>

namespace scale {

/// Measures `identity` and `sign` on this machine, with one thread; `sign` with algorithm `sampled`
/// among `ranks` ranks. The link has no costs.
hcomp::cost_table measured_costs(int ranks);

/// JSON: an object of codecs, each an object of seconds with the keys of codec_cost.
/// @throws std::runtime_error  the file cannot be written, or read as such a table
void write_costs(std::string const& file, hcomp::cost_table const& costs);
hcomp::cost_table read_costs(std::string const& file);

}  // namespace scale
