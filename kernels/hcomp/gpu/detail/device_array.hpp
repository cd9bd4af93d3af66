#pragma once
/// @file
/// Array in device memory for state that can be saved and restored.

#include <cuda_runtime.h>
#include <cstddef>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <span>
#include <vector>

namespace hcomp::gpu::detail {

/// Array of values in device memory, initially zero. The first constructor, clear, to_host and
/// from_host synchronize with the whole device, so they cannot overtake work of any stream.
template <class T> class device_array {
 public:
  explicit device_array(std::size_t values)
      : memory_(values * sizeof(T)), values_(reinterpret_cast<T*>(memory_.data()), values) {
    clear();
  }
  /// @param borrowed  memory of the caller; its values stay
  explicit device_array(std::span<T> borrowed) : values_(borrowed) {}

  T* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  void clear() {
    if (size() == 0) return;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemset(data(), 0, values_.size_bytes()));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  }
  std::vector<T> to_host() const {
    std::vector<T> values(size());
    if (values.empty()) return values;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemcpy(values.data(), data(), values_.size_bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  /// @param values  has size() elements
  void from_host(std::vector<T> const& values) {
    if (values.empty()) return;
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(cudaMemcpy(data(), values.data(), values_.size_bytes(), cudaMemcpyHostToDevice));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  }

 private:
  device_buffer memory_;  ///< empty if the values are borrowed
  std::span<T> values_;
};

}  // namespace hcomp::gpu::detail
