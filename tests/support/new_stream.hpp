#pragma once
/// @file
/// CUDA streams of tests.

#include <cuda_runtime.h>

#include <hcomp/gpu/error.hpp>

namespace hcomp::testing {

/// A stream that the default stream does not wait for.
inline cudaStream_t new_stream() {
  cudaStream_t made = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

}  // namespace hcomp::testing
