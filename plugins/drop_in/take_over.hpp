#pragma once
/// @file
/// Interface of libhcomp.so to the interposed MPI functions: decides which collectives hcomp takes
/// over, and runs them.

#include <mpi.h>
#include <atomic>
#include <cstdint>

/// Exported symbol. These functions throw nothing and use no type of the C++ library, because every
/// shared library links its own.
#define HCOMP_SHARED __attribute__((visibility("default")))

namespace hcomp::drop_in {

/// Calls with fewer values are always left to MPI. Every interposed function checks this first.
HCOMP_SHARED extern std::atomic<int> least_count;

/// Totals of this rank. They exclude calls with fewer than least_count values.
struct totals {
  std::atomic<std::uint64_t> calls_taken{0};
  std::atomic<std::uint64_t> calls_left{0};   ///< left to MPI
  std::atomic<std::uint64_t> bytes_plain{0};  ///< as site_stats, of the calls taken
  std::atomic<std::uint64_t> bytes_sent{0};
};
HCOMP_SHARED extern totals so_far;

/// Before MPI_Init: ends the process with a message if the code at `caller` links another kind of
/// MPI than this library. Otherwise it would crash.
HCOMP_SHARED void require_own_mpi(void const* caller) noexcept;
/// Before MPI_Init_thread: the level to request, at least `asked`.
HCOMP_SHARED int thread_level(int asked) noexcept;
/// True after a call of thread_level: MPI's functions are interposed.
HCOMP_SHARED bool is_interposed() noexcept;
/// After MPI_Init: reads HCOMP_CONFIG, HCOMP_SHADOW and HCOMP_REPORT. Collective over
/// MPI_COMM_WORLD. Ends the job with a message if a rank has invalid settings, differs from rank 0,
/// or lacks the library. A second call does nothing.
HCOMP_SHARED void start() noexcept;
/// Before MPI_Finalize: completes started calls, and writes the report. Collective over
/// MPI_COMM_WORLD. MPI_Finalize calls it through an attribute of MPI_COMM_SELF if nothing else
/// does. That is too late for MPICH 4.0 with threads: it no longer locks then, and a thread in
/// MPI_Comm_free would never unlock.
HCOMP_SHARED void stop() noexcept;
/// True if the report lists calls with their place in the program.
HCOMP_SHARED bool reports() noexcept;

/// A reduction as the program passed it to MPI.
struct reduction_call {
  char const* function;  ///< "MPI_Allreduce"
  void const* caller;    ///< return address in the program
  void const* send;      ///< may be MPI_IN_PLACE
  void* receive;
  int count;  ///< length of the vector
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
  bool raises = true;     ///< call the communicator's error handler; else only set `code`
  bool scatters = false;  ///< reduce-scatter
  bool receives = true;   ///< false: ignore `receive`, as MPI does off a reduce's root
  int root = 0;           ///< of a reduce
};

// Each function returns true if it ran the call; `code` is then MPI's return code. It returns false
// if it did nothing and MPI has to run the call. All ranks decide alike. Errors go to the
// communicator's error handler, as MPI's errors do. MPI calls within these functions are never
// taken over.

HCOMP_SHARED bool all_reduce(reduction_call const& call, int& code) noexcept;
HCOMP_SHARED bool reduce(reduction_call const& call, int root, int& code) noexcept;
/// @param counts  values per rank
HCOMP_SHARED bool reduce_scatter(reduction_call const& call, int const* counts, int& code) noexcept;
/// @param count  values per rank; call.count is their total
HCOMP_SHARED bool reduce_scatter_block(reduction_call const& call, int count, int& code) noexcept;
HCOMP_SHARED bool iall_reduce(reduction_call const& call, MPI_Request* request, int& code) noexcept;
/// Creates a persistent request. `started` must be called when the program starts it.
HCOMP_SHARED bool all_reduce_init(reduction_call const& call, MPI_Request* request,
                                  int& code) noexcept;

/// After MPI_Start of any request: starts the reduction if the request belongs to hcomp.
HCOMP_SHARED void started(MPI_Request request) noexcept;
/// Before MPI waits for a request: sleeps until it is done if it belongs to hcomp. A thread that
/// waits inside MPI would take the processor and MPI's lock from the progress thread; with MPICH
/// this deadlocks.
HCOMP_SHARED void wait_for(MPI_Request request) noexcept;
/// True if one of these requests belongs to an unfinished call of hcomp.
HCOMP_SHARED bool is_under_way(MPI_Request const* requests, int count) noexcept;
/// Replaces MPI_Cancel of such a request. Returns MPI's error for collectives, which cannot be
/// cancelled. The call continues.
HCOMP_SHARED int refuse_to_cancel() noexcept;
/// Before MPI_Request_free of any request.
HCOMP_SHARED void request_freed(MPI_Request request) noexcept;

}  // namespace hcomp::drop_in
