#pragma once
/// @file
/// Buffers of a program that are a CUDA device's: which they are, and how their bytes are had.

#include <cstddef>

namespace hcomp::drop_in {

/// True if it points to memory of a CUDA device, managed memory included.
///
/// Asks the process's own libcuda.so.1. Nothing is linked or loaded for it: as long as the process
/// has none, no pointer is a device's, and asking takes 40 ns.
bool is_in_device(void const* pointer) noexcept;

/// The context that this thread has for its own calls of CUDA; null without libcuda, or if it has none.
void* current_context() noexcept;

/// While it exists, this thread has that context for its own; null changes nothing.
class used_context {
 public:
  /// @throws std::runtime_error  libcuda refuses it
  explicit used_context(void* context);
  ~used_context();
  used_context(used_context const&) = delete;
  used_context& operator=(used_context const&) = delete;

 private:
  bool is_used_;
};

/// Copies from a device's memory to the host's, in the context that the memory belongs to, or, if it
/// belongs to none, in the thread's own. The work that the program gave to the default stream of
/// that context is done before.
/// @throws std::runtime_error  the process's libcuda.so.1 refuses
void copy_from_device(void* to, void const* from, std::size_t bytes);
/// And back. On return the bytes are there for every stream.
void copy_to_device(void* to, void const* from, std::size_t bytes);

}  // namespace hcomp::drop_in
