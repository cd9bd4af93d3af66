#pragma once
/// @file
/// Checks whether communication libraries accept device memory. Results read "device memory: yes".

#include <string>

namespace hcomp::info {

/// Checks the MPI that libhcomp.so links. Starts that MPI.
/// @param library  the path of libhcomp.so
std::string mpi_device_memory(std::string const& library);

/// Checks UCX with the settings of hcomp::ucx.
/// @param library  name or path of libucp
std::string ucx_device_memory(std::string const& library);

}  // namespace hcomp::info
