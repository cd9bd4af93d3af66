#pragma once
/// @file
/// Buffers in device memory and in pinned host memory.

#include <cuda_runtime.h>
#include <cstddef>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>
#include <utility>

namespace hcomp::gpu {

/// Allocates the memory of device_buffer. The default calls cudaMalloc and cudaFree, whose memory
/// other processes can map (UCX does so between GPUs of a node).
struct device_allocator {
  /// Sets *bytes to `size` bytes of the current device, 256-byte aligned, that any stream can use.
  cudaError_t (*allocate)(void** bytes, std::size_t size, void* context) =
      [](void** bytes, std::size_t size, void*) { return cudaMalloc(bytes, size); };
  /// Unlike cudaFree, it need not wait for the device: then no other stream than that of the
  /// executors may use the memory again before their work is done. Must not throw.
  void (*release)(void* bytes, std::size_t size, void* context) = [](void* bytes, std::size_t,
                                                                     void*) { cudaFree(bytes); };
  void* context = nullptr;  ///< passed to both
};

namespace detail {

inline device_allocator& current_allocator() {
  static device_allocator current;
  return current;
}

}  // namespace detail

/// Makes all later device_buffers of the program use `allocator`, such as the memory pool of a
/// training framework. Existing ones are released by the allocator that made them. Call it before
/// other threads make buffers.
/// @return  the previous allocator
inline device_allocator set_device_allocator(device_allocator const& allocator) {
  return std::exchange(detail::current_allocator(), allocator);
}

namespace detail {

struct device_memory {
  static constexpr char const* name = "device_buffer";
  device_allocator by = current_allocator();

  cudaError_t allocate(void** bytes, std::size_t size) const {
    return by.allocate(bytes, size, by.context);
  }
  void release(void* bytes, std::size_t size) const { by.release(bytes, size, by.context); }
};

struct pinned_memory {
  static constexpr char const* name = "pinned_buffer";
  static cudaError_t allocate(void** bytes, std::size_t size) {
    return cudaMallocHost(bytes, size);
  }
  static void release(void* bytes, std::size_t) { cudaFreeHost(bytes); }
};

/// Owns uninitialised memory of the device that was current at construction. Move-only. A buffer of
/// 0 bytes needs no GPU.
template <class Memory> class buffer {
 public:
  buffer() = default;
  /// @throws cuda_error  out of memory, or no usable GPU
  explicit buffer(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    cudaError_t const code = memory_.allocate(&bytes_, bytes);
    if (code == cudaSuccess) return;
    forget_last_error();
    require_device(Memory::name);
    throw cuda_error(code,
                     std::string(Memory::name) + ": " + std::to_string(bytes) + " bytes asked for");
  }
  buffer(buffer&& other) noexcept
      : memory_(other.memory_),
        bytes_(std::exchange(other.bytes_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (bytes_) memory_.release(bytes_, size_);
  }

  std::byte* data() const { return static_cast<std::byte*>(bytes_); }
  std::size_t size() const { return size_; }

 private:
  [[no_unique_address]] Memory memory_;
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

/// Device memory, allocated by the device_allocator.
using device_buffer = detail::buffer<detail::device_memory>;

/// Page-locked host memory, allocated by cudaMallocHost. Copies to and from a device run without
/// the CPU.
using pinned_buffer = detail::buffer<detail::pinned_memory>;

}  // namespace hcomp::gpu
