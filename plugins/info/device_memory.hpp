#pragma once
/// @file
/// Whether libraries send and receive device memory, in a line like "device memory: yes".

#include <string>

namespace hcomp::info {

/// Of the MPI that libhcomp.so brings, which is started for it.
/// @param library  the path of libhcomp.so
std::string mpi_device_memory(std::string const& library);

/// Of UCX with the settings of hcomp::ucx.
/// @param library  libucp's name or path
std::string ucx_device_memory(std::string const& library);

}  // namespace hcomp::info
