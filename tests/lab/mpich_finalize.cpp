/// @file
/// Preloaded into programs on MPICH in a lab: let MPI_Finalize end over TCP.
///
/// MPICH 4.0 closes its connections in MPI_Finalize one by one and waits for each, and UCX over TCP
/// answers only while the other side still asks for progress; the rank that is through first leaves
/// the others waiting for ever. Nothing is under way after a barrier, so the connections can just
/// as well end with the processes.

#include <dlfcn.h>
#include <mpi.h>

namespace {
bool finalizing = false;
}

extern "C" int MPI_Finalize() {
  PMPI_Barrier(MPI_COMM_WORLD);
  finalizing = true;
  return PMPI_Finalize();
}

/// @return null, which is UCX's word for "done", instead of a request to wait for
extern "C" void* ucp_disconnect_nb(void* endpoint) {
  using disconnect_function = void* (*)(void*);
  static auto const original =
      reinterpret_cast<disconnect_function>(dlsym(RTLD_NEXT, "ucp_disconnect_nb"));
  return finalizing ? nullptr : original(endpoint);
}
