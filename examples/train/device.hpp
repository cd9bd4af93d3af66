#pragma once
/// @file
/// Training in CUDA device memory. This part uses CUDA, not MPI.

#include <exception>
#include <memory>
#include <string>

#include "options.hpp"
#include "paced_transport.hpp"
#include "workplace.hpp"

namespace train {

/// Selects a device of the node for this rank and returns its name, e.g. "NVIDIA H200".
/// @param rank_on_host  rank inside the node; ranks share devices if the node has fewer devices
/// @throws std::runtime_error  the node has no device, or the program was built without CUDA or
///                             cuBLAS
std::string take_device(int rank_on_host);

/// Whether the error comes from a device; it may concern one rank only.
bool is_of_device(std::exception const& error);

/// A workplace on the selected device, for `methods_on_device`.
/// @param o, transport  kept by reference
/// @throws std::runtime_error  as take_device, or the device failed
std::unique_ptr<workplace> make_device_workplace(options const& o, paced_transport& transport);

}  // namespace train
