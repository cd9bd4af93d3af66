#pragma once
/// @file
/// MPI's return codes as exceptions, and the few questions every part of the plug-in asks.

#include <mpi.h>
#include <hcomp/core/error.hpp>
#include <string>

namespace hcomp::mpi {

/// MPI's own text for an error code.
inline std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    return "MPI error " + std::to_string(code);
  return std::string(text, static_cast<std::size_t>(length));
}

/// @throws transport_error  `code` is not MPI_SUCCESS; only if the communicator returns errors
inline void require(int code, std::string const& what, int peer = -1) {
  if (code != MPI_SUCCESS) throw transport_error(peer, "mpi: " + what + ": " + error_text(code));
}

/// True between MPI_Init and MPI_Finalize: handles may be freed.
inline bool is_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

inline int rank_of(MPI_Comm comm) {
  int rank = 0;
  require(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}
inline int size_of(MPI_Comm comm) {
  int size = 0;
  require(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace hcomp::mpi
