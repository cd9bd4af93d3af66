#pragma once
/// @file
/// What the cost model recommends, in words.

#include <cstddef>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <string>
#include <vector>

namespace perf {

/// Which way is quickest at every size, from which size on every codec is faster than the MPI
/// library's own all-reduce on this link, and up to which rate a link may grow before that ends.
/// @param sizes  in values of `value_bytes` bytes
std::string advice(hcomp::cost_table const& costs, int ranks, std::vector<std::size_t> const& sizes,
                   hcomp::allowed_strategies const& allowed, std::size_t value_bytes);

/// The highest rate in bit/s of a link, up to 1 Tbit/s, on which some ways are faster than the MPI
/// library's own all-reduce; 0 if there is none from 1 Mbit/s on. Latency as in `costs`.
double pays_up_to(hcomp::cost_table costs, int ranks, std::size_t values,
                  hcomp::allowed_strategies const& strategies, std::size_t value_bytes);

}  // namespace perf
