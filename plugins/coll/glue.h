/// @file
/// Functions of libhcomp.so for the Open MPI component, in C.
///
/// Open MPI's own headers are C. The library exports C++ to its other front ends.
#ifndef HCOMP_COLL_GLUE_H
#define HCOMP_COLL_GLUE_H

#include <mpi.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A reduction as the component received it.
struct hcomp_coll_call {
  char const* function;  ///< "MPI_Allreduce"
  void const* caller;    ///< return address, inside MPI
  void const* send;
  void* receive;
  int count;  ///< length of the vector
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
};

/// True if libhcomp_pmpi.so is loaded and already takes over calls.
bool hcomp_coll_is_interposed(void);
/// After MPI_Init; collective over MPI_COMM_WORLD.
void hcomp_coll_start(void);

/// True for calls that are too short for any rule.
bool hcomp_coll_is_small(int count);
/// True if nothing is taken over.
bool hcomp_coll_is_off(void);

// Each function returns true if it ran the call; `code` is then the return value. Otherwise it did
// nothing. The caller of the component handles errors.

bool hcomp_coll_all_reduce(struct hcomp_coll_call const* call, int* code);
bool hcomp_coll_reduce(struct hcomp_coll_call const* call, int root, int* code);
bool hcomp_coll_reduce_scatter(struct hcomp_coll_call const* call, int const* counts, int* code);
bool hcomp_coll_reduce_scatter_block(struct hcomp_coll_call const* call, int count, int* code);
bool hcomp_coll_iall_reduce(struct hcomp_coll_call const* call, MPI_Request* request, int* code);
bool hcomp_coll_all_reduce_init(struct hcomp_coll_call const* call, MPI_Request* request,
                                int* code);
/// Called after the request was started, and before it is freed.
void hcomp_coll_started(MPI_Request request);
void hcomp_coll_request_freed(MPI_Request request);

enum hcomp_coll_counter {
  HCOMP_COLL_CALLS_TAKEN,
  HCOMP_COLL_CALLS_LEFT,
  HCOMP_COLL_BYTES_PLAIN,
  HCOMP_COLL_BYTES_SENT,
  HCOMP_COLL_TOTALS
};
/// A total of this rank since the start.
unsigned long long hcomp_coll_total(enum hcomp_coll_counter which);

#ifdef __cplusplus
}
#endif

#endif
