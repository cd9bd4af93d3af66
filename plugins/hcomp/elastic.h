/// @file
/// hcomp without MPI, for ranks of which some may be lost and others come: sums go on by themselves.
///
///     hcomp_elastic* group;
///     hcomp_plan* plan;
///     hcomp_elastic_create("/shared/run-17", rank, size, 30000, &group);
///     hcomp_plan_create_elastic(group, values, HCOMP_FLOAT, "thc:bits=4", &sum);
///     hcomp_all_reduce(sum, gradient, &report);  // the same on all who are left: report.weight of them
///     hcomp_elastic_now(group, &now);            // who is left: now.size, now.rank, now.lost
///
/// Link libhcomp_ucx.so. Ranks find each other by files in a directory that all see, on one host or on a
/// file system with atomic links and locks (NFS 4). Every run needs a directory of its own.
#ifndef HCOMP_ELASTIC_H
#define HCOMP_ELASTIC_H

#include <hcomp/group.h>
#include <hcomp/plan.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A group that goes on without those who are lost. Used by one thread at a time, with its sums.
///
/// Collective calls, and those of its sums, are made in the same order on all ranks. A rank is lost when it
/// ends, or when the others have waited for it as long as the timeout. Its own calls then return
/// HCOMP_TRANSPORT, the others' HCOMP_OK. After HCOMP_TRANSPORT or HCOMP_DAMAGED a group can only be freed.
typedef struct hcomp_elastic hcomp_elastic;

/// Who is there.
typedef struct hcomp_elastic_state {
  uint64_t generation;  ///< grows whenever somebody is lost or comes
  int name;             ///< of this rank; it stays
  int rank;             ///< 0 to size - 1 among those who are there; changes when others are lost
  int size;             ///< how many are there
  int lost;             ///< how many were lost since this rank is there
} hcomp_elastic_state;

/// All `size` ranks of a new job, whose names are 0 to size - 1. Collective.
///
/// @param directory    is made if it is not there
/// @param timeout_ms  how long others are waited for, longer than any computation between two calls;
///                     0: for ever
/// @param group        where to write it; NULL is written if the call fails
HCOMP_API int hcomp_elastic_create(char const* directory, int rank, int size, int timeout_ms,
                                   hcomp_elastic** group);
/// A newcomer to a job that goes on, with a new name: waits until its members call hcomp_elastic_admit.
/// Then it calls hcomp_elastic_share, as they do.
/// HCOMP_TRANSPORT if nobody admits it within the timeout.
HCOMP_API int hcomp_elastic_join(char const* directory, int timeout_ms, hcomp_elastic** group);
/// Frees it and writes NULL; nothing if it is NULL already. Collective: nobody is gone while others need its
/// results. Sums keep what they need of the group.
HCOMP_API int hcomp_elastic_free(hcomp_elastic** group);

/// Of the calls so far. Not collective, like the next two.
HCOMP_API int hcomp_elastic_now(hcomp_elastic const* group, hcomp_elastic_state* now);
/// Names of those who are there, by ranks.
/// @param names  room for `size` of hcomp_elastic_now
HCOMP_API int hcomp_elastic_members(hcomp_elastic const* group, int* names);
/// Names of those who were lost, the first one first.
/// @param names  room for `lost` of hcomp_elastic_now
HCOMP_API int hcomp_elastic_lost(hcomp_elastic const* group, int* names);

/// Lets those in who wait to join. Collective of the members, between two sums, such as every tenth step.
/// @param needed  1 on all ranks where somebody has come who needs the state: then all call
///                hcomp_elastic_share; otherwise 0
HCOMP_API int hcomp_elastic_admit(hcomp_elastic* group, int* needed);
/// Gives newcomers what a rank that was there before has in `state`, which stays as it is elsewhere.
/// Collective. Different `bytes` are HCOMP_INVALID_ARGUMENT on all ranks.
HCOMP_API int hcomp_elastic_share(hcomp_elastic* group, void* state, size_t bytes);
/// The same where newcomers do not know the size: they call it with NULL and 0, and get what some other one
/// has, whose sizes may differ.
/// @param mine   `bytes` bytes
/// @param state  where to write where the state is: a copy of mine, or what came, until the next call of this function or the
///               end of the group
HCOMP_API int hcomp_elastic_share_any(hcomp_elastic* group, void const* mine, size_t bytes,
                                      void const** state, size_t* state_bytes);
/// This rank needs the state by the next share, as a newcomer does: such as all but one at the start. Not
/// collective.
HCOMP_API int hcomp_elastic_forget(hcomp_elastic* group);

/// A sum over the group, for hcomp_all_reduce. Not collective, so that newcomers can make theirs; hcomp_plan_free
/// is not either. Sums that differ between ranks fail in their first call, on all of them.
///
/// A sum in which a rank is lost is made again by those who are left, of the values that they gave; or, where
/// some of them have its result already, the others get that. All who are left see the same bits, and
/// report.weight says of how many ranks. What encoding lost stays with each; newcomers have lost nothing.
/// Random numbers are drawn by the number of the call in the group: hcomp_plan_set_draws is not for such sums.
/// There are no parts: hcomp_reduce_scatter, hcomp_all_gather, hcomp_plan_shard and hcomp_plan_shard_alignment are
/// HCOMP_INVALID_ARGUMENT, and so is algorithm hierarchical. Memory: two more vectors.
/// @param type  HCOMP_FLOAT or HCOMP_DOUBLE
HCOMP_API int hcomp_plan_create_elastic(hcomp_elastic* group, size_t values, int type,
                                        char const* codec, hcomp_plan** plan);

#ifdef __cplusplus
}
#endif

#endif
