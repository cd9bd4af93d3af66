#pragma once
/// @file
/// Exceptions for CUDA error codes.

#include <cuda_runtime.h>
#include <stdexcept>
#include <string>

namespace hcomp::gpu {

/// A CUDA call failed. The text names the call and its source line, or the request, and ends with
/// CUDA's name and description of the error.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(cudaError_t code, std::string const& what)
      : std::runtime_error(what + ": " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code)),
        code_(code) {}
  cuda_error(cudaError_t code, std::string const& call, char const* file, int line)
      : cuda_error(code, "cuda: " + call + " in " + file + ":" + std::to_string(line)) {}

  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {

/// Clears the last error of CUDA, so that later calls of cudaGetLastError do not report an error
/// that is already handled.
inline void forget_last_error() noexcept { static_cast<void>(cudaGetLastError()); }

}  // namespace detail
}  // namespace hcomp::gpu

/// Makes a CUDA call. @throws hcomp::gpu::cuda_error  the call did not return cudaSuccess
#define HCOMP_CUDA_TRY(call)                                               \
  do {                                                                     \
    cudaError_t const hcomp_code = (call);                                 \
    if (hcomp_code != cudaSuccess) {                                       \
      hcomp::gpu::detail::forget_last_error();                             \
      throw hcomp::gpu::cuda_error(hcomp_code, #call, __FILE__, __LINE__); \
    }                                                                      \
  } while (false)
