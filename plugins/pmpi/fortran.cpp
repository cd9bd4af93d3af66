/// @file
/// Fortran functions that bypass MPI's C functions: all functions of Open MPI, and MPICH's mpi_f08
/// functions without a vector. All other Fortran functions call the C functions. The MPI 5 ABI does
/// not cover Fortran, so for it this file only refuses programs of other MPIs.

#include <mpi.h>

#include <dlfcn.h>

#include <chrono>
#include <drop_in/take_over.hpp>
#include <limits>
#include <thread>

#define HCOMP_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

namespace drop_in = hcomp::drop_in;

#if MPI_ABI_VERSION >= 1
using MPI_Fint = int;  // of the MPIs that are refused
#endif

/// The next function of this name in load order.
template <class F> F* next(char const* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

/// Defines a function. If `taken` is true, the call is done and `code` is its result. Otherwise
/// MPI's function runs, and then `after`.
#define HCOMP_FORTRAN_AS(symbol, parameters, arguments, taken, after) \
  HCOMP_INTERPOSED void symbol parameters {                           \
    void const* const caller = __builtin_return_address(0);           \
    static_cast<void>(caller);                                        \
    int code = MPI_SUCCESS;                                           \
    static auto* const original = next<void parameters>(#symbol);     \
    if (!(taken)) {                                                   \
      original arguments;                                             \
      after;                                                          \
    } else if (error) {                                               \
      *error = code;                                                  \
    }                                                                 \
  }
/// Defines the functions for mpif.h, `use mpi` and `use mpi_f08`.
#ifdef OPEN_MPI
#define HCOMP_FORTRAN_AND(name, parameters, arguments, taken, after) \
  HCOMP_FORTRAN_AS(name##_, parameters, arguments, taken, after)     \
  HCOMP_FORTRAN_AS(name##_f08_, parameters, arguments, taken, after)
#else
#define HCOMP_FORTRAN_AND(name, parameters, arguments, taken, after) \
  HCOMP_FORTRAN_AS(name##_f08_, parameters, arguments, taken, after)
#endif
#define HCOMP_FORTRAN(name, parameters, arguments, taken) \
  HCOMP_FORTRAN_AND(name, parameters, arguments, taken, )

#ifndef OPEN_MPI
// MPICH's Fortran functions call the C functions; Open MPI's would bypass them.
HCOMP_FORTRAN_AS(mpi_init_, (MPI_Fint * error), (error),
                 (drop_in::require_own_mpi(caller), false), )
HCOMP_FORTRAN_AS(mpi_init_thread_, (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* error),
                 (required, provided, error), (drop_in::require_own_mpi(caller), false), )
#endif

#if MPI_ABI_VERSION >= 1
HCOMP_FORTRAN(mpi_init, (MPI_Fint * error), (error), (drop_in::require_own_mpi(caller), false))
HCOMP_FORTRAN(mpi_init_thread, (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* error),
              (required, provided, error), (drop_in::require_own_mpi(caller), false))
#else

extern "C" int MPI_Init(int*, char***);
extern "C" int MPI_Init_thread(int*, char***, int, int*);

HCOMP_FORTRAN(mpi_init, (MPI_Fint * error), (error),
              (drop_in::require_own_mpi(caller), code = MPI_Init(nullptr, nullptr), true))
HCOMP_FORTRAN(mpi_init_thread, (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* error),
              (required, provided, error),
              (drop_in::require_own_mpi(caller),
               code = MPI_Init_thread(nullptr, nullptr, *required, provided), true))

HCOMP_FORTRAN(mpi_finalize, (MPI_Fint * error), (error), (drop_in::stop(), false))

// ---- Requests -----------------------------------------------------------------------------------

namespace {

bool is_under_way(MPI_Fint const* requests, MPI_Fint count) {
  for (MPI_Fint i = 0; i < count; ++i) {
    MPI_Request const one = PMPI_Request_f2c(requests[i]);
    if (drop_in::is_under_way(&one, 1)) return true;
  }
  return false;
}
void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

HCOMP_FORTRAN(mpi_wait, (MPI_Fint * request, MPI_Fint* status, MPI_Fint* error),
              (request, status, error), (drop_in::wait_for(PMPI_Request_f2c(*request)), false))

namespace {

bool wait_for_all(MPI_Fint const* requests, MPI_Fint count) {
  for (MPI_Fint i = 0; i < count; ++i) drop_in::wait_for(PMPI_Request_f2c(requests[i]));
  return false;
}

/// mpi_testany and mpi_testsome.
using test_function = void(MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
#ifdef OPEN_MPI  // its mpi_f08 functions forward all arguments
constexpr char const *testany = "mpi_testany_", *testsome = "mpi_testsome_";
#else
constexpr char const *testany = "mpi_testany_f08_", *testsome = "mpi_testsome_f08_";
#endif

/// True if a request is done and the program has been informed.
bool wait_for_any(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* index, MPI_Fint* status,
                  int& code) {
  static auto* const test = next<test_function>(testany);
  while (is_under_way(requests, *count)) {
    MPI_Fint done = 0;
    test(count, requests, index, &done, status, &code);
    if (code != MPI_SUCCESS || done) return true;
    nap();
  }
  return false;
}
bool wait_for_some(MPI_Fint* count, MPI_Fint* requests, MPI_Fint* done, MPI_Fint* indices,
                   MPI_Fint* statuses, int& code) {
  static auto* const test = next<test_function>(testsome);
  while (is_under_way(requests, *count)) {
    test(count, requests, done, indices, statuses, &code);
    if (code != MPI_SUCCESS || *done != 0) return true;
    nap();
  }
  return false;
}

}  // namespace

HCOMP_FORTRAN(mpi_waitall,
              (MPI_Fint * count, MPI_Fint* requests, MPI_Fint* statuses, MPI_Fint* error),
              (count, requests, statuses, error), wait_for_all(requests, *count))
HCOMP_FORTRAN(mpi_waitany,
              (MPI_Fint * count, MPI_Fint* requests, MPI_Fint* index, MPI_Fint* status,
               MPI_Fint* error),
              (count, requests, index, status, error),
              wait_for_any(count, requests, index, status, code))
HCOMP_FORTRAN(mpi_waitsome,
              (MPI_Fint * count, MPI_Fint* requests, MPI_Fint* done, MPI_Fint* indices,
               MPI_Fint* statuses, MPI_Fint* error),
              (count, requests, done, indices, statuses, error),
              wait_for_some(count, requests, done, indices, statuses, code))
HCOMP_FORTRAN_AND(mpi_start, (MPI_Fint * request, MPI_Fint* error), (request, error), false,
                  drop_in::started(PMPI_Request_f2c(*request)))
HCOMP_FORTRAN_AND(mpi_startall, (MPI_Fint * count, MPI_Fint* requests, MPI_Fint* error),
                  (count, requests, error), false,
                  for (MPI_Fint i = 0; i < *count; ++i)
                      drop_in::started(PMPI_Request_f2c(requests[i])))
HCOMP_FORTRAN(mpi_cancel, (MPI_Fint * request, MPI_Fint* error), (request, error),
              (is_under_way(request, 1) && (code = drop_in::refuse_to_cancel(), true)))
HCOMP_FORTRAN(mpi_request_free, (MPI_Fint * request, MPI_Fint* error), (request, error),
              (drop_in::request_freed(PMPI_Request_f2c(*request)), false))

// ---- Reductions ---------------------------------------------------------------------------------

#ifdef OPEN_MPI

// Addresses that Fortran programs pass for MPI_IN_PLACE, for the four name manglings. Missing in
// programs without Fortran.
extern "C" {
extern __attribute__((weak)) int mpi_fortran_in_place, mpi_fortran_in_place_,
    mpi_fortran_in_place__, MPI_FORTRAN_IN_PLACE;
}

namespace {

void const* in_c(void const* buffer) {
  for (int const* place : {&mpi_fortran_in_place, &mpi_fortran_in_place_, &mpi_fortran_in_place__,
                           &MPI_FORTRAN_IN_PLACE})
    if (buffer == place && place) return MPI_IN_PLACE;
  return buffer;
}

bool is_small(MPI_Fint count) {
  return count < drop_in::least_count.load(std::memory_order_relaxed);
}
bool is_off() {
  return drop_in::least_count.load(std::memory_order_relaxed) == std::numeric_limits<int>::max();
}

drop_in::reduction_call call_of(char const* function, void const* caller, void const* send,
                                void* receive, MPI_Fint count, MPI_Fint type, MPI_Fint op,
                                MPI_Fint comm) {
  return {
      function,           caller, in_c(send), receive, count, PMPI_Type_f2c(type), PMPI_Op_f2c(op),
      PMPI_Comm_f2c(comm)};
}

}  // namespace

HCOMP_FORTRAN(mpi_allreduce,
              (void* send, void* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
               MPI_Fint* comm, MPI_Fint* error),
              (send, receive, count, type, op, comm, error),
              !is_small(*count) && drop_in::all_reduce(call_of("MPI_Allreduce", caller, send,
                                                               receive, *count, *type, *op, *comm),
                                                       code))

namespace {

bool begin(drop_in::reduction_call const& call, MPI_Fint* request, int& code) {
  MPI_Request made = MPI_REQUEST_NULL;
  if (!drop_in::iall_reduce(call, &made, code)) return false;
  *request = PMPI_Request_c2f(made);
  return true;
}

}  // namespace

HCOMP_FORTRAN(mpi_iallreduce,
              (void* send, void* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
               MPI_Fint* comm, MPI_Fint* request, MPI_Fint* error),
              (send, receive, count, type, op, comm, request, error),
              !is_small(*count) &&
                  begin(call_of("MPI_Iallreduce", caller, send, receive, *count, *type, *op, *comm),
                        request, code))
HCOMP_FORTRAN(mpi_reduce,
              (void* send, void* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
               MPI_Fint* root, MPI_Fint* comm, MPI_Fint* error),
              (send, receive, count, type, op, root, comm, error),
              !is_small(*count) && drop_in::reduce(call_of("MPI_Reduce", caller, send, receive,
                                                           *count, *type, *op, *comm),
                                                   *root, code))
HCOMP_FORTRAN(mpi_reduce_scatter,
              (void* send, void* receive, MPI_Fint* counts, MPI_Fint* type, MPI_Fint* op,
               MPI_Fint* comm, MPI_Fint* error),
              (send, receive, counts, type, op, comm, error),
              !is_off() && drop_in::reduce_scatter(call_of("MPI_Reduce_scatter", caller, send,
                                                           receive, 0, *type, *op, *comm),
                                                   counts, code))
HCOMP_FORTRAN(mpi_reduce_scatter_block,
              (void* send, void* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
               MPI_Fint* comm, MPI_Fint* error),
              (send, receive, count, type, op, comm, error),
              !is_off() &&
                  drop_in::reduce_scatter_block(call_of("MPI_Reduce_scatter_block", caller, send,
                                                        receive, 0, *type, *op, *comm),
                                                *count, code))

#endif  // OPEN_MPI
#endif  // MPI_ABI_VERSION
