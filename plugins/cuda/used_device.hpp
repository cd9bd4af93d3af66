#pragma once
/// @file
/// The current device of CUDA, for a scope.

#include <cuda_runtime_api.h>

#include <hcomp/gpu/error.hpp>

namespace hcomp::drop_in {

/// Makes a device current during its lifetime.
class used_device {
 public:
  explicit used_device(int device) {
    HCOMP_CUDA_TRY(cudaGetDevice(&before_));
    is_other_ = device != before_;
    if (is_other_) HCOMP_CUDA_TRY(cudaSetDevice(device));
  }
  /// Sets no device that was current: that would create a context on one that nothing uses.
  ~used_device() {
    if (is_other_) static_cast<void>(cudaSetDevice(before_));
  }
  used_device(used_device const&) = delete;
  used_device& operator=(used_device const&) = delete;

 private:
  int before_ = 0;
  bool is_other_ = false;
};

}  // namespace hcomp::drop_in
