/// @file
/// All-reduce without MPI: UCX connects the ranks; the caller only exchanges their addresses.
///
///     hcomp_group* group;
///     hcomp_group_create(rank, size, exchange, context, 30000, 0, &group);
///     hcomp_group_all_reduce(group, gradient, values, HCOMP_FLOAT, /*mean=*/1, NULL);
///     hcomp_group_free(&group);
///
/// Link libhcomp_ucx.so. If a rank dies or does not answer, all other ranks get HCOMP_TRANSPORT
/// within the timeout; the error text names the failed rank. The group can only be freed then. For
/// groups that continue after a failure, see elastic.h.
#ifndef HCOMP_GROUP_H
#define HCOMP_GROUP_H

#include <hcomp/plan.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Connected ranks. One thread at a time may use a group and its plans.
typedef struct hcomp_group hcomp_group;

/// Types of values. Integer sums wrap around.
enum hcomp_type {
  HCOMP_FLOAT = 0,
  HCOMP_DOUBLE = 1,
  HCOMP_FLOAT16 = 2,
  HCOMP_BFLOAT16 = 3,
  HCOMP_INT32 = 4,
  HCOMP_INT64 = 5
};

/// An all-gather that the caller provides, by any means: sockets, files, a key-value store, MPI.
///
/// @param mine  `bytes` bytes of this rank; the size is equal on all ranks
/// @param all   receives the bytes of all ranks, in rank order
/// @return      0, or any other number on failure
typedef int (*hcomp_exchange)(void* context, void const* mine, size_t bytes, void* all);

// Invalid arguments of one rank fail on all ranks, and the group stays usable. Exception: an
// unknown type or an impossible number of values ends the group. That rank gets
// HCOMP_INVALID_ARGUMENT; all other ranks get HCOMP_DAMAGED with the same error text.

/// Connects ranks 0 to size - 1. Collective; calls `exchange` twice, and never after it returns.
///
/// Full-precision reductions use shared memory between ranks of one user on one node, in one
/// container and network namespace. The memory has no name and disappears with the last of these
/// ranks. Without shared memory, all data moves over UCX.
///
/// @param timeout_ms  timeout of connecting, of one message, and of closing; 0: none
/// @param id          any number that identifies this set of ranks of the job: groups with
///                    different ids draw different random numbers. Equal on all ranks; 0 for all
///                    ranks of a job
/// @param group       receives the group; receives NULL if the call fails
HCOMP_API int hcomp_group_create(int rank, int size, hcomp_exchange exchange, void* context,
                                 int timeout_ms, uint64_t id, hcomp_group** group);
/// Frees the group and writes NULL; does nothing if it is already NULL. Collective. Plans over the
/// group stay valid; freeing the last object ends the connections.
HCOMP_API int hcomp_group_free(hcomp_group** group);

/// Creates a plan over the group, as hcomp_plan_create does. Collective; hcomp_plan_free is not.
/// @param type  HCOMP_FLOAT or HCOMP_DOUBLE
HCOMP_API int hcomp_plan_create_group(hcomp_group* group, size_t values, int type,
                                      char const* codec, hcomp_plan** plan);

/// Selects codecs and algorithms for hcomp_group_all_reduce and hcomp_group_reduce_scatter.
/// Collective; equal on all ranks.
///
/// @param settings  rules as in HCOMP_CONFIG, for example "float: thc:bits=4 min=1MiB". Vectors
///                  that match no rule, and all 16-bit floats, are reduced in full precision. NULL:
///                  no rules
HCOMP_API int hcomp_group_set(hcomp_group* group, char const* settings);

/// Sums x over all ranks, in place, or takes the mean: the same bits on all ranks. Collective.
/// Integers have no mean.
///
/// With error feedback, the residual is added to the next vector with the same address and size.
/// Messages carry no checksums beyond those of the network.
/// @param x       in host memory; a buffer in device memory is HCOMP_INVALID_ARGUMENT, here and
///                below: plans take it
/// @param report  may be NULL; bytes_sent counts messages, not traffic through shared memory
HCOMP_API int hcomp_group_all_reduce(hcomp_group* group, void* x, size_t values, int type, int mean,
                                     hcomp_report* report);
/// Reduce-scatter: rank r receives only the r-th of `size` equal shards of the result. Otherwise as
/// hcomp_group_all_reduce.
/// @param x     size times `values` values; unchanged
/// @param part  space for `values` values
HCOMP_API int hcomp_group_reduce_scatter(hcomp_group* group, void const* x, size_t values, int type,
                                         int mean, void* part, hcomp_report* report);
/// All-gather of raw bytes, in rank order. Collective.
/// @param mine   `bytes` bytes; may be at their final position in `all`
/// @param all    space for size times `bytes` bytes
HCOMP_API int hcomp_group_all_gather(hcomp_group* group, void const* mine, size_t bytes, void* all);
/// Broadcasts x from rank `root` to all ranks. Collective.
HCOMP_API int hcomp_group_broadcast(hcomp_group* group, void* x, size_t bytes, int root);

/// Nonblocking variants: see hcomp_all_reduce_start in plan.h. Compressed calls run concurrently
/// only on vectors of up to 1 MiB.
HCOMP_API int hcomp_group_all_reduce_start(hcomp_group* group, void* x, size_t values, int type,
                                           int mean, hcomp_request** request);
HCOMP_API int hcomp_group_reduce_scatter_start(hcomp_group* group, void const* x, size_t values,
                                               int type, int mean, void* part,
                                               hcomp_request** request);
HCOMP_API int hcomp_group_all_gather_start(hcomp_group* group, void const* mine, size_t bytes,
                                           void* all, hcomp_request** request);
HCOMP_API int hcomp_group_broadcast_start(hcomp_group* group, void* x, size_t bytes, int root,
                                          hcomp_request** request);

#ifdef __cplusplus
}
#endif

#endif
