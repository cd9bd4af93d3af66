#pragma once
/// @file
/// Block work on a CUDA stream, one warp per block.

#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/gpu/warp_group.hpp>
#include <utility>

namespace hcomp::gpu {

/// Device memory; contents uninitialised.
class device_buffer {
 public:
  device_buffer() = default;
  explicit device_buffer(std::size_t bytes) : size_(bytes) {
    if (bytes > 0) HCOMP_CUDA_TRY(cudaMalloc(&bytes_, bytes));
  }
  device_buffer(device_buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_buffer() { cudaFree(bytes_); }

  std::byte* data() const { return static_cast<std::byte*>(bytes_); }
  std::size_t size() const { return size_; }

 private:
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// Calls work(warp_group, i) for all i < blocks, each by one warp.
template <class Work> __global__ void run_blocks(std::size_t blocks, Work work) {
  std::size_t const thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::size_t const warps = gridDim.x * std::size_t{blockDim.x} / warp_group::lanes;
  for (std::size_t i = thread / warp_group::lanes; i < blocks; i += warps) work(warp_group{}, i);
}

/// Runs block functors on one stream of the current device, asynchronously.
///
/// The stream is the caller's and must outlive the executor. `synchronize` waits for the stream and
/// throws the errors that happened on it.
class stream_executor {
 public:
  static constexpr memory_space space = memory_space::device;
  using buffer = device_buffer;

  explicit stream_executor(cudaStream_t stream = nullptr) : stream_(stream) {}

  template <class Work> void for_each_block(std::size_t blocks, Work const& work) {
    if (blocks == 0) return;
    std::size_t const grid = std::min<std::size_t>((blocks + warps - 1) / warps, 65535);
    run_blocks<<<static_cast<unsigned>(grid), warps * warp_group::lanes, 0, stream_>>>(blocks,
                                                                                       work);
    HCOMP_CUDA_TRY(cudaGetLastError());
  }
  void synchronize() { HCOMP_CUDA_TRY(cudaStreamSynchronize(stream_)); }

 private:
  static constexpr unsigned warps = 4;  // per thread block
  cudaStream_t stream_;
};

}  // namespace hcomp::gpu
