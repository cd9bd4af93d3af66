#pragma once
/// @file
/// Text about the bits per value of an all-reduce. Declared without fmt, which nvcc cannot compile.

#include <hcomp/collective/agreement/report.hpp>
#include <string>

namespace perf {

/// "error_bounded:1e-4 sent 9.1 bits per value and hop, values are off by up to 9.8e-05"; says so
/// if the error exceeds the bound.
std::string bits_text(std::string const& codec, double bits, hcomp::report const& stats);

}  // namespace perf
