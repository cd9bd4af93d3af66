#pragma once
/// @file
/// Training in the memory of a CUDA device: what knows CUDA, but not MPI.

#include <exception>
#include <memory>
#include <string>

#include "options.hpp"
#include "paced_transport.hpp"
#include "workplace.hpp"

namespace train {

/// Takes one of the host's devices for this rank and says which: "NVIDIA H200".
/// @param rank_on_host  ranks beyond the number of devices share them
/// @throws std::runtime_error  there is none, or this program was built without CUDA or cuBLAS
std::string take_device(int rank_on_host);

/// Whether a device has failed, perhaps that of one rank alone.
bool is_of_device(std::exception const& error);

/// That device, for `methods_on_device`.
/// @param o, transport  are kept by reference
/// @throws std::runtime_error  as take_device, or something failed on the device
std::unique_ptr<workplace> make_device_workplace(options const& o, paced_transport& transport);

}  // namespace train
