#pragma once
/// @file
/// --device cuda: which GPU a rank takes. For .cu files, and what else knows CUDA.

#include <cuda_runtime.h>

#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>

namespace example {

/// Makes one of the host's devices the current one and says which: "NVIDIA H200".
/// @param rank_on_host  ranks beyond the number of devices share them
/// @throws hcomp::gpu::cuda_error  there is none
inline std::string take_device(int rank_on_host) {
  hcomp::gpu::require_device("--device cuda");
  int const device = rank_on_host % hcomp::gpu::device_count();
  HCOMP_CUDA_TRY(cudaSetDevice(device));
  cudaDeviceProp about{};
  HCOMP_CUDA_TRY(cudaGetDeviceProperties(&about, device));
  return about.name;
}

}  // namespace example
