/// @file
/// Preloaded into MPICH programs in a lab, so that MPI_Finalize returns over TCP.
///
/// MPICH 4.0 closes its connections in MPI_Finalize one by one and waits for each. UCX over TCP
/// answers only while the peer still makes progress. The first rank to finish leaves the other
/// ranks waiting forever. After a barrier no message is in flight, so the connections can end with
/// the processes.

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

/// @return null, UCX's value for "done", instead of a request to wait for
extern "C" void* ucp_disconnect_nb(void* endpoint) {
  using disconnect_function = void* (*)(void*);
  static auto const original =
      reinterpret_cast<disconnect_function>(dlsym(RTLD_NEXT, "ucp_disconnect_nb"));
  return finalizing ? nullptr : original(endpoint);
}
