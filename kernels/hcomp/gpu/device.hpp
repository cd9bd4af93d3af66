#pragma once
/// @file
/// Queries of GPUs, and of the memory space of a pointer.

#include <cuda_runtime.h>
#include <hcomp/core/config.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>

namespace hcomp::gpu {
namespace detail {

/// Counts usable GPUs. Returns the reason if there are none.
/// @param devices  becomes the number of GPUs
inline cudaError_t find_devices(int& devices) noexcept {
  cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaSuccess && devices == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    devices = 0;
    forget_last_error();
  }
  return code;
}

/// Number of multiprocessors of the current device.
inline int multiprocessors() {
  int device = 0, found = 0;
  HCOMP_CUDA_TRY(cudaGetDevice(&device));
  HCOMP_CUDA_TRY(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device));
  return found;
}

}  // namespace detail

/// Number of GPUs that this process can use; 0 without GPUs or without a driver.
inline int device_count() noexcept {
  int devices = 0;
  detail::find_devices(devices);
  return devices;
}

/// Requires a usable GPU.
/// @param who  the caller, for the error text
/// @throws cuda_error  this process can use no GPU
inline void require_device(char const* who) {
  int devices = 0;
  cudaError_t const code = detail::find_devices(devices);
  if (code != cudaSuccess)
    throw cuda_error(code, std::string(who) +
                               ": no usable GPU (values in host memory need none, with "
                               "hcomp::host_executor)");
}

/// Memory space of a pointer: `device` for device and managed memory, `host` for all other memory,
/// pinned or not. Without a GPU always `host`.
///
/// Every call asks CUDA: a freed address can be reused in another memory space, so caching is not
/// safe. A caller with many operations on one buffer should call this once.
/// @throws cuda_error  earlier work of the device failed
inline memory_space space_of(void const* pointer) {
  cudaPointerAttributes about{};
  cudaError_t const code = cudaPointerGetAttributes(&about, pointer);
  if (code == cudaSuccess)
    return about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged
               ? memory_space::device
               : memory_space::host;
  detail::forget_last_error();
  if (device_count() == 0) return memory_space::host;
  throw cuda_error(code, "space_of: cudaPointerGetAttributes");
}

}  // namespace hcomp::gpu
