#pragma once
/// @file
/// Ways to sum vectors that lie in the memory of a CUDA device: what knows CUDA, but not MPI.

#include <cstddef>
#include <memory>
#include <string>

#include "contender.hpp"
#include "plans.hpp"

namespace perf {

/// Takes one of the host's devices for this rank and says which: "NVIDIA H200".
/// @param rank_on_host  ranks beyond the number of devices share them
/// @throws std::runtime_error  there is none, or this program was built without CUDA
std::string take_device(int rank_on_host);

/// Every algorithm that is asked for and goes with the codec, without a prediction. Collective.
/// @throws std::invalid_argument  a codec that options do not know there, on all ranks alike
void add_device_plans(contender_list<float>& list, job const& it, std::string const& codec,
                      std::string const& transport);

/// `inner`, which sums on the host, for vectors on the device.
/// @param reaches  it takes pointers to the device's memory; otherwise vectors are copied to pinned
///                 host memory and back, and the time that takes is its
std::unique_ptr<contender<float>> on_device(std::unique_ptr<contender<float>> inner,
                                            std::size_t values, int ranks, bool reaches);

}  // namespace perf
