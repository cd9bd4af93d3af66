#pragma once
/// @file
/// All-reduce of vectors in CUDA device memory. This part uses CUDA, not MPI.

#include <cstddef>
#include <memory>
#include <string>

#include "contender.hpp"
#include "plans.hpp"

namespace perf {

/// Selects a device of the node for this rank and returns its name, e.g. "NVIDIA H200".
/// @param rank_on_host  rank inside the node; ranks share devices if the node has fewer devices
/// @throws std::runtime_error  the node has no device, or the program was built without CUDA
std::string take_device(int rank_on_host);

/// Adds the codec with all its algorithms of the command line, without a prediction. Collective.
/// Collective.
/// @throws std::invalid_argument  the codec does not support device memory; on all ranks
void add_device_plans(contender_list<float>& list, job const& it, std::string const& codec,
                      std::string const& transport);

/// Runs `inner` on vectors in device memory.
/// @param reaches  `inner` accepts pointers to device memory; otherwise vectors are copied to
///                 pinned host memory and back, and the measured time includes these copies
std::unique_ptr<contender<float>> on_device(std::unique_ptr<contender<float>> inner,
                                            std::size_t values, int ranks, bool reaches);

}  // namespace perf
