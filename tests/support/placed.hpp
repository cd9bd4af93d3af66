#pragma once
/// @file
/// Vectors in host or in CUDA device memory.

#include <cuda_runtime.h>

#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <vector>

namespace hcomp::testing {

/// A vector in host or in device memory.
template <class V> class placed {
 public:
  placed(std::vector<V> const& values, bool on_device)
      : host_(values), device_(on_device ? values.size() * sizeof(V) : 0) {
    if (on_device)
      HCOMP_CUDA_TRY(
          cudaMemcpy(device_.data(), host_.data(), device_.size(), cudaMemcpyHostToDevice));
  }
  void* data() { return device_.data() ? static_cast<void*>(device_.data()) : host_.data(); }
  std::vector<V> get() {
    if (device_.data())
      HCOMP_CUDA_TRY(
          cudaMemcpy(host_.data(), device_.data(), device_.size(), cudaMemcpyDeviceToHost));
    return host_;
  }

 private:
  std::vector<V> host_;
  gpu::device_buffer device_;
};

}  // namespace hcomp::testing
