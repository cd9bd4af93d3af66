#pragma once
/// @file
/// Error feedback for vectors in device memory.

#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/gpu/stream_executor.hpp>

namespace hcomp::gpu {

/// hcomp::error_feedback with its residual in memory of the current device. Results are
/// bit-identical and saved states interchangeable between the two.
///
/// Construction, `reset`, `save` and `restore` synchronize with the whole device. All other work
/// runs on the stream of the collective. Over stream-ordered transports `commit` copies the new
/// residual, which costs 8 bytes of memory traffic per value, and a CUDA graph can replay a step.
/// Over other transports it swaps two arrays, and a CUDA graph must not replay a whole step.
template <class T = float> using error_feedback = hcomp::error_feedback<T, stream_executor::array>;

}  // namespace hcomp::gpu
