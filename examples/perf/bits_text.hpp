#pragma once
/// @file
/// What a sum was sent in, for people; without fmt, which CUDA's compiler cannot read.

#include <string>

namespace perf {

/// "inceptionn:10 sent 9.1 bits per value and hop"
/// @param error  of the sum by coding; 0: not known
std::string bits_text(std::string const& codec, double bits, double error);

}  // namespace perf
