#pragma once
/// @file
/// CUDA's error codes as exceptions.

#include <cuda_runtime.h>
#include <stdexcept>
#include <string>

namespace hcomp::gpu {

/// A CUDA call failed. The text names the call, the place and CUDA's own words.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(cudaError_t code, std::string const& call, char const* file, int line)
      : std::runtime_error("cuda: " + call + " in " + file + ":" + std::to_string(line) + ": " +
                           cudaGetErrorName(code) + ": " + cudaGetErrorString(code)),
        code_(code) {}

  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

}  // namespace hcomp::gpu

/// Makes a CUDA call. @throws hcomp::gpu::cuda_error  it did not return cudaSuccess
#define HCOMP_CUDA_TRY(call)                                               \
  do {                                                                     \
    cudaError_t const hcomp_code = (call);                                 \
    if (hcomp_code != cudaSuccess)                                         \
      throw hcomp::gpu::cuda_error(hcomp_code, #call, __FILE__, __LINE__); \
  } while (false)
