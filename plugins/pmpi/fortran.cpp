/// @file
/// Open MPI's Fortran functions, which go past MPI's C functions. Those of MPICH call them.

#include <mpi.h>
#ifdef OPEN_MPI

#include <dlfcn.h>

#include <drop_in/take_over.hpp>
#include <limits>

#define HCOMP_INTERPOSED extern "C" __attribute__((visibility("default")))

// What Fortran programs pass for MPI_IN_PLACE, by the four ways to spell a Fortran name; not there
// in programs without Fortran.
extern "C" {
extern __attribute__((weak)) int mpi_fortran_in_place, mpi_fortran_in_place_,
    mpi_fortran_in_place__, MPI_FORTRAN_IN_PLACE;
}

namespace {

namespace drop_in = hcomp::drop_in;

/// The function that this one stands in front of.
template <class F> F* next(char const* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

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

/// Defines the function for mpif.h and `use mpi`, and the one for `use mpi_f08`.
#define HCOMP_FORTRAN(name, parameters, arguments, taken)               \
  HCOMP_INTERPOSED void name##_ parameters {                            \
    void const* const caller = __builtin_return_address(0);             \
    static_cast<void>(caller);                                          \
    int code = MPI_SUCCESS;                                             \
    static auto* const original = next<void parameters>(#name "_");     \
    if (!(taken)) return original arguments;                            \
    if (error) *error = code;                                           \
  }                                                                     \
  HCOMP_INTERPOSED void name##_f08_ parameters {                        \
    void const* const caller = __builtin_return_address(0);             \
    static_cast<void>(caller);                                          \
    int code = MPI_SUCCESS;                                             \
    static auto* const original = next<void parameters>(#name "_f08_"); \
    if (!(taken)) return original arguments;                            \
    if (error) *error = code;                                           \
  }

extern "C" int MPI_Init(int*, char***);
extern "C" int MPI_Init_thread(int*, char***, int, int*);

HCOMP_FORTRAN(mpi_init, (MPI_Fint * error), (error), (code = MPI_Init(nullptr, nullptr), true))
HCOMP_FORTRAN(mpi_init_thread, (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* error),
              (required, provided, error),
              (code = MPI_Init_thread(nullptr, nullptr, *required, provided), true))

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
