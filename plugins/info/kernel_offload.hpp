#pragma once
/// @file
/// In-kernel aggregation by hcomp-aggregator --mode xdp.

#include <string>

namespace hcomp::info {

/// The attached programs and their counters, as text.
std::string kernel_offload();

}  // namespace hcomp::info
