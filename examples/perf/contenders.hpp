#pragma once
/// @file
/// Makes the contenders of the command line.

#include "plans.hpp"

namespace perf {

/// The MPI library's all-reduce first, then all supported combinations of codec, algorithm and
/// transport. Collective.
/// @throws std::runtime_error, std::invalid_argument  an unknown name; on all ranks
template <class T> contender_list<T> make_contenders(job const& it);

}  // namespace perf
