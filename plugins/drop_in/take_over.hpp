#pragma once
/// @file
/// Decides which collectives of the program hcomp does, and does them: what libhcomp.so has for
/// everything that stands between a program and MPI.

#include <mpi.h>
#include <atomic>
#include <cstdint>

/// In the shared library's list of names. Nothing is thrown through these functions, and they take
/// no type of the C++ library: every shared library has its own.
#define HCOMP_SHARED __attribute__((visibility("default")))

namespace hcomp::drop_in {

/// Calls with fewer values are nobody's concern here: asked first in every interposed function.
HCOMP_SHARED extern std::atomic<int> least_count;

/// What was done so far, on this rank. Smaller calls than least_count are not in it.
struct totals {
  std::atomic<std::uint64_t> calls_taken{0};
  std::atomic<std::uint64_t> calls_left{0};   ///< to MPI
  std::atomic<std::uint64_t> bytes_plain{0};  ///< as site_figures, of the calls taken
  std::atomic<std::uint64_t> bytes_sent{0};
};
HCOMP_SHARED extern totals so_far;

/// Before MPI_Init: ends the process with a text where the code at `caller`, which calls it, was
/// linked with an MPI of another kind than this library, which would end in a crash.
HCOMP_SHARED void require_own_mpi(void const* caller) noexcept;
/// Before MPI_Init_thread: the level to ask for, at least `asked`.
HCOMP_SHARED int thread_level(int asked) noexcept;
/// True if that was called: MPI's functions are interposed.
HCOMP_SHARED bool is_interposed() noexcept;
/// After MPI_Init: reads HCOMP_CONFIG, HCOMP_SHADOW and HCOMP_REPORT. Collective over
/// MPI_COMM_WORLD. Ranks that cannot understand their settings, or have others than rank 0, or do
/// not have the library, end the job with a text that says so. Does nothing the second time.
HCOMP_SHARED void start() noexcept;
/// Before MPI_Finalize: finishes what is under way, and reports. Collective over MPI_COMM_WORLD.
/// Not called, MPI_Finalize does it by an attribute of MPI_COMM_SELF; but MPICH 4.0 no longer locks
/// then, and a thread that was in MPI_Comm_free would never unlock.
HCOMP_SHARED void stop() noexcept;
/// Whether calls are noted one by one, with the place in the program that they come from.
HCOMP_SHARED bool reports() noexcept;

/// A reduction that the program asks for, as MPI got it.
struct reduction_call {
  char const* function;  ///< "MPI_Allreduce"
  void const* caller;    ///< address in the program's code
  void const* send;      ///< may be MPI_IN_PLACE
  void* receive;
  int count;  ///< of the vector that is summed
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
  bool raises = true;     ///< errors go to the communicator's error handler; else only to `code`
  bool scatters = false;  ///< every rank gets a part of the sum
  bool receives = true;   ///< false: `receive` means nothing here, as where a reduce has no root
  int root = 0;           ///< of a reduce
};

// Each is true if it has done the call, and then `code` is what MPI returns; otherwise nothing has
// happened, and it is MPI's to do. All ranks decide alike. Errors are reported by the
// communicator's error handler, as MPI's own are. What a sum here asks of MPI is never taken over.

HCOMP_SHARED bool all_reduce(reduction_call const& call, int& code) noexcept;
HCOMP_SHARED bool reduce(reduction_call const& call, int root, int& code) noexcept;
/// @param counts  values per rank
HCOMP_SHARED bool reduce_scatter(reduction_call const& call, int const* counts, int& code) noexcept;
/// @param count  values of every rank; call.count is that of all
HCOMP_SHARED bool reduce_scatter_block(reduction_call const& call, int count, int& code) noexcept;
HCOMP_SHARED bool iall_reduce(reduction_call const& call, MPI_Request* request, int& code) noexcept;
/// A persistent request, which `start` has to be told of.
HCOMP_SHARED bool all_reduce_init(reduction_call const& call, MPI_Request* request,
                                  int& code) noexcept;

/// After MPI_Start of any request: begins the sum, if it is one of ours.
HCOMP_SHARED void started(MPI_Request request) noexcept;
/// Before MPI waits for a request: sleeps until it is done, if it is one of ours. A thread that
/// waits in MPI would take processor and lock from the one that does the sum; with MPICH for ever.
HCOMP_SHARED void wait_for(MPI_Request request) noexcept;
/// True if one of these is a sum under way.
HCOMP_SHARED bool is_under_way(MPI_Request const* requests, int count) noexcept;
/// Instead of MPI_Cancel of one that is_under_way: what MPI has for its own collectives, which nobody
/// may cancel. The sum goes on.
HCOMP_SHARED int refuse_to_cancel() noexcept;
/// Before MPI_Request_free of any request.
HCOMP_SHARED void request_freed(MPI_Request request) noexcept;

}  // namespace hcomp::drop_in
