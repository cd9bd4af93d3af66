#pragma once
/// @file
/// Selection of the MPI library's all-reduce algorithm.

#include <mpi.h>

#include <string>
#include <vector>

namespace perf {

/// "Open MPI 4.1.4", "MPICH 4.0.2", or the first line of the library's version text.
std::string mpi_library();

/// Allows this process to select algorithms of the library later. Call it before MPI_Init.
void allow_mpi_algorithms();

/// Names of the selectable algorithms; empty for an unknown MPI library.
std::vector<std::string> mpi_algorithms();

/// A communicator whose MPI_Allreduce uses one algorithm.
class chosen_algorithm {
 public:
  /// Collective over `comm`.
  /// @param name  one of mpi_algorithms(); empty: the library's own choice
  /// @throws std::runtime_error  no such algorithm, or the library does not allow its selection
  chosen_algorithm(MPI_Comm comm, std::string const& name);
  chosen_algorithm(chosen_algorithm const&) = delete;
  chosen_algorithm& operator=(chosen_algorithm const&) = delete;
  ~chosen_algorithm() { MPI_Comm_free(&comm_); }

  /// All ranks call it before every MPI_Allreduce on comm().
  void select() const;
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int number_ = 0;
};

}  // namespace perf
