#pragma once
/// @file
/// Is there a GPU, and what does a pointer point to?

#include <cuda_runtime.h>
#include <hcomp/core/config.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>

namespace hcomp::gpu {
namespace detail {

/// @param devices  their number; 0 if there are none for whatever reason, which is returned
inline cudaError_t find_devices(int& devices) noexcept {
  cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaSuccess && devices == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    devices = 0;
    forget_last_error();
  }
  return code;
}

/// Of the current device.
inline int multiprocessors() {
  int device = 0, found = 0;
  HCOMP_CUDA_TRY(cudaGetDevice(&device));
  HCOMP_CUDA_TRY(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device));
  return found;
}

}  // namespace detail

/// GPUs that this process can use; 0 where there are none, or no driver for them.
inline int device_count() noexcept {
  int devices = 0;
  detail::find_devices(devices);
  return devices;
}

/// @throws cuda_error  there is no GPU that this process can use; the text begins with `who`
inline void require_device(char const* who) {
  int devices = 0;
  cudaError_t const code = detail::find_devices(devices);
  if (code != cudaSuccess)
    throw cuda_error(code, std::string(who) +
                               ": no usable GPU (values in host memory need none, with "
                               "hcomp::host_executor)");
}

/// Where a pointer points to: `device` for device and managed memory, `host` for all other, pinned
/// or not, and everywhere if there is no GPU.
///
/// Asks CUDA every time: an address can come back as other memory as soon as it was freed, which
/// nobody is told. Who has many calls for one buffer should ask once.
/// @throws cuda_error  work of the device failed before
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
