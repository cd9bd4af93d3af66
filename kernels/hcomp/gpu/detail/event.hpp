#pragma once
/// @file
/// RAII wrapper of a CUDA event.

#include <cuda_runtime.h>
#include <hcomp/gpu/error.hpp>
#include <utility>

namespace hcomp::gpu::detail {

/// Owns a CUDA event without timing, which marks a place in a stream's work. Movable.
class event {
 public:
  event() { HCOMP_CUDA_TRY(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~event() {
    if (event_) cudaEventDestroy(event_);
  }

  /// Marks the end of all work submitted to `stream` so far.
  void record(cudaStream_t stream) { HCOMP_CUDA_TRY(cudaEventRecord(event_, stream)); }
  bool is_done() const {
    cudaError_t const code = cudaEventQuery(event_);
    if (code == cudaSuccess) return true;
    forget_last_error();
    if (code == cudaErrorNotReady) return false;
    throw cuda_error(code, "cudaEventQuery", __FILE__, __LINE__);
  }
  void wait() const { HCOMP_CUDA_TRY(cudaEventSynchronize(event_)); }
  /// Makes later work of `stream` wait for the event.
  void hold(cudaStream_t stream) const { HCOMP_CUDA_TRY(cudaStreamWaitEvent(stream, event_, 0)); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace hcomp::gpu::detail
