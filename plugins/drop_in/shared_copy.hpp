#pragma once
/// @file
/// One private communicator for all handles of the same ranks.

#include <mpi.h>
#include <cstdint>
#include <hcomp/mpi/transport.hpp>
#include <memory>

namespace hcomp::drop_in {

/// A communicator of the same ranks without the attributes of `comm`, which returns errors.
/// Collective.
MPI_Comm copy_of(MPI_Comm comm);

/// A transport between the ranks of a communicator, and its handle number.
struct numbered_transport {
  std::unique_ptr<mpi::transport> over;
  std::uint64_t handle;  ///< as of next_handle_number
};

/// Creates a transport between the ranks of `comm`, over a private communicator with reserved tags.
/// All transports of the same ranks in the same order share this communicator until MPI_Finalize.
/// Reasons: MPICH supports 2046 communicators per process, and creating one takes longer than a
/// short all-reduce. If the ranks belong to different MPI_COMM_WORLDs, the copy is not shared.
///
/// Collective; waits like a broadcast.
/// @throws transport_error  MPI cannot create the copy; on all ranks, regardless of comm's error
///                          handler
/// Cost: a broadcast of 24 bytes and the time for a list of the ranks. The first transport of these
/// ranks also calls MPI_Comm_create.
numbered_transport transport_over_shared_copy(MPI_Comm comm);

}  // namespace hcomp::drop_in
