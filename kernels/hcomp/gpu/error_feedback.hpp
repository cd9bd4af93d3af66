#pragma once
/// @file
/// Error feedback for vectors in device memory.

#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/gpu/detail/device_array.hpp>

namespace hcomp::gpu {

/// hcomp::error_feedback with its residual in the memory of the current device: the same bits, and
/// saved states that either of the two restores.
///
/// Construction, `reset`, `save` and `restore` wait for all work of the device; all else happens
/// with the work of the collective. The two arrays change places in `commit`, so a CUDA graph must
/// not repeat a whole step.
template <class T = float> using error_feedback = hcomp::error_feedback<T, detail::device_array>;

}  // namespace hcomp::gpu
