/// @file
/// hcomp without MPI: ranks connected by UCX, which the caller only introduces to each other.
///
///     hcomp_group* group;
///     hcomp_group_create(rank, size, exchange, context, 30000, 0, &group);
///     hcomp_group_all_reduce(group, gradient, values, HCOMP_FLOAT, /*mean=*/1, NULL);
///     hcomp_group_free(&group);
///
/// Link libhcomp_ucx.so. A dead or silent rank is an HCOMP_TRANSPORT with its number in the words, on
/// all others, within the time limit; the group can only be freed then. Groups of elastic.h go on.
#ifndef HCOMP_GROUP_H
#define HCOMP_GROUP_H

#include <hcomp/plan.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Ranks that are connected. Used by one thread at a time, with its sums.
typedef struct hcomp_group hcomp_group;

/// Types of values. Sums of integers wrap around.
enum hcomp_type {
  HCOMP_FLOAT = 0,
  HCOMP_DOUBLE = 1,
  HCOMP_FLOAT16 = 2,
  HCOMP_BFLOAT16 = 3,
  HCOMP_INT32 = 4,
  HCOMP_INT64 = 5
};

/// The caller's all-gather, by any means: sockets, files, a key-value store, MPI.
///
/// @param mine  `bytes` bytes of this rank, as many as of every other
/// @param all   where to write those of all ranks, in the order of the ranks
/// @return      0, or any other number if it failed
typedef int (*hcomp_exchange)(void* context, void const* mine, size_t bytes, void* all);

// Wrong arguments of one rank fail on all ranks, and the group can be used further; but a type or a
// number of values that cannot be ends it: HCOMP_INVALID_ARGUMENT there, HCOMP_DAMAGED with the same
// words on the others.

/// Connects ranks 0 to size - 1. Collective; `exchange` is called twice, and not afterwards.
///
/// Ranks of one user on one host, in one container and network namespace, share memory, in which sums in
/// full precision are made; it has no name and is gone with the last of them. Where there is none, all
/// goes by UCX.
///
/// @param timeout_ms  how long connecting, one message, and the end may take; 0: for ever
/// @param id          which ranks of a job these are, by any number: sums of groups with different
///                    ones draw different random numbers. Equal on all ranks; 0 for all of a job
/// @param group       where to write it; NULL is written if the call fails
HCOMP_API int hcomp_group_create(int rank, int size, hcomp_exchange exchange, void* context,
                                 int timeout_ms, uint64_t id, hcomp_group** group);
/// Frees it and writes NULL; nothing if it is NULL already. Collective. Sums over the group keep what
/// they need of it, and the last of all is what ends the connections.
HCOMP_API int hcomp_group_free(hcomp_group** group);

/// A sum over the group, as hcomp_plan_create makes it. Collective; hcomp_plan_free is not.
/// @param type  HCOMP_FLOAT or HCOMP_DOUBLE
HCOMP_API int hcomp_plan_create_group(hcomp_group* group, size_t values, int type,
                                      char const* codec, hcomp_plan** plan);

/// How hcomp_group_all_reduce and hcomp_group_reduce_scatter sum. Collective; equal on all ranks.
///
/// @param settings  rules as in HCOMP_CONFIG, such as "float: thc:bits=4 min=1MiB". Vectors that no
///                  rule concerns, and all halves are summed in full precision. NULL: no rules
HCOMP_API int hcomp_group_set(hcomp_group* group, char const* settings);

/// Sums x over all ranks, in place, or takes the mean: the same bits on all of them. Collective.
/// Integers have no mean.
///
/// With feedback, what is lost is added to the next vector at the same address of the same size.
/// Messages have no checksums but those of the network.
/// @param report  or NULL; bytes_sent counts messages, not what passes through memory
HCOMP_API int hcomp_group_all_reduce(hcomp_group* group, void* x, size_t values, int type, int mean,
                                     hcomp_report* report);
/// The same, but rank r gets only the sum of the r-th of `size` equal parts of x.
/// @param x     size times `values` values, which stay as they are
/// @param part  room for `values` values
HCOMP_API int hcomp_group_reduce_scatter(hcomp_group* group, void const* x, size_t values, int type,
                                         int mean, void* part, hcomp_report* report);
/// All ranks' bytes on every rank, in the order of the ranks, as they are. Collective.
/// @param mine   `bytes` bytes, which may be in their place in `all`
/// @param all    room for size times `bytes`
HCOMP_API int hcomp_group_all_gather(hcomp_group* group, void const* mine, size_t bytes, void* all);
/// Gives every rank the bytes that rank `root` has in x. Collective.
HCOMP_API int hcomp_group_broadcast(hcomp_group* group, void* x, size_t bytes, int root);

/// The same, started: see hcomp_all_reduce_start of plan.h. Of what a rule compresses, only vectors of up to
/// 1 MiB are summed with others at a time.
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
