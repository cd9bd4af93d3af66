#pragma once
/// @file
/// Selects each all-reduce algorithm of an MPI library in turn, through its control variables.

#include <mpi.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::test {

/// Sets an int control variable of the MPI library on this rank; false if the library has none of
/// that name.
inline bool set_control_variable(char const* name, int value) {
  int provided = 0, index = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);  // a lower level here would lower MPI's level
  bool const known = MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
  if (known) {
    MPI_T_cvar_handle handle;
    int count = 0;
    MPI_Comm comm = MPI_COMM_WORLD;
    if (MPI_T_cvar_handle_alloc(index, &comm, &handle, &count) != MPI_SUCCESS)
      throw std::runtime_error(std::string("no handle for ") + name);
    int now = -1;
    if (MPI_T_cvar_write(handle, &value) != MPI_SUCCESS ||
        MPI_T_cvar_read(handle, &now) != MPI_SUCCESS || now != value)
      throw std::runtime_error(std::string("cannot set ") + name);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return known;
}

/// One all-reduce algorithm of the library; MPI_Allreduce on `comm` uses it.
struct forced_algorithm {
  std::string name;
  MPI_Comm comm;
};

/// Calls test(algorithm) for every all-reduce algorithm of Open MPI's coll/tuned; with other
/// libraries once, for "default" (MPICH always uses recursive doubling for user-defined
/// operations). Needs OMPI_MCA_coll_tuned_use_dynamic_rules=1 in the environment.
template <class F> void for_each_allreduce_algorithm(F const& test) {
  std::vector<std::string> names{"default"};
#ifdef OPEN_MPI
  names = {"default", "linear",         "reduce + bcast", "recursive recursive_doubling",
           "ring",    "segmented ring", "Rabenseifner"};
#endif
  for (std::size_t i = 0; i < names.size(); ++i) {
#ifdef OPEN_MPI
    if (!set_control_variable("coll_tuned_allreduce_algorithm", static_cast<int>(i)))
      throw std::runtime_error("Open MPI without coll_tuned_allreduce_algorithm");
#endif
    MPI_Comm comm;  // a communicator keeps the algorithm that was set when it was created
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    test(forced_algorithm{names[i], comm});
    MPI_Comm_free(&comm);
  }
#ifdef OPEN_MPI
  set_control_variable("coll_tuned_allreduce_algorithm", 0);
#endif
}

}  // namespace hcomp::test
