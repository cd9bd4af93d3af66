#pragma once
/// @file
/// Detects buffers in CUDA device memory, and copies them to and from host memory.

#include <cstddef>

namespace hcomp::drop_in {

/// True if `pointer` is in CUDA device memory or managed memory.
///
/// Uses the process's own libcuda.so.1 and never links or loads one. Without libcuda in the process
/// the result is false and the call takes 40 ns.
bool is_in_device(void const* pointer) noexcept;

/// The calling thread's current CUDA context; null without libcuda or without a context.
void* current_context() noexcept;

/// Makes `context` the thread's current CUDA context during its lifetime; null changes nothing.
class used_context {
 public:
  /// @throws std::runtime_error  libcuda returns an error
  explicit used_context(void* context);
  ~used_context();
  used_context(used_context const&) = delete;
  used_context& operator=(used_context const&) = delete;

 private:
  bool is_used_;
};

/// Copies from device memory to host memory. The copy runs in the context that owns the memory or,
/// if none owns it, in the thread's current context. Waits for prior work on the default stream of
/// that context.
/// @throws std::runtime_error  the process's libcuda.so.1 returns an error
void copy_from_device(void* to, void const* from, std::size_t bytes);
/// Copies from host memory to device memory. On return the data is visible to all streams.
void copy_to_device(void* to, void const* from, std::size_t bytes);

}  // namespace hcomp::drop_in
