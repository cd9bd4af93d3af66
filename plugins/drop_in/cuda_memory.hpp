#pragma once
/// @file
/// Which buffers of a program the library must not touch.

namespace hcomp::drop_in {

/// True if it points to memory of a CUDA device, managed memory included.
///
/// Asks the process's own libcuda.so.1. Nothing is linked or loaded for it: as long as the process
/// has none, no pointer is a device's, and asking takes 40 ns.
bool is_in_device(void const* pointer) noexcept;

}  // namespace hcomp::drop_in
