#pragma once
/// @file
/// Whose a communicator is that a transport uses.

#include <mpi.h>
#include <memory>

namespace hcomp::mpi {

/// A communicator that nobody else uses.
struct private_comm {
  MPI_Comm handle;
};

/// The same, owned by others, too: it is there as long as this.
struct shared_comm {
  std::shared_ptr<MPI_Comm const> comm;
};

/// Two tags of a communicator, which nobody else uses: `first` for messages, all of tag 0, and the
/// next for how they end.
struct private_tags {
  std::shared_ptr<MPI_Comm const> comm;  ///< which returns errors, and is there as long as this
  int first;
};

}  // namespace hcomp::mpi
