#pragma once
/// @file
/// One private communicator for all handles of the same ranks.

#include <mpi.h>
#include <cstdint>
#include <hcomp/mpi/transport.hpp>
#include <memory>

namespace hcomp::drop_in {

/// Between the ranks of a communicator of the program.
struct numbered_transport {
  std::unique_ptr<mpi::transport> over;
  std::uint64_t handle;  ///< as of next_handle_number
};

/// A transport between the ranks of `comm`, over a private copy that all transports of the same
/// ranks in the same order share, each with tags of its own: MPICH has 2046 communicators per
/// process, and making one takes longer than a short sum. Collective, as a broadcast is. The copy
/// stays until MPI_Finalize. Where ranks are of another MPI_COMM_WORLD it is a copy that nobody
/// shares.
/// @throws transport_error  MPI cannot make the copy; on all ranks, whatever comm's error handler
/// Cost: a broadcast of 24 bytes and the time for a list of the ranks; for the first of its ranks,
/// MPI_Comm_create.
numbered_transport transport_over_shared_copy(MPI_Comm comm);

}  // namespace hcomp::drop_in
