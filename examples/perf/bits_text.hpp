#pragma once
/// @file
/// What a sum was sent in, for people; without fmt, which CUDA's compiler cannot read.

#include <hcomp/collective/agreement/report.hpp>
#include <string>

namespace perf {

/// "error_bounded:1e-4 sent 9.1 bits per value and hop, values are off by up to 9.8e-05", and
/// whether that is more than the bound.
std::string bits_text(std::string const& codec, double bits, hcomp::report const& stats);

}  // namespace perf
