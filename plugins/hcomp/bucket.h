/// @file
/// C API: the steps of an all-reduce of several vectors, for programs that move the bytes by
/// collectives of their own, such as those of NCCL or of torch.distributed.
///
///     hcomp_bucket_measure(bucket, vectors, statistics);       // if statistics_words > 0
///     // all-reduce: maxima of statistics_words values of uint32_t; or all-gather, see below
///     hcomp_bucket_encode(bucket, vectors, step, statistics, out);
///     // all-to-all: `part_bytes` bytes to and from every rank, from out to in
///     hcomp_bucket_merge(bucket, in, reduced);
///     // all-gather: `reduced_bytes` bytes of every rank, from reduced to all
///     hcomp_bucket_decode(bucket, all, vectors, step, mean);
#ifndef HCOMP_BUCKET_H
#define HCOMP_BUCKET_H

#include <hcomp/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Several vectors of float that share messages, with one codec. One thread at a time may use it.
typedef struct hcomp_bucket hcomp_bucket;

/// One vector in one call, in the memory space of the bucket.
typedef struct hcomp_bucket_vector {
  float* x;
  float* residual;     ///< of error feedback: added to x, and replaced by hcomp_bucket_decode;
                       ///< NULL: none
  float* pending;      ///< the new residual, from hcomp_bucket_encode to hcomp_bucket_decode
  uint64_t* withheld;  ///< counts values that kept their residual, see error_feedback
  uint64_t number;     ///< identifies the vector in random draws, as in hcomp_plan_set_draws
} hcomp_bucket_vector;

/// What a bucket needs. Memory of messages and statistics begins at multiples of 16.
typedef struct hcomp_bucket_sizes {
  size_t part_bytes;        ///< of an encoded part, one per rank
  size_t reduced_bytes;     ///< of a reduced part
  size_t statistics_words;  ///< of all vectors, as uint32_t
  int gathers;              ///< 1: hcomp_bucket_encode takes the statistics of all ranks, in rank
                            ///< order, as an all-gather gives them. 0: their maxima
  int feedback;             ///< 1: the codec is used with error feedback, as by a plan
} hcomp_bucket_sizes;

/// Makes a bucket. Not collective; all ranks make it with the same arguments but `rank`.
///
/// The result of a vector does not depend on the vectors beside it. It has the bits of
/// hcomp_all_reduce with `algorithm=aggregator`. NaN, infinity and overflow reach all ranks: as in
/// an uncompressed sum (fp16, for example), as a block of NaN (thc), or as a vector of NaN (sign),
/// which then keeps its residual.
/// @param codec    of fixed rate: "thc:bits=4", "sign", "fp16"
/// @param values   of each vector
/// @param device   number of a CUDA device, which runs the calls below in order on `stream`: they
///                 return at once and allocate nothing. -1: in host memory, at once
/// @param stream   a cudaStream_t; NULL: the default stream of the device
/// @param sizes    may be NULL
HCOMP_API int hcomp_bucket_create(char const* codec, int ranks, int rank, size_t const* values,
                                  size_t vectors, int device, void* stream, hcomp_bucket** bucket,
                                  hcomp_bucket_sizes* sizes);
/// Writes this rank's statistics, which all ranks must have before they encode.
/// @param vectors     one for each size in `values`
/// @param statistics  statistics_words words
HCOMP_API int hcomp_bucket_measure(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors,
                                   uint32_t* statistics);
/// Encodes x + residual of all vectors.
/// @param step        equal on all ranks; other steps draw other random numbers
/// @param statistics  of all ranks, see hcomp_bucket_sizes
/// @param out         part_bytes bytes per rank, in rank order
HCOMP_API int hcomp_bucket_encode(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors,
                                  uint64_t step, uint32_t const* statistics, void* out);
/// Adds the parts of all ranks.
/// @param in   part_bytes bytes per rank, in rank order
/// @param out  reduced_bytes bytes; must not overlap `in`
HCOMP_API int hcomp_bucket_merge(hcomp_bucket* bucket, void const* in, void* out);
/// Decodes the result into x and makes the new residuals valid. Damaged parts change neither x nor
/// residuals, from then on until hcomp_bucket_check.
/// @param in    reduced_bytes bytes per rank, in rank order
/// @param step  as for hcomp_bucket_encode
/// @param mean  1: the mean over the ranks; 0: the sum
HCOMP_API int hcomp_bucket_decode(hcomp_bucket* bucket, void const* in,
                                  hcomp_bucket_vector const* vectors, uint64_t step, int mean);
/// The same for this rank's part alone, without an all-gather: a reduce-scatter. Vectors of equal
/// size, one for each rank, are the parts: then this rank's vector gets the result, and the other
/// vectors of the bucket do not change. The new residuals of all vectors become valid.
/// @param in  reduced_bytes bytes, as hcomp_bucket_merge writes them
HCOMP_API int hcomp_bucket_decode_part(hcomp_bucket* bucket, void const* in,
                                       hcomp_bucket_vector const* vectors, uint64_t step, int mean);
/// Fails with HCOMP_DAMAGED if hcomp_bucket_decode has found damage.
/// @param wait  1: waits for the stream; 0: tells what is known without waiting
HCOMP_API int hcomp_bucket_check(hcomp_bucket* bucket, int wait);
/// Frees the bucket and writes NULL; does nothing if it is already NULL. Waits for the stream.
HCOMP_API int hcomp_bucket_free(hcomp_bucket** bucket);

#ifdef __cplusplus
}
#endif

#endif
