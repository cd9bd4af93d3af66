/// @file
/// Fault-tolerant all-reduce without MPI: ranks may fail and join while the job runs.
///
///     hcomp_elastic* group;
///     hcomp_plan* plan;
///     hcomp_elastic_create("/shared/run-17", rank, size, 30000, &group);
///     hcomp_plan_create_elastic(group, values, HCOMP_FLOAT, "thc:bits=4", &plan);
///     hcomp_all_reduce(plan, gradient, &report);  // the same bits on all remaining ranks
///     hcomp_elastic_now(group, &now);             // now.size, now.rank, now.lost
///
/// report.weight is the number of ranks in the result.
///
/// Link libhcomp_ucx.so. Ranks find each other through files in a shared directory: on one node, or
/// on a file system with atomic links and locks (NFS 4). Every run needs its own directory.
#ifndef HCOMP_ELASTIC_H
#define HCOMP_ELASTIC_H

#include <hcomp/group.h>
#include <hcomp/plan.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A group that continues after a rank fails. One thread at a time may use it and its plans.
///
/// All ranks make collective calls on the group and its plans in the same order. A rank has failed
/// when its process ends, or when other ranks have waited for it for the timeout. Calls of the
/// failed rank then return HCOMP_TRANSPORT; calls of the remaining ranks return HCOMP_OK. After
/// HCOMP_TRANSPORT or HCOMP_DAMAGED a group can only be freed.
typedef struct hcomp_elastic hcomp_elastic;

/// The current members of a group.
typedef struct hcomp_elastic_state {
  uint64_t generation;  ///< grows whenever a rank fails or joins
  int name;             ///< of this rank; never changes
  int rank;             ///< 0 to size - 1; may change when a rank fails
  int size;             ///< number of members
  int lost;             ///< number of ranks that failed since this rank joined
} hcomp_elastic_state;

/// Creates a group of `size` ranks for a new job; their names are 0 to size - 1. Collective.
///
/// Ranks that fail meanwhile are lost, and the remaining ranks continue. HCOMP_TRANSPORT on all
/// ranks if one does not arrive within the timeout, or if they cannot connect; a new attempt needs
/// a new directory. HCOMP_TRANSPORT in any call if somebody changes the directory.
/// @param directory   is created if it does not exist
/// @param timeout_ms  how long a rank waits for another rank; choose it longer than any computation
///                    between two calls; 0: for ever
/// @param group       receives the group; receives NULL if the call fails
HCOMP_API int hcomp_elastic_create(char const* directory, int rank, int size, int timeout_ms,
                                   hcomp_elastic** group);
/// Joins a running job under a new name. Returns when the members call hcomp_elastic_admit.
/// Afterwards all ranks call hcomp_elastic_share. HCOMP_TRANSPORT if no member admits this rank
/// within the timeout.
HCOMP_API int hcomp_elastic_join(char const* directory, int timeout_ms, hcomp_elastic** group);
/// Frees the group and writes NULL; does nothing if it is already NULL. Collective: no rank leaves
/// while another rank needs its results. Plans stay valid: they share ownership of the group's
/// resources.
HCOMP_API int hcomp_elastic_free(hcomp_elastic** group);

/// Gives the members as of the last call on the group. Not collective.
HCOMP_API int hcomp_elastic_now(hcomp_elastic const* group, hcomp_elastic_state* now);
/// Gives the members' names, in rank order. Not collective.
/// @param names  space for `size` names, see hcomp_elastic_now
HCOMP_API int hcomp_elastic_members(hcomp_elastic const* group, int* names);
/// Gives the names of failed ranks, in order of failure. Not collective.
/// @param names  space for `lost` names, see hcomp_elastic_now
HCOMP_API int hcomp_elastic_lost(hcomp_elastic const* group, int* names);

/// Admits the ranks that wait in hcomp_elastic_join. Collective over the members; call it between
/// two all-reduces, for example every tenth step.
/// @param needed  1 on all ranks if an admitted rank needs the state: then all ranks call
///                hcomp_elastic_share; otherwise 0
HCOMP_API int hcomp_elastic_admit(hcomp_elastic* group, int* needed);
/// Copies `state` of one rank that has it to every rank that needs it. It is unchanged on other
/// ranks. Collective. Different `bytes` return HCOMP_INVALID_ARGUMENT on all ranks.
HCOMP_API int hcomp_elastic_share(hcomp_elastic* group, void* state, size_t bytes);
/// As hcomp_elastic_share, for joining ranks that do not know the size: they pass NULL and 0. They
/// receive the state of one rank that has it. Sizes may differ between ranks.
/// @param mine   `bytes` bytes
/// @param state  receives a pointer to a copy of `mine`, or to the received state; valid until the
///               next call of this function or the end of the group
HCOMP_API int hcomp_elastic_share_any(hcomp_elastic* group, void const* mine, size_t bytes,
                                      void const** state, size_t* state_bytes);
/// Marks this rank as one that needs the state in the next share, as a joining rank does. At the
/// start of a job, all ranks but one may call it. Not collective.
HCOMP_API int hcomp_elastic_forget(hcomp_elastic* group);

/// Creates a plan for hcomp_all_reduce over the group. Not collective, so that joining ranks can
/// create theirs; hcomp_plan_free is not collective either. If plans differ between ranks, their
/// first call fails on all ranks.
///
/// If a rank fails during an all-reduce, the remaining ranks repeat the call on their own inputs.
/// If some ranks already have its result, the other ranks receive that result. All remaining ranks
/// see the same bits; report.weight is the number of ranks in the result. Each rank keeps its own
/// residual; a joining rank starts with residual 0. The key of random draws is the number of the
/// call in the group, so hcomp_plan_set_draws does not apply.
///
/// No shards: hcomp_reduce_scatter, hcomp_all_gather, hcomp_plan_shard and
/// hcomp_plan_shard_alignment return HCOMP_INVALID_ARGUMENT; so does algorithm hierarchical.
/// Memory: two additional vectors.
/// @param type  HCOMP_FLOAT or HCOMP_DOUBLE
HCOMP_API int hcomp_plan_create_elastic(hcomp_elastic* group, size_t values, int type,
                                        char const* codec, hcomp_plan** plan);

#ifdef __cplusplus
}
#endif

#endif
