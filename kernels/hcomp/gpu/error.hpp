#pragma once
/// @file
/// CUDA's error codes as exceptions.

#include <cuda_runtime.h>
#include <stdexcept>
#include <string>

namespace hcomp::gpu {

/// A CUDA call failed. The text ends with CUDA's own words, and names the call and the place, or
/// what was asked for.
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

/// CUDA repeats a failure to whoever asks for the last error next: not after it was dealt with.
inline void forget_last_error() noexcept { static_cast<void>(cudaGetLastError()); }

}  // namespace detail
}  // namespace hcomp::gpu

/// Makes a CUDA call. @throws hcomp::gpu::cuda_error  it did not return cudaSuccess
#define HCOMP_CUDA_TRY(call)                                               \
  do {                                                                     \
    cudaError_t const hcomp_code = (call);                                 \
    if (hcomp_code != cudaSuccess) {                                       \
      hcomp::gpu::detail::forget_last_error();                             \
      throw hcomp::gpu::cuda_error(hcomp_code, #call, __FILE__, __LINE__); \
    }                                                                      \
  } while (false)
