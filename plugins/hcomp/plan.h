/// @file
/// What the C API does in the same way whoever moves the bytes: codes, reports, and sums.
///
/// A sum is made over an MPI communicator by hcomp.h, or without MPI over a group by group.h, or elastic.h.
#ifndef HCOMP_PLAN_H
#define HCOMP_PLAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HCOMP_API __attribute__((visibility("default")))
#else
#define HCOMP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// What every function below returns that returns an int. hcomp_last_error has the words.
enum hcomp_code {
  HCOMP_OK = 0,
  HCOMP_INVALID_ARGUMENT = 1,
  HCOMP_DISAGREEMENT = 2,  ///< ranks passed arguments that contradict each other
  HCOMP_NONFINITE = 3,     ///< NaN or infinity on some rank, which the codec cannot carry
  HCOMP_DAMAGED = 4,       ///< bytes came that are not what was sent
  HCOMP_TRANSPORT = 5,     ///< MPI or a rank failed; the sum can only be freed
  HCOMP_OTHER = 6,         ///< such as no memory
  HCOMP_NOT_RUNNING = 7    ///< MPI or the drop-in library is not there, or not any more
};

/// Sums of vectors of one size by one method over one communicator or group. Used by one thread at a
/// time.
typedef struct hcomp_plan hcomp_plan;

/// A call that was started and not waited for. Used by one thread at a time.
typedef struct hcomp_request hcomp_request;

/// What one call did on this rank.
typedef struct hcomp_report {
  uint64_t bytes_sent;   ///< headers included
  uint64_t weight;       ///< summands of the result: the number of ranks
  double seconds;        ///< all of the call
  double seconds_codec;  ///< of them encoding, merging and decoding
  double error;          ///< no value of the sum is off by more; 0 too where the codec has no bound
  double dominance;      ///< 1/16 to 1, near 1 where one value makes others noise; 0: not with it
} hcomp_report;

/// Sums x over all ranks, in place: the same bits on all of them. Collective.
///
/// The n-th call on a sum draws the same random numbers in every run; other sums draw others.
/// @param x       `values` values, in the host's memory or a CUDA device's. From there they are copied
///                to the host and back: after the work that the program gave to the device's default
///                stream; what other streams do to x must be done. On return every stream finds the
///                sum there
/// @param report  or NULL
/// Wrong arguments, x NULL among them, NaN and infinity fail on all ranks alike, and leave x as it
/// was.
HCOMP_API int hcomp_all_reduce(hcomp_plan* plan, void* x, hcomp_report* report);

/// The same, but each rank has only its part of the sum in x, see hcomp_plan_shard.
/// Not with algorithms recursive_doubling and owner.
HCOMP_API int hcomp_reduce_scatter(hcomp_plan* plan, void* x, hcomp_report* report);
/// Gives every rank all ranks' parts of x, encoded once. Otherwise as hcomp_reduce_scatter.
HCOMP_API int hcomp_all_gather(hcomp_plan* plan, void* x, hcomp_report* report);
/// Starts hcomp_all_reduce and returns: a thread of the library makes the sum meanwhile. Over a group of
/// hcomp_group_create only; otherwise an HCOMP_INVALID_ARGUMENT.
///
///     hcomp_request* request;
///     hcomp_all_reduce_start(sum, gradient, &request);
///     compute();
///     hcomp_wait(&request, NULL);
///
/// All ranks start the same calls in the same order, over one group among all of its sums. Up to 16 of
/// them are under way at a time: one sends while another one waits, which is for many short vectors over a
/// network with much latency. Calls of one sum follow each other; those that pass through memory of one
/// host, and those by algorithm hierarchical, are made alone. A call that is not started begins when all
/// that was started before is done; it is no match for one that another rank has started: then all ranks
/// get an error, on several hosts only when the time limit has passed. Settings and draws of the sum are those of the time of the start.
/// What is wrong with x, and what fails, hcomp_wait says.
/// @param x        untouched by the program until hcomp_wait has returned
/// @param request  where to write what hcomp_wait takes; NULL is written if it cannot be started
HCOMP_API int hcomp_all_reduce_start(hcomp_plan* plan, void* x, hcomp_request** request);
HCOMP_API int hcomp_reduce_scatter_start(hcomp_plan* plan, void* x, hcomp_request** request);
HCOMP_API int hcomp_all_gather_start(hcomp_plan* plan, void* x, hcomp_request** request);
/// Whether a call is done: hcomp_wait returns at once then. Waits up to so many milliseconds until it is.
/// @param done  where to write 1 or 0
HCOMP_API int hcomp_test(hcomp_request* request, int milliseconds, int* done);
/// Returns when the call is done, with what the call that is not started returns, and its words; frees the
/// request and writes NULL; nothing if it is NULL already. Not collective; in any order, also after the sum
/// and the group were freed, which wait for what was started.
/// @param report  or NULL
HCOMP_API int hcomp_wait(hcomp_request** request, hcomp_report* report);

/// This rank's part: `count` values from x[first] on.
HCOMP_API int hcomp_plan_shard(hcomp_plan const* plan, size_t* first, size_t* count);
/// All ranks' parts have as many values where this times the ranks divides `values`; 0 where they never
/// do. The same for a sum of 0 values.
HCOMP_API int hcomp_plan_shard_alignment(hcomp_plan const* plan, size_t* unit);

/// Whether all_reduce and reduce_scatter give the mean over the ranks, 1, or the sum, 0, which they
/// do at first. To be set alike on all ranks.
HCOMP_API int hcomp_plan_set_mean(hcomp_plan* plan, int mean);
/// How many values the vectors have.
HCOMP_API int hcomp_plan_values(hcomp_plan const* plan, size_t* values);

/// What this rank's encoding has lost and the next call adds, for a checkpoint: `values` values of the
/// sum's type; by algorithm hierarchical of the rank's share alone, the others are 0.
/// HCOMP_INVALID_ARGUMENT where the method has no feedback. Each rank has its own. In the host's memory.
HCOMP_API int hcomp_plan_get_residual(hcomp_plan const* plan, void* residual);
/// Puts another in its place.
HCOMP_API int hcomp_plan_set_residual(hcomp_plan* plan, void const* residual);
/// The next call draws the random numbers of step `step` of vector `vector`, the one after it those of
/// the next step; so that a run that goes on from a checkpoint draws what it would have drawn. To be set
/// alike on all ranks. Sums that were not given a vector have one by the order in which they were made.
HCOMP_API int hcomp_plan_set_draws(hcomp_plan* plan, uint64_t vector, uint64_t step);

/// Frees it and writes NULL; nothing if it is NULL already. Collective.
HCOMP_API int hcomp_plan_free(hcomp_plan** plan);

/// Words of the last call that failed in this thread; "" if none did. Valid until the next does.
HCOMP_API char const* hcomp_last_error(void);
/// The rank that the words of an HCOMP_TRANSPORT blame; -1: none, or another error.
HCOMP_API int hcomp_last_error_rank(void);
/// Of the library that is loaded. Any of them may be NULL.
HCOMP_API int hcomp_version(int* major, int* minor, int* patch);
/// What moves the bytes of the library's sums: "Open MPI 4.1.4", "MPICH 4.0.2", "UCX 1.13, no MPI".
HCOMP_API char const* hcomp_built_for(void);

/// For languages that know how long a vector is: one of another size or type is a wrong argument.
///
/// @param values       of x
/// @param value_bytes  of each, 4 or 8
HCOMP_API int hcomp_all_reduce_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                     hcomp_report* report);
HCOMP_API int hcomp_reduce_scatter_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                         hcomp_report* report);
HCOMP_API int hcomp_all_gather_sized(hcomp_plan* plan, void* x, size_t values, int value_bytes,
                                     hcomp_report* report);
HCOMP_API int hcomp_all_reduce_start_sized(hcomp_plan* plan, void* x, size_t values,
                                           int value_bytes, hcomp_request** request);
HCOMP_API int hcomp_reduce_scatter_start_sized(hcomp_plan* plan, void* x, size_t values,
                                               int value_bytes, hcomp_request** request);
HCOMP_API int hcomp_all_gather_start_sized(hcomp_plan* plan, void* x, size_t values,
                                           int value_bytes, hcomp_request** request);
HCOMP_API int hcomp_plan_get_residual_sized(hcomp_plan const* plan, void* residual, size_t values,
                                            int value_bytes);
HCOMP_API int hcomp_plan_set_residual_sized(hcomp_plan* plan, void const* residual, size_t values,
                                            int value_bytes);

#ifdef __cplusplus
}
#endif

#endif
