#pragma once
/// @file
/// Global compensation of Marsit for vectors in device memory.

#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/gpu/stream_executor.hpp>

namespace hcomp::gpu {

/// hcomp::global_compensation with its state in memory of the current device. Results are
/// bit-identical and saved states interchangeable between the two.
///
/// Construction, `reset`, `save` and `restore` synchronize with the whole device. All other work
/// runs on the stream of the collective.
template <class T = float>
using global_compensation = hcomp::global_compensation<T, stream_executor::array>;

}  // namespace hcomp::gpu
