#pragma once
/// @file
/// Block work on a CUDA stream, one warp per block.

#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/gpu/block_group.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/detail/mark_ring.hpp>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/gpu/warp_group.hpp>

namespace hcomp::gpu {

/// Calls work(warp_group, i) for all i < blocks, each by one warp.
template <class Work> __global__ void run_blocks(std::size_t blocks, Work work) {
  std::size_t const thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::size_t const warps = gridDim.x * std::size_t{blockDim.x} / warp_group::lanes;
  for (std::size_t i = thread / warp_group::lanes; i < blocks; i += warps) work(warp_group{}, i);
}

/// The same, each by one thread block, whose lanes share memory.
template <class Work> __global__ void run_blocks_with_scratch(std::size_t blocks, Work work) {
  extern __shared__ float hcomp_scratch[];
  for (std::size_t i = blockIdx.x; i < blocks; i += gridDim.x) {
    work(block_group(hcomp_scratch), i);
    __syncthreads();
  }
}

/// Runs block functors on one stream of the current device, asynchronously: a warp per block, or a
/// thread block for work that has scratch_bytes().
///
/// The stream is the caller's and must outlive the executor; its device must be current in every
/// call. Only `wait` and `synchronize` wait for the stream, and they throw the errors that happened
/// on it. `for_each_block` can be captured in a CUDA graph; the copies' marks cannot.
/// Movable, because it owns the events of its marks; one caller at a time. Of marks, any number can
/// be pending; when there are no more of them than ever before, nothing is allocated.
class stream_executor {
 public:
  static constexpr memory_space space = memory_space::device;
  using buffer = device_buffer;
  using staging = pinned_buffer;
  /// Stands for a copy that was given to this executor; mark{} for none, which is done.
  struct mark {
    std::uint64_t number = 0;
  };

  /// @throws cuda_error  no usable GPU
  explicit stream_executor(cudaStream_t stream = nullptr) : stream_(stream) {
    require_device("stream_executor");
  }

  /// @throws cuda_error  not launched, for instance because nothing was compiled for this GPU
  template <class Work> void for_each_block(std::size_t blocks, Work const& work) {
    if (blocks == 0) return;
    // Unlike <<<>>> cudaLaunchKernel tells its own errors from those that calls of others left.
    void* arguments[] = {&blocks, const_cast<Work*>(&work)};
    if constexpr (requires { work.scratch_bytes(); }) {
      auto const kernel = run_blocks_with_scratch<Work>;
      std::size_t const bytes = work.scratch_bytes();
      if (bytes > without_asking)
        HCOMP_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)));
      HCOMP_CUDA_TRY(
          cudaLaunchKernel(kernel, grid_of(blocks), block_group::lanes, arguments, bytes, stream_));
    } else {
      HCOMP_CUDA_TRY(cudaLaunchKernel(run_blocks<Work>, grid_of((blocks + warps - 1) / warps),
                                      warps * warp_group::lanes, arguments, 0, stream_));
    }
  }

  /// Copies to host memory. Returns at once if that is pinned, otherwise when it is done.
  mark read(void* to, void const* from, std::size_t bytes) {
    return copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  /// Copies from host memory. Returns at once if that is pinned, otherwise when CUDA has read it.
  mark write(void* to, void const* from, std::size_t bytes) {
    return copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  /// Returns when the copy and all work given before it are done.
  /// @throws std::invalid_argument  the mark of another executor, as far as that can be seen
  void wait(mark done) { marks_.wait(done.number); }

  void synchronize() {
    HCOMP_CUDA_TRY(cudaStreamSynchronize(stream_));
    marks_.all_done();
  }

  static memory_space space_of(void const* pointer) { return gpu::space_of(pointer); }

 private:
  static constexpr unsigned warps = 4;                     // per thread block
  static constexpr std::size_t without_asking = 48 << 10;  // shared memory that every kernel gets

  static unsigned grid_of(std::size_t thread_blocks) {
    return static_cast<unsigned>(std::min<std::size_t>(thread_blocks, 65535));
  }

  mark copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) HCOMP_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream_));
    return {marks_.record(stream_)};
  }

  cudaStream_t stream_;
  detail::mark_ring<detail::event> marks_;
};

static_assert(DeviceExecutor<stream_executor>);

}  // namespace hcomp::gpu
