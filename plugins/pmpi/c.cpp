/// @file
/// MPI functions that replace MPI's own when this library is preloaded or linked first. They
/// forward all calls that hcomp does not take over.

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <chrono>
#include <drop_in/take_over.hpp>
#include <limits>
#include <thread>
#include <vector>

#define HCOMP_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

namespace drop_in = hcomp::drop_in;

/// True if no rule concerns so short a vector. This check comes first and is usually the only one.
bool is_small(MPI_Count count) {
  return count < drop_in::least_count.load(std::memory_order_relaxed);
}
/// True if nothing is taken over. For functions in which `count` is only a part of the vector.
bool is_off() {
  return drop_in::least_count.load(std::memory_order_relaxed) == std::numeric_limits<int>::max();
}

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

int start(int code) {
  if (code == MPI_SUCCESS) drop_in::start();
  return code;
}

}  // namespace

#define HCOMP_CALL(count) \
  { __func__, __builtin_return_address(0), send, receive, count, type, op, comm }

HCOMP_INTERPOSED int MPI_Init(int* argc, char*** argv) {
  drop_in::require_own_mpi(__builtin_return_address(0));
  int const level = drop_in::thread_level(MPI_THREAD_SINGLE);
  int provided = 0;
  return start(level > MPI_THREAD_SINGLE ? PMPI_Init_thread(argc, argv, level, &provided)
                                         : PMPI_Init(argc, argv));
}
HCOMP_INTERPOSED int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  drop_in::require_own_mpi(__builtin_return_address(0));
  return start(PMPI_Init_thread(argc, argv, drop_in::thread_level(required), provided));
}

HCOMP_INTERPOSED int MPI_Finalize() {
  drop_in::stop();
  return PMPI_Finalize();
}

HCOMP_INTERPOSED int MPI_Allreduce(void const* send, void* receive, int count, MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_small(count) && drop_in::all_reduce(HCOMP_CALL(count), code)) return code;
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
HCOMP_INTERPOSED int MPI_Iallreduce(void const* send, void* receive, int count, MPI_Datatype type,
                                    MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  int code = 0;
  if (!is_small(count) && drop_in::iall_reduce(HCOMP_CALL(count), request, code)) return code;
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}
HCOMP_INTERPOSED int MPI_Reduce(void const* send, void* receive, int count, MPI_Datatype type,
                                MPI_Op op, int root, MPI_Comm comm) {
  int code = 0;
  if (!is_small(count) && drop_in::reduce(HCOMP_CALL(count), root, code)) return code;
  return PMPI_Reduce(send, receive, count, type, op, root, comm);
}
HCOMP_INTERPOSED int MPI_Reduce_scatter(void const* send, void* receive, int const* counts,
                                        MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_off() && drop_in::reduce_scatter(HCOMP_CALL(0), counts, code)) return code;
  return PMPI_Reduce_scatter(send, receive, counts, type, op, comm);
}
HCOMP_INTERPOSED int MPI_Reduce_scatter_block(void const* send, void* receive, int count,
                                              MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_off() && drop_in::reduce_scatter_block(HCOMP_CALL(0), count, code)) return code;
  return PMPI_Reduce_scatter_block(send, receive, count, type, op, comm);
}

// ---- Requests -----------------------------------------------------------------------------------

HCOMP_INTERPOSED int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  drop_in::wait_for(*request);
  return PMPI_Wait(request, status);
}
HCOMP_INTERPOSED int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  for (int i = 0; i < count; ++i) drop_in::wait_for(requests[i]);
  return PMPI_Waitall(count, requests, statuses);
}
HCOMP_INTERPOSED int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  while (drop_in::is_under_way(requests, count)) {
    int done = 0;
    int const code = PMPI_Testany(count, requests, index, &done, status);
    if (code != MPI_SUCCESS || done) return code;
    nap();
  }
  return PMPI_Waitany(count, requests, index, status);
}
HCOMP_INTERPOSED int MPI_Waitsome(int count, MPI_Request* requests, int* done, int* indices,
                                  MPI_Status* statuses) {
  while (drop_in::is_under_way(requests, count)) {
    int const code = PMPI_Testsome(count, requests, done, indices, statuses);
    if (code != MPI_SUCCESS || *done != 0) return code;
    nap();
  }
  return PMPI_Waitsome(count, requests, done, indices, statuses);
}

HCOMP_INTERPOSED int MPI_Cancel(MPI_Request* request) {
  if (drop_in::is_under_way(request, 1)) return drop_in::refuse_to_cancel();
  return PMPI_Cancel(request);
}

// ---- Persistent requests ------------------------------------------------------------------------

/// Defines MPI_Allreduce_init, or MPIX_Allreduce_init for `mpi` MPIX.
#define HCOMP_ALLREDUCE_INIT(mpi)                                                        \
  HCOMP_INTERPOSED int mpi##_Allreduce_init(void const* send, void* receive, int count,  \
                                            MPI_Datatype type, MPI_Op op, MPI_Comm comm, \
                                            MPI_Info info, MPI_Request* request) {       \
    int code = 0;                                                                        \
    if (!is_small(count) && drop_in::all_reduce_init(HCOMP_CALL(count), request, code))  \
      return code;                                                                       \
    return P##mpi##_Allreduce_init(send, receive, count, type, op, comm, info, request); \
  }
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
// Open MPI 4.1. A library built with it also runs with Open MPI 5, which has the name without X.
// Only one of the two functions exists.
#pragma weak PMPIX_Allreduce_init
extern "C" __attribute__((weak)) decltype(PMPIX_Allreduce_init) PMPI_Allreduce_init;
HCOMP_ALLREDUCE_INIT(MPIX)
HCOMP_ALLREDUCE_INIT(MPI)
#elif MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
HCOMP_ALLREDUCE_INIT(MPI)
#endif

HCOMP_INTERPOSED int MPI_Start(MPI_Request* request) {
  int const code = PMPI_Start(request);
  if (code == MPI_SUCCESS) drop_in::started(*request);
  return code;
}
HCOMP_INTERPOSED int MPI_Startall(int count, MPI_Request* requests) {
  int const code = PMPI_Startall(count, requests);
  for (int i = 0; code == MPI_SUCCESS && i < count; ++i) drop_in::started(requests[i]);
  return code;
}
HCOMP_INTERPOSED int MPI_Request_free(MPI_Request* request) {
  drop_in::request_freed(*request);
  return PMPI_Request_free(request);
}

// ---- Counts beyond int --------------------------------------------------------------------------

#if MPI_VERSION >= 4

namespace {

/// True if the count fits in an int, the type of our counts.
bool fits(MPI_Count count) { return 0 <= count && count <= std::numeric_limits<int>::max(); }

/// The counts of all ranks; empty if MPI has to check them or one does not fit.
std::vector<int> narrow(MPI_Count const* counts, MPI_Comm comm) {
  int ranks = 0;
  if (!counts || comm == MPI_COMM_NULL || PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS) return {};
  if (!std::all_of(counts, counts + ranks, fits)) return {};
  return {counts, counts + ranks};
}

}  // namespace

HCOMP_INTERPOSED int MPI_Allreduce_c(void const* send, void* receive, MPI_Count count,
                                     MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_small(count) && fits(count) &&
      drop_in::all_reduce(HCOMP_CALL(static_cast<int>(count)), code))
    return code;
  return PMPI_Allreduce_c(send, receive, count, type, op, comm);
}
HCOMP_INTERPOSED int MPI_Iallreduce_c(void const* send, void* receive, MPI_Count count,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                      MPI_Request* request) {
  int code = 0;
  if (!is_small(count) && fits(count) &&
      drop_in::iall_reduce(HCOMP_CALL(static_cast<int>(count)), request, code))
    return code;
  return PMPI_Iallreduce_c(send, receive, count, type, op, comm, request);
}
HCOMP_INTERPOSED int MPI_Reduce_c(void const* send, void* receive, MPI_Count count,
                                  MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  int code = 0;
  if (!is_small(count) && fits(count) &&
      drop_in::reduce(HCOMP_CALL(static_cast<int>(count)), root, code))
    return code;
  return PMPI_Reduce_c(send, receive, count, type, op, root, comm);
}
HCOMP_INTERPOSED int MPI_Reduce_scatter_c(void const* send, void* receive, MPI_Count const* counts,
                                          MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_off()) {
    auto const as_int = narrow(counts, comm);
    if (!as_int.empty() && drop_in::reduce_scatter(HCOMP_CALL(0), as_int.data(), code)) return code;
  }
  return PMPI_Reduce_scatter_c(send, receive, counts, type, op, comm);
}
HCOMP_INTERPOSED int MPI_Reduce_scatter_block_c(void const* send, void* receive, MPI_Count count,
                                                MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int code = 0;
  if (!is_off() && fits(count) &&
      drop_in::reduce_scatter_block(HCOMP_CALL(0), static_cast<int>(count), code))
    return code;
  return PMPI_Reduce_scatter_block_c(send, receive, count, type, op, comm);
}
HCOMP_INTERPOSED int MPI_Allreduce_init_c(void const* send, void* receive, MPI_Count count,
                                          MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                          MPI_Info info, MPI_Request* request) {
  int code = 0;
  if (!is_small(count) && fits(count) &&
      drop_in::all_reduce_init(HCOMP_CALL(static_cast<int>(count)), request, code))
    return code;
  return PMPI_Allreduce_init_c(send, receive, count, type, op, comm, info, request);
}

#endif
