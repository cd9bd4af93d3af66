#pragma once
/// @file
/// Ownership of the communicator of a transport.

#include <mpi.h>
#include <memory>

namespace hcomp::mpi {

/// A communicator used by its owner only.
struct private_comm {
  MPI_Comm handle;
};

/// A shared communicator, kept alive by this object.
struct shared_comm {
  std::shared_ptr<MPI_Comm const> comm;
};

/// Two tags of a communicator, reserved for one owner: `first` for messages, which must have tag 0,
/// and `first` + 1 for notices.
struct private_tags {
  std::shared_ptr<MPI_Comm const> comm;  ///< must return errors; kept alive by this object
  int first;
};

}  // namespace hcomp::mpi
