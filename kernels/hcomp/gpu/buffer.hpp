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
namespace detail {

struct device_memory {
  static constexpr char const* name = "device_buffer";
  static cudaError_t allocate(void** bytes, std::size_t size) { return cudaMalloc(bytes, size); }
  static void release(void* bytes) { cudaFree(bytes); }
};

struct pinned_memory {
  static constexpr char const* name = "pinned_buffer";
  static cudaError_t allocate(void** bytes, std::size_t size) {
    return cudaMallocHost(bytes, size);
  }
  static void release(void* bytes) { cudaFreeHost(bytes); }
};

/// Owns uninitialised memory of the device that was current at construction. Move-only. A buffer of
/// 0 bytes needs no GPU.
template <class Memory> class buffer {
 public:
  buffer() = default;
  /// @throws cuda_error  out of memory, or no usable GPU
  explicit buffer(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    cudaError_t const code = Memory::allocate(&bytes_, bytes);
    if (code == cudaSuccess) return;
    forget_last_error();
    require_device(Memory::name);
    throw cuda_error(code,
                     std::string(Memory::name) + ": " + std::to_string(bytes) + " bytes asked for");
  }
  buffer(buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (bytes_) Memory::release(bytes_);
  }

  std::byte* data() const { return static_cast<std::byte*>(bytes_); }
  std::size_t size() const { return size_; }

 private:
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

/// Device memory, allocated by cudaMalloc.
using device_buffer = detail::buffer<detail::device_memory>;

/// Page-locked host memory, allocated by cudaMallocHost. Copies to and from a device run without
/// the CPU.
using pinned_buffer = detail::buffer<detail::pinned_memory>;

}  // namespace hcomp::gpu
