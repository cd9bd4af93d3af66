#pragma once
/// @file
/// A group of vectors that ranks reduce together, over NCCL.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/nccl/library.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <c/device_plan.hpp>
#include <c/settings.hpp>
#include "bucket_kind.hpp"
#include "live_communicator.hpp"
#include "node_stage.hpp"
#include "reduction_call.hpp"

namespace hcomp::drop_in {

/// Residual of one buffer of the program, in device memory.
struct buffer_residual {
  gpu::device_buffer values, pending, withheld;

  /// A residual of zeros.
  explicit buffer_residual(std::size_t values);
  std::size_t bytes() const { return values.size() + pending.size() + withheld.size(); }
};

/// A stream that does not wait for the default stream.
class owned_stream {
 public:
  owned_stream();
  ~owned_stream();
  owned_stream(owned_stream const&) = delete;
  owned_stream& operator=(owned_stream const&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Encodes, exchanges and decodes the vectors of one kind of calls: one all-to-all and one
/// all-gather of encoded parts, after a collective for statistics. Nothing waits on the host.
class nccl_bucket {
 public:
  /// Allocates memory on the current device: encoded parts, and a float per value of a 16-bit type.
  /// @throws std::invalid_argument, gpu::cuda_error, std::runtime_error  see make_bucket
  /// @param inside  of a hierarchical bucket, which reduces shares: its part inside the node
  nccl_bucket(bucket_kind const& kind, int ranks, int rank, int device,
              std::shared_ptr<owned_stream> stream, std::unique_ptr<node_stage> inside = nullptr);
  /// Waits for its work.
  ~nccl_bucket();
  nccl_bucket(nccl_bucket const&) = delete;
  nccl_bucket& operator=(nccl_bucket const&) = delete;

  /// Enqueues the calls, and lets their streams wait for the results.
  /// @param residuals  of each call; null: no error feedback
  /// @param call       on error: the function that failed
  /// @return           result of NCCL
  /// @throws gpu::cuda_error, device_error
  int enqueue(live_communicator& comm, std::span<reduction_call const> calls,
              std::span<buffer_residual* const> residuals, std::uint64_t step, char const*& failed);
  /// Values of the residual of a call.
  std::size_t values_of_call(std::size_t i) const;
  /// Bytes that this rank sends per call, without those inside the node of a hierarchical bucket.
  std::size_t bytes_sent() const;
  bool is_idle() const { return cudaStreamQuery(stream_->get()) == cudaSuccess; }
  void wait() const { static_cast<void>(cudaStreamSynchronize(stream_->get())); }
  /// @throws wire_error  earlier parts were damaged
  void check() { coder_->check(false); }

 private:
  bool is_wide() const { return kind_.type != value_type::float32; }
  /// The coder's vectors: their inputs, or their results.
  void set_vectors(std::span<reduction_call const> calls, bool results);
  /// The statistics of all ranks, or their maxima.
  std::uint32_t* united() const;
  int run(live_communicator& comm, std::span<reduction_call const> calls,
          std::span<buffer_residual* const> residuals, std::uint64_t step, char const*& failed);
  int exchange(live_communicator& comm, char const*& failed);

  bucket_kind kind_;
  int ranks_, rank_;
  std::shared_ptr<owned_stream> stream_;
  device_place place_;
  gpu::detail::event begin_, end_;
  std::vector<float*> wide_of_call_;
  std::unique_ptr<bucket_coder> coder_;
  bucket_sizes sizes_;
  gpu::device_buffer wide_, statistics_, out_, in_, reduced_, all_;
  std::vector<bucket_vector> vectors_;
  std::unique_ptr<node_stage> inside_;
};

}  // namespace hcomp::drop_in
