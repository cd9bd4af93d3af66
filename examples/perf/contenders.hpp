#pragma once
/// @file
/// Makes everything that the command line asks to be timed.

#include "plans.hpp"

namespace perf {

/// The MPI library's own all-reduce first, then every codec with every algorithm and transport that
/// go together. Collective.
/// @throws std::runtime_error, std::invalid_argument  an unknown name, on all ranks alike
template <class T> contender_list<T> make_contenders(job const& it);

}  // namespace perf
