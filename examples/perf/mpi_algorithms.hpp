#pragma once
/// @file
/// The all-reduce algorithms of the MPI library itself, chosen one by one.

#include <mpi.h>

#include <string>
#include <vector>

namespace perf {

/// "Open MPI 4.1.4", "MPICH 4.0.2", or the first line of what the library says.
std::string mpi_library();

/// Lets this process choose among the library's algorithms later. Before MPI_Init.
void allow_mpi_algorithms();

/// The names of those that can be chosen; empty for an MPI library that is not known.
std::vector<std::string> mpi_algorithms();

/// A communicator on which MPI_Allreduce takes one algorithm.
class chosen_algorithm {
 public:
  /// Collective over `comm`.
  /// @param name  one of mpi_algorithms(); empty: the library's own choice
  /// @throws std::runtime_error  no such algorithm, or the library does not let it be chosen
  chosen_algorithm(MPI_Comm comm, std::string const& name);
  chosen_algorithm(chosen_algorithm const&) = delete;
  chosen_algorithm& operator=(chosen_algorithm const&) = delete;
  ~chosen_algorithm() { MPI_Comm_free(&comm_); }

  /// Before every MPI_Allreduce on comm(), on all ranks.
  void select() const;
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int number_ = 0;
};

}  // namespace perf
