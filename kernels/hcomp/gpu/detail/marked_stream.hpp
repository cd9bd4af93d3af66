#pragma once
/// @file
/// A CUDA stream with marks: places in its work that the host or other streams wait for.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/detail/mark_ring.hpp>
#include <hcomp/gpu/error.hpp>
#include <utility>

namespace hcomp::gpu::detail {

/// Copies on a stream, each with a mark behind it. Movable.
class marked_stream {
 public:
  /// On `stream`, which is the caller's and must outlive this.
  explicit marked_stream(cudaStream_t stream) : stream_(stream) {}
  /// On a stream of its own, which waits for no other.
  marked_stream() : is_owned_(true) {
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  marked_stream(marked_stream&& other) noexcept
      : stream_(other.stream_),
        is_owned_(std::exchange(other.is_owned_, false)),
        marks_(std::move(other.marks_)) {}
  marked_stream& operator=(marked_stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(is_owned_, other.is_owned_);
    std::swap(marks_, other.marks_);
    return *this;
  }
  ~marked_stream() {
    if (is_owned_) cudaStreamDestroy(stream_);
  }

  operator cudaStream_t() const { return stream_; }

  /// The number of a mark behind all work so far.
  std::uint64_t mark() { return marks_.record(stream_); }
  std::uint64_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) HCOMP_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream_));
    return mark();
  }
  /// The host waits for a mark of this stream.
  void wait(std::uint64_t number) { marks_.wait(number); }
  bool is_done(std::uint64_t number) { return marks_.is_done(number); }
  /// Work that `other` gets from now on waits for it.
  void hold(cudaStream_t other, std::uint64_t number) const { marks_.hold(other, number); }
  void synchronize() {
    HCOMP_CUDA_TRY(cudaStreamSynchronize(stream_));
    marks_.all_done();
  }

 private:
  cudaStream_t stream_ = nullptr;
  bool is_owned_ = false;
  mark_ring<event> marks_;
};

}  // namespace hcomp::gpu::detail
