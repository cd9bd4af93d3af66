#pragma once
/// @file
/// A CUDA stream with marks: places in its work that the host or other streams can wait for.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/detail/mark_ring.hpp>
#include <hcomp/gpu/error.hpp>
#include <utility>

namespace hcomp::gpu::detail {

/// A stream whose copies are each followed by a mark. Movable.
class marked_stream {
 public:
  /// Uses `stream`, which the caller owns and which must outlive this object.
  explicit marked_stream(cudaStream_t stream) : stream_(stream) {}
  /// Owns a new stream, which does not synchronize with the default stream.
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

  /// Adds a mark after all work submitted so far; returns its number.
  std::uint64_t mark() { return marks_.record(stream_); }
  std::uint64_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) HCOMP_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream_));
    return mark();
  }
  /// Blocks the host until a mark of this stream is done.
  void wait(std::uint64_t number) { marks_.wait(number); }
  bool is_done(std::uint64_t number) { return marks_.is_done(number); }
  /// Makes later work of `other` wait for a mark of this stream.
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
