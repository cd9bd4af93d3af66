/// @file
/// What the Open MPI component asks of libhcomp.so, for C.
///
/// Open MPI's own headers are C, and our library shows nothing but C++ to its kind.
#ifndef HCOMP_COLL_GLUE_H
#define HCOMP_COLL_GLUE_H

#include <mpi.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A reduction as the component got it.
struct hcomp_coll_call {
  char const* function;  ///< "MPI_Allreduce"
  void const* caller;    ///< the address it returns to, which is in MPI
  void const* send;
  void* receive;
  int count;  ///< of the vector that is summed
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
};

/// True if libhcomp_pmpi.so stands in front of MPI and takes what there is to take.
bool hcomp_coll_is_interposed(void);
/// After MPI_Init; collective over MPI_COMM_WORLD.
void hcomp_coll_start(void);

/// Calls with so few values are nobody's concern.
bool hcomp_coll_is_small(int count);
/// Nothing is taken over at all.
bool hcomp_coll_is_off(void);

// Each is true if it has done the call, and then `code` is what to return; otherwise nothing has
// happened. Errors are left to the one who calls the component.

bool hcomp_coll_all_reduce(struct hcomp_coll_call const* call, int* code);
bool hcomp_coll_reduce(struct hcomp_coll_call const* call, int root, int* code);
bool hcomp_coll_reduce_scatter(struct hcomp_coll_call const* call, int const* counts, int* code);
bool hcomp_coll_reduce_scatter_block(struct hcomp_coll_call const* call, int count, int* code);
bool hcomp_coll_iall_reduce(struct hcomp_coll_call const* call, MPI_Request* request, int* code);
bool hcomp_coll_all_reduce_init(struct hcomp_coll_call const* call, MPI_Request* request,
                                int* code);
/// After the request was started, and before it is freed.
void hcomp_coll_started(MPI_Request request);
void hcomp_coll_request_freed(MPI_Request request);

enum hcomp_coll_figure {
  HCOMP_COLL_CALLS_TAKEN,
  HCOMP_COLL_CALLS_LEFT,
  HCOMP_COLL_BYTES_PLAIN,
  HCOMP_COLL_BYTES_SENT,
  HCOMP_COLL_FIGURES
};
/// Of this rank, since the start.
unsigned long long hcomp_coll_total(enum hcomp_coll_figure which);

#ifdef __cplusplus
}
#endif

#endif
