#pragma once
/// @file
/// Device selection of --device cuda. Requires CUDA.

#include <cuda_runtime.h>

#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>

namespace example {

/// Makes a device of the node the current one and returns its name, e.g. "NVIDIA H200".
/// @param rank_on_host  rank inside the node; ranks share devices if the node has fewer devices
/// @throws hcomp::gpu::cuda_error  the node has no device
inline std::string take_device(int rank_on_host) {
  hcomp::gpu::require_device("--device cuda");
  int const device = rank_on_host % hcomp::gpu::device_count();
  HCOMP_CUDA_TRY(cudaSetDevice(device));
  cudaDeviceProp about{};
  HCOMP_CUDA_TRY(cudaGetDeviceProperties(&about, device));
  return about.name;
}

}  // namespace example
