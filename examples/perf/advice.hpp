#pragma once
/// @file
/// Text of --advise: recommendations of the cost model.

#include <cstddef>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <string>
#include <vector>

namespace perf {

/// The fastest codec and algorithm for every size. For every codec, the smallest size at which it
/// is faster than the MPI library's all-reduce on this link, and the highest link rate at which it
/// is faster.
/// @param sizes  in values of `value_bytes` bytes
std::string advice(hcomp::cost_table const& costs, int ranks, std::vector<std::size_t> const& sizes,
                   hcomp::allowed_strategies const& allowed, std::size_t value_bytes);

/// The highest link rate in bit/s, from 1 Mbit/s to 1 Tbit/s, at which the fastest of `strategies`
/// is faster than the MPI library's all-reduce; 0 if it is slower at 1 Mbit/s. The latency is that
/// of `costs`.
double pays_up_to(hcomp::cost_table costs, int ranks, std::size_t values,
                  hcomp::allowed_strategies const& strategies, std::size_t value_bytes);

}  // namespace perf
