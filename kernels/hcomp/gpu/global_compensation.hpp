#pragma once
/// @file
/// Marsit's global compensation for vectors in device memory.

#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/gpu/detail/device_array.hpp>

namespace hcomp::gpu {

/// hcomp::global_compensation in the memory of the current device: the same bits, and saved states
/// that either of the two restores.
///
/// Construction, `reset`, `save` and `restore` wait for all work of the device; all else happens
/// with the work of the collective.
template <class T = float>
using global_compensation = hcomp::global_compensation<T, detail::device_array>;

}  // namespace hcomp::gpu
