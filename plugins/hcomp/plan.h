/// @file
/// The plan of the C API: its calls, status codes and reports, the same for MPI and UCX.
///
/// hcomp.h creates a plan over an MPI communicator; group.h and elastic.h create one without MPI.
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

/// Status codes: the result of every function below that returns an int. hcomp_last_error has the
/// text.
enum hcomp_code {
  HCOMP_OK = 0,
  HCOMP_INVALID_ARGUMENT = 1,
  HCOMP_DISAGREEMENT = 2,  ///< arguments contradict each other between ranks
  HCOMP_NONFINITE = 3,     ///< some rank has NaN or infinity, and the codec cannot represent them
  HCOMP_DAMAGED = 4,       ///< received bytes differ from the bytes sent
  HCOMP_TRANSPORT = 5,     ///< MPI or a rank failed; the plan can only be freed
  HCOMP_OTHER = 6,         ///< for example, out of memory
  HCOMP_NOT_RUNNING = 7    ///< MPI or the preloaded library is not active
};

/// An all-reduce of vectors of one size with one codec over one communicator or group. One thread
/// at a time may use it.
typedef struct hcomp_plan hcomp_plan;

/// A nonblocking call that is not yet waited for. One thread at a time may use it.
typedef struct hcomp_request hcomp_request;

/// Statistics of one call on this rank.
typedef struct hcomp_report {
  uint64_t bytes_sent;   ///< includes headers
  uint64_t weight;       ///< number of ranks whose values are in the result
  double seconds;        ///< duration of the call
  double seconds_codec;  ///< time in encoding, merging and decoding, within `seconds`
  double error;          ///< bound on the error of each value of the result; 0: that of an
                         ///< uncompressed all-reduce; NaN: unknown, the codec states none
  double dominance;      ///< 1/16 to 1; near 1: one value per block is so large that the rest is
                         ///< noise; 0: not measured
  double residual;       ///< energy of the residual of error feedback, relative to x; grows from
                         ///< call to call if error feedback diverges; 0: none, or not measured
                         ///< because x is in device memory
  int shared_memory;     ///< 1: the values were added in memory that the ranks of a node share;
                         ///< 0: they were sent in messages
} hcomp_report;

/// All-reduce: sums x over all ranks, in place, with the same bits on all ranks. Collective.
///
/// The n-th call on a plan draws the same random numbers in every run; different plans draw
/// different numbers.
/// @param x       `values` values, in host memory on all ranks or in CUDA device memory on all
///                ranks; long vectors in different memory fail with HCOMP_DISAGREEMENT. A vector in
///                device memory stays there, see hcomp_plan_set_stream
/// @param report  may be NULL
/// Invalid arguments (x is NULL, for example), NaN and infinity fail on all ranks alike and leave x
/// unchanged.
HCOMP_API int hcomp_all_reduce(hcomp_plan* plan, void* x, hcomp_report* report);

/// Reduce-scatter: each rank gets only its shard of the result in x, see hcomp_plan_shard. Not with
/// algorithms recursive_doubling and sampled.
HCOMP_API int hcomp_reduce_scatter(hcomp_plan* plan, void* x, hcomp_report* report);
/// All-gather: gives every rank the shards of all ranks, encoded once. Restrictions as for
/// hcomp_reduce_scatter.
HCOMP_API int hcomp_all_gather(hcomp_plan* plan, void* x, hcomp_report* report);
/// Nonblocking hcomp_all_reduce: a library thread does the work. Only over a group of
/// hcomp_group_create; otherwise HCOMP_INVALID_ARGUMENT.
///
///     hcomp_request* request;
///     hcomp_all_reduce_start(plan, gradient, &request);
///     compute();
///     hcomp_wait(&request, NULL);
///
/// All ranks start the same calls in the same order, counted over all plans of a group. Up to 16
/// calls are in progress at a time: one sends while another waits. This helps with many short
/// vectors on a high-latency network. Calls on one plan run one after the other. A call through
/// shared memory, or with algorithm hierarchical, runs alone.
///
/// A blocking call begins when all calls started before it are complete. It does not match a
/// nonblocking call of another rank: all ranks get an error, on several nodes only after the
/// timeout. The call uses the plan's settings and draws at the time of the start. hcomp_wait
/// reports all errors, including an invalid x.
/// @param x        the program must not read or write it until hcomp_wait returns
/// @param request  receives the handle for hcomp_wait; receives NULL if the call cannot be started
HCOMP_API int hcomp_all_reduce_start(hcomp_plan* plan, void* x, hcomp_request** request);
HCOMP_API int hcomp_reduce_scatter_start(hcomp_plan* plan, void* x, hcomp_request** request);
HCOMP_API int hcomp_all_gather_start(hcomp_plan* plan, void* x, hcomp_request** request);
/// Tests whether a call is complete, so that hcomp_wait returns at once. Waits for at most
/// `milliseconds`.
/// @param done  receives 1 or 0
HCOMP_API int hcomp_test(hcomp_request* request, int milliseconds, int* done);
/// Waits until the call is complete. Returns the status and sets the error text of the blocking
/// call; frees the request and writes NULL; does nothing if it is already NULL. Not collective; any
/// order of requests is valid. The plan and the group may already be freed: freeing them waits for
/// started calls.
/// @param report  may be NULL
HCOMP_API int hcomp_wait(hcomp_request** request, hcomp_report* report);

/// Gives this rank's shard: `count` values starting at x[first].
HCOMP_API int hcomp_plan_shard(hcomp_plan const* plan, size_t* first, size_t* count);
/// Gives the alignment of shards: all shards have equal size if `unit` times the number of ranks
/// divides `values`; 0 if shards are never equal. A plan of 0 values gives the same alignment.
HCOMP_API int hcomp_plan_shard_alignment(hcomp_plan const* plan, size_t* unit);

/// Selects the result of all_reduce and reduce_scatter: 1 for the mean over the ranks, 0 for the
/// sum (the default). Set it alike on all ranks.
HCOMP_API int hcomp_plan_set_mean(hcomp_plan* plan, int mean);
/// Sets the CUDA stream of later calls with x in device memory; NULL (the default): the default
/// stream of the device. Not collective.
///
/// A call encodes, merges and decodes on this stream, after its earlier work, and returns when the
/// result is complete. Only messages pass through the host, in pinned memory, unless the network
/// reaches the device. The result has the bits of a call with x in host memory.
///
/// The first such call loads libhcomp_cuda.so. Without this library the call fails on all ranks,
/// with HCOMP_INVALID_ARGUMENT or HCOMP_DISAGREEMENT; hcomp_cuda_check tells in advance.
///
/// These plans copy x to the host and back, after the work of the default stream: those with
/// algorithm hierarchical, with top_k or a codec of HCOMP_CODECS, over an elastic group, and those
/// whose ranks add uncompressed values in shared memory.
/// @param stream  a cudaStream_t or CUstream of the device that has x
HCOMP_API int hcomp_plan_set_stream(hcomp_plan* plan, void* stream);
/// Gives the number of values per vector.
HCOMP_API int hcomp_plan_values(hcomp_plan const* plan, size_t* values);

/// Copies this rank's residual for a checkpoint: `values` values of the plan's type, in host
/// memory. Residuals differ per rank. With algorithm hierarchical, values outside this rank's share
/// of the vector are 0. HCOMP_INVALID_ARGUMENT if the codec runs without error feedback.
HCOMP_API int hcomp_plan_get_residual(hcomp_plan const* plan, void* residual);
/// Replaces this rank's residual. Memory and type as in hcomp_plan_get_residual.
HCOMP_API int hcomp_plan_set_residual(hcomp_plan* plan, void const* residual);
/// Sets the key of random draws: the next call draws for step `step` of vector `vector`, each later
/// call for the step after it. A run resumed from a checkpoint thus repeats the draws of an
/// uninterrupted run. Set it alike on all ranks. By default the vector number is the order of plan
/// creation.
HCOMP_API int hcomp_plan_set_draws(hcomp_plan* plan, uint64_t vector, uint64_t step);

/// Frees the plan and writes NULL; does nothing if it is already NULL. Collective.
HCOMP_API int hcomp_plan_free(hcomp_plan** plan);

/// Tests whether this process can reduce vectors in CUDA device memory: libhcomp_cuda.so is there,
/// and a GPU is usable. HCOMP_OTHER if not; hcomp_last_error says why.
HCOMP_API int hcomp_cuda_check(void);

/// The text of the last error in this thread; "" if none. Valid until the next error.
HCOMP_API char const* hcomp_last_error(void);
/// The failed rank that the text of an HCOMP_TRANSPORT names; -1: unknown, or another error.
HCOMP_API int hcomp_last_error_rank(void);
/// The version of the loaded library. Any pointer may be NULL.
HCOMP_API int hcomp_version(int* major, int* minor, int* patch);
/// The communication library in use: "Open MPI 4.1.4", "MPICH 4.0.2", "UCX 1.13, no MPI".
HCOMP_API char const* hcomp_built_for(void);

/// For languages that know the length of an array: a vector of another size or type than the plan's
/// returns HCOMP_INVALID_ARGUMENT.
///
/// @param values       number of values in x
/// @param value_bytes  bytes per value, 4 or 8
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
