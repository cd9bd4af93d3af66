#pragma once
/// @file
/// A stream-ordered transport between CUDA streams of one process: its ranks are threads.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <vector>

namespace hcomp::gpu {

/// Copies messages from device memory to device memory as work of the receiver's stream, between
/// ranks that are threads of one process and share a device. For tests and examples without NCCL.
///
///     hcomp::in_process_world world(2);
///     // in the thread of rank r:
///     hcomp::in_process ranks(world, r);
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::gpu::in_process_stream transport(ranks, stream);
///     hcomp::plan sum(n, codec, transport, executor);
///     sum.all_reduce(x);  // returns when everything is enqueued
///     sum.check();
///
/// `wait` blocks until the peer's thread has enqueued its side, never for the device. Two events
/// per message in progress order the streams; they are kept. CUDA graphs that capture the streams
/// of all ranks capture the messages: begin the capture on one stream and let all other streams
/// join it by events. Use cudaStreamCaptureModeRelaxed, because several threads enqueue.
///
/// The caller owns both arguments, which must outlive this. One thread at a time.
/// @throws wire_error       on all ranks: a message has another size than its receiver expects
/// @throws transport_error  a peer failed
class in_process_stream {
 public:
  /// A pending send or receive. Wait for it exactly once.
  struct request {
    std::uint32_t slot = 0;
  };

  in_process_stream(in_process& ranks, cudaStream_t stream) : ranks_(&ranks), stream_(stream) {}
  in_process_stream(in_process_stream const&) = delete;
  in_process_stream& operator=(in_process_stream const&) = delete;

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  std::uint64_t group() const { return ranks_->group(); }
  bool reaches(memory_space space) const { return space == memory_space::device; }
  bool is_stream_ordered() const { return true; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    auto const r = free_slot(peer);
    auto& one = slots_[r.slot];
    one.is_receive = false;
    one.sent = {bytes.data(), bytes.size(), &one.ready, &one.taken};
    one.ready.record(stream_);
    one.answer = ranks_->irecv(peer, answers(tag), {});
    one.message = ranks_->isend(peer, tag, std::as_bytes(std::span(&one.sent, 1)));
    bytes_sent_ += bytes.size();
    return r;
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    auto const r = free_slot(peer);
    auto& one = slots_[r.slot];
    one.is_receive = true;
    one.to = bytes;
    one.tag = tag;
    one.message = ranks_->irecv(peer, tag, std::as_writable_bytes(std::span(&one.sent, 1)));
    return r;
  }
  std::size_t wait(request& r) {
    auto& one = slots_[r.slot];
    ranks_->wait(one.message);
    if (one.is_receive) {
      take(one);
    } else {
      ranks_->wait(one.answer);
      if (one.sent.bytes > 0) one.taken.hold(stream_);
    }
    free_.push_back(r.slot);
    return one.sent.bytes;
  }
  /// @throws wire_error  always, and on all ranks
  [[noreturn]] void revoke(std::string const& why) { ranks_->revoke(why); }

 private:
  /// What a sender tells the receiver of a message.
  struct sent_bytes {
    std::byte const* at = nullptr;
    std::size_t bytes = 0;
    detail::event* ready = nullptr;  ///< the sender's work before the message
    detail::event* taken = nullptr;  ///< the receiver records it after its copy
  };
  struct slot {
    sent_bytes sent;
    std::span<std::byte> to;
    int peer = 0;
    tag_t tag = 0;
    bool is_receive = false;
    in_process::request message;  ///< has `sent`
    in_process::request answer;   ///< of a send: the receiver has enqueued its copy
    detail::event ready, taken;   ///< of a send; see sent_bytes
  };

  /// Answers travel with a tag of their own.
  static tag_t answers(tag_t tag) { return ~tag; }

  request free_slot(int peer) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    auto const number = free_.back();
    free_.pop_back();
    slots_[number].peer = peer;
    return {number};
  }
  /// Enqueues the copy of a message whose sender has enqueued it.
  void take(slot& one) {
    auto const& sent = one.sent;
    if (sent.bytes != one.to.size())
      hcomp::detail::revoke(
          *ranks_,
          hcomp::detail::error_text({"in_process_stream: rank ", one.peer, " sent ", sent.bytes,
                                     " bytes, rank ", rank(), " expected ", one.to.size()}));
    if (sent.bytes > 0) {
      sent.ready->hold(stream_);
      HCOMP_CUDA_TRY(
          cudaMemcpyAsync(one.to.data(), sent.at, sent.bytes, cudaMemcpyDeviceToDevice, stream_));
      sent.taken->record(stream_);
    }
    auto answer = ranks_->isend(one.peer, answers(one.tag), {});
    ranks_->wait(answer);
  }

  in_process* ranks_;
  cudaStream_t stream_;
  std::deque<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t bytes_sent_ = 0;
};

static_assert(Transport<in_process_stream>);

}  // namespace hcomp::gpu
