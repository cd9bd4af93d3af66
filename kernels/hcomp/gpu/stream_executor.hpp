#pragma once
/// @file
/// Executor that runs block work on a CUDA stream, one thread block per block.

#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/gpu/block_group.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/device_array.hpp>
#include <hcomp/gpu/detail/marked_stream.hpp>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <optional>
#include <stdexcept>
#include <type_traits>

namespace hcomp::gpu {

template <class Work> constexpr int threads_of_block() {
  constexpr int wanted = hcomp::detail::workers_of<Work>();
  return wanted != 0 ? wanted : 128;
}

/// Kernel: calls work(block_group, i) for all i < blocks, each in one thread block. If the work
/// states a number of blocks per multiprocessor, nvcc limits registers to reach it.
template <class Work>
__global__ void __launch_bounds__(threads_of_block<Work>(),
                                  hcomp::detail::blocks_at_once_of<Work>())
    run_blocks(std::size_t blocks, Work work) {
  extern __shared__ float4 hcomp_scratch[];
  block_group<threads_of_block<Work>()> const group(reinterpret_cast<float*>(hcomp_scratch));
  for (std::size_t i = blockIdx.x; i < blocks; i += gridDim.x) {
    work(group, i);
    group.sync();  // before the next block writes scratch
  }
}

/// Kernel: calls work.piece(block_group, i, k) for all pieces of all blocks, each in one thread
/// block, then work.close if the work requires it. It runs for few blocks only, so nvcc need not
/// limit registers. `arrived` is in device memory: one word per block, 0 before and after.
template <WorksByPieces Work>
__global__ void __launch_bounds__(Work::piece_workers, 1)
    run_pieces(unsigned pieces, std::uint32_t* arrived, Work work) {
  extern __shared__ float4 hcomp_scratch[];
  block_group<Work::piece_workers> const group(reinterpret_cast<float*>(hcomp_scratch));
  std::size_t const i = blockIdx.x / pieces;
  auto const k = static_cast<int>(blockIdx.x % pieces);
  if constexpr (std::is_void_v<decltype(work.piece(group, i, k))>) {
    work.piece(group, i, k);
  } else {
    auto const found = group.arrive(arrived + i, pieces, work.piece(group, i, k));
    if (found.is_last) work.close(group, i, found.any);
  }
}

/// Executor that runs block functors asynchronously on one stream of the current device.
///
/// Each block runs in one thread block with scratch_bytes() of the work as shared memory. If the
/// work satisfies WorksByPieces and the number of blocks does not exceed that of multiprocessors,
/// each piece runs in a thread block of its own.
///
/// The caller owns the stream. It must outlive the executor, and its device must be current in
/// every call. Only `wait` and `synchronize` wait for the stream; they throw the errors of earlier
/// work on the stream.
///
/// A CUDA graph can capture `for_each_block`, and with it calls of plans over stream-ordered
/// transports, but not the marks of copies. Graphs of one executor
/// must not run concurrently with each other or with its other work, because they share its
/// counters of pieces.
///
/// `read_beside` and `write_beside` use two extra streams of the executor, one per direction,
/// created on first use. Events order them against the main stream.
///
/// Move-only. One caller at a time. Any number of marks can be pending. An event is allocated only
/// when the number of pending marks reaches a new maximum.
class stream_executor {
 public:
  static constexpr memory_space space = memory_space::device;
  using buffer = device_buffer;
  using staging = pinned_buffer;
  /// Array type for the state of error feedback and compensation.
  template <class T> using array = detail::device_array<T>;
  /// Handle of a copy submitted to this executor; mark{} is always done.
  struct mark {
    std::uint64_t number = 0;
    std::uint8_t on = 0;  ///< stream: of_work, of_reads or of_writes
  };

  /// @throws cuda_error  no usable GPU
  explicit stream_executor(cudaStream_t stream = nullptr) : work_(stream) {
    require_device("stream_executor");
    few_blocks_ = static_cast<std::size_t>(detail::multiprocessors());
    arrived_ = buffer(few_blocks_ * sizeof(std::uint32_t));
    HCOMP_CUDA_TRY(cudaMemsetAsync(arrived_.data(), 0, arrived_.size(), work_));
  }

  /// Launches work(group, i) for all i < blocks.
  /// @throws cuda_error  launch failed, for instance because no code was compiled for this GPU
  template <class Work> void for_each_block(std::size_t blocks, Work const& work) {
    if (blocks == 0) return;
    if constexpr (WorksByPieces<Work>)
      if (auto pieces = static_cast<unsigned>(work.pieces()); blocks <= few_blocks_ && pieces > 1) {
        auto* arrived = reinterpret_cast<std::uint32_t*>(arrived_.data());
        void* arguments[] = {&pieces, &arrived, const_cast<Work*>(&work)};
        return launch(run_pieces<Work>, static_cast<unsigned>(blocks) * pieces, Work::piece_workers,
                      arguments, work.piece_scratch_bytes());
      }
    std::size_t shared = 0;
    if constexpr (requires { work.scratch_bytes(); }) shared = work.scratch_bytes();
    void* arguments[] = {&blocks, const_cast<Work*>(&work)};
    launch(run_blocks<Work>, static_cast<unsigned>(std::min<std::size_t>(blocks, 65535)),
           threads_of_block<Work>(), arguments, shared);
  }

  /// Copies to host memory. Asynchronous if that memory is pinned; otherwise returns when the copy
  /// is done.
  mark read(void* to, void const* from, std::size_t bytes) {
    return {work_.copy(to, from, bytes, cudaMemcpyDeviceToHost), of_work};
  }
  /// Copies from host memory. Asynchronous if that memory is pinned; otherwise returns when CUDA
  /// has read it.
  mark write(void* to, void const* from, std::size_t bytes) {
    return {work_.copy(to, from, bytes, cudaMemcpyHostToDevice), of_work};
  }
  /// Mark after all work submitted so far; see AsyncCopy, also for read_beside and write_beside.
  mark now() { return {work_.mark(), of_work}; }
  mark read_beside(void* to, void const* from, std::size_t bytes) {
    if (!reads_) reads_.emplace();
    work_.hold(*reads_, work_.mark());
    return {reads_->copy(to, from, bytes, cudaMemcpyDeviceToHost), of_reads};
  }
  mark write_beside(void* to, void const* from, std::size_t bytes, mark free) {
    if (!writes_) writes_.emplace();
    maker_of(free).hold(*writes_, free.number);
    auto const done = writes_->copy(to, from, bytes, cudaMemcpyHostToDevice);
    writes_->hold(work_, done);
    return {done, of_writes};
  }
  /// Blocks until the copy and the work before it are done.
  /// @throws std::invalid_argument  mark of another executor; not every such mark is detected
  void wait(mark done) {
    if (done.number > 0) maker_of(done).wait(done.number);
  }

  /// True if `wait` would return immediately.
  bool is_done(mark one) { return one.number == 0 || maker_of(one).is_done(one.number); }

  /// Waits for all work and copies except those of `read_beside`.
  void synchronize() { work_.synchronize(); }

  static memory_space space_of(void const* pointer) { return gpu::space_of(pointer); }

 private:
  template <class Kernel>
  void launch(Kernel* kernel, unsigned grid, unsigned threads, void** arguments,
              std::size_t shared) {
    if (shared > default_max_dynamic_shared_bytes)
      HCOMP_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(shared)));
    // Unlike <<<>>>, cudaLaunchKernel returns its own error, not one left by earlier calls.
    HCOMP_CUDA_TRY(cudaLaunchKernel(kernel, grid, threads, arguments, shared, work_));
  }

  /// Dynamic shared memory that a kernel may use without the attribute.
  static constexpr std::size_t default_max_dynamic_shared_bytes = 48 << 10;

  static constexpr std::uint8_t of_work = 0, of_reads = 1, of_writes = 2;

  detail::marked_stream& maker_of(mark const& one) {
    if (one.on == of_work) return work_;
    auto& beside = one.on == of_reads ? reads_ : writes_;
    if (!beside) throw std::invalid_argument("stream_executor: the mark of another executor");
    return *beside;
  }

  detail::marked_stream work_;
  std::size_t few_blocks_;  ///< largest number of blocks that run in pieces
  buffer arrived_;          ///< see run_pieces
  std::optional<detail::marked_stream> reads_, writes_;
};

static_assert(AsyncCopy<stream_executor>);

}  // namespace hcomp::gpu
