#pragma once
/// @file
/// Array in device memory for state that can be saved and restored.

#include <cuda_runtime.h>
#include <cstddef>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <vector>

namespace hcomp::gpu::detail {

/// Array of values in device memory, initially zero. The constructor, clear, to_host and from_host
/// synchronize with the whole device, so they cannot overtake work of any stream.
template <class T> class device_array {
 public:
  explicit device_array(std::size_t values) : memory_(values * sizeof(T)) { clear(); }

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return memory_.size() / sizeof(T); }

  void clear() {
    if (size() == 0) return;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemset(data(), 0, memory_.size()));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  }
  std::vector<T> to_host() const {
    std::vector<T> values(size());
    if (values.empty()) return values;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemcpy(values.data(), data(), memory_.size(), cudaMemcpyDeviceToHost));
    return values;
  }
  /// @param values  has size() elements
  void from_host(std::vector<T> const& values) {
    if (values.empty()) return;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemcpy(data(), values.data(), memory_.size(), cudaMemcpyHostToDevice));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  }

 private:
  device_buffer memory_;
};

}  // namespace hcomp::gpu::detail
