#pragma once
/// @file
/// Block work on a CUDA stream, one thread block per block.

#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/gpu/block_group.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/device_array.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/detail/mark_ring.hpp>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>

namespace hcomp::gpu {

/// Calls work(block_group, i) for all i < blocks, each by one thread block.
template <class Work>
__global__ void __launch_bounds__(block_group::workers) run_blocks(std::size_t blocks, Work work) {
  extern __shared__ float4 hcomp_scratch[];
  block_group const group(reinterpret_cast<float*>(hcomp_scratch));
  for (std::size_t i = blockIdx.x; i < blocks; i += gridDim.x) {
    work(group, i);
    group.sync();  // before scratch is written again
  }
}

/// Runs block functors on one stream of the current device, asynchronously: a thread block per
/// block, with as much shared memory as the work's scratch_bytes().
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
  /// Where compensation keeps its state.
  template <class T> using array = detail::device_array<T>;
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
    std::size_t shared = 0;
    if constexpr (requires { work.scratch_bytes(); }) shared = work.scratch_bytes();
    if (shared > without_asking)
      HCOMP_CUDA_TRY(cudaFuncSetAttribute(
          run_blocks<Work>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    // Unlike <<<>>> cudaLaunchKernel tells its own errors from those that calls of others left.
    void* arguments[] = {&blocks, const_cast<Work*>(&work)};
    auto const grid = static_cast<unsigned>(std::min<std::size_t>(blocks, 65535));
    HCOMP_CUDA_TRY(
        cudaLaunchKernel(run_blocks<Work>, grid, block_group::workers, arguments, shared, stream_));
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
  static constexpr std::size_t without_asking = 48 << 10;  // shared memory that every kernel gets

  mark copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) HCOMP_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream_));
    return {marks_.record(stream_)};
  }

  cudaStream_t stream_;
  detail::mark_ring<detail::event> marks_;
};

static_assert(DeviceExecutor<stream_executor>);

}  // namespace hcomp::gpu
