/// @file
/// Linked into every test that runs on MPICH: yields the core when nothing has arrived.
///
/// MPICH over UCX spins while it waits. With more ranks than cores, waiting ranks keep the rank
/// that they wait for from running: 8 ranks on 2 cores need 24 ms for a 256-byte all-reduce, 0.1 ms
/// with this. A definition in the program takes precedence over the library's own.

#include <dlfcn.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker) {
  using progress_function = unsigned (*)(void*);
  static auto const original =
      reinterpret_cast<progress_function>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  unsigned const events = original(worker);
  if (events == 0) sched_yield();
  return events;
}
