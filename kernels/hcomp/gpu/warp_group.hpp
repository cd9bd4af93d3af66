#pragma once
/// @file
/// Group of the 32 lanes of a warp, which work on one block together.

#include <cuda_runtime.h>
#include <cstdint>
#include <hcomp/core/group.hpp>

namespace hcomp::gpu {

/// Group of all lanes of one converged warp. Encodes the same bytes as hcomp::serial_group.
struct warp_group {
  static constexpr int workers = 32;

  __device__ int worker() const { return static_cast<int>(threadIdx.x % workers); }
  __device__ void sync() const { __syncwarp(); }
  __device__ bool any(bool value) const { return __any_sync(everyone, value) != 0; }
  __device__ std::uint32_t vote(bool value) const { return __ballot_sync(everyone, value); }
  template <class T> __device__ T xor_shuffle(T value, int distance) const {
    return __shfl_xor_sync(everyone, value, distance);
  }
  template <class T> __device__ T lane_value(T value, int lane) const {
    return __shfl_sync(everyone, value, lane);
  }
  __device__ std::uint32_t largest(std::uint32_t number) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(everyone, number);
#else
    for (int distance = workers / 2; distance > 0; distance /= 2) {
      std::uint32_t const other = xor_shuffle(number, distance);
      number = other > number ? other : number;
    }
    return number;
#endif
  }
  __device__ std::uint64_t sum(std::uint64_t value) const {
    for (int distance = workers / 2; distance > 0; distance /= 2)
      value += xor_shuffle(value, distance);
    return value;
  }
  /// Prefix sum over the lanes. The total must fit in a T.
  template <class T> __device__ running_sums running_sum(T value) const {
    T through = value;  // prefix sum, this worker included
    for (int distance = 1; distance < workers; distance *= 2) {
      T const below = __shfl_up_sync(everyone, through, distance);
      if (worker() >= distance) through += below;
    }
    return {through - value, __shfl_sync(everyone, through, workers - 1)};
  }

 private:
  static constexpr unsigned everyone = 0xffffffffu;
};

}  // namespace hcomp::gpu
