#pragma once
/// @file
/// A stream-ordered transport over an NCCL communicator.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/nccl/library.hpp>
#include <hcomp/nccl/watcher.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::nccl {

struct transport_options {
  /// Limit for the messages of one hop, counted from the time at which the stream reaches them, and
  /// for NCCL to connect the ranks of a hop.
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  std::uint64_t group = 0;  ///< see Transport; equal on all ranks of the communicator
};

/// Moves messages in device memory by ncclSend and ncclRecv, as work of a stream. Nothing waits on
/// the host, except that NCCL connects two ranks in their first hop. Header-only; libnccl.so.2 is
/// found at run time.
///
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::nccl::transport ranks(communicator, stream);
///     hcomp::plan sum(n, hcomp::fit(hcomp::thc<float>{}, ranks.size()), ranks, executor);
///     sum.all_reduce(x);  // returns when everything is enqueued
///     sum.check();        // waits for the stream
///
/// All messages of a hop are one NCCL group, which is enqueued when the hop is waited for. Several
/// plans may use the transport in turn, and several transports one communicator, if all ranks make
/// their calls in the same order. One thread at a time per communicator. CUDA graphs can capture
/// calls whose ranks are connected.
///
/// A thread watches the messages of a communicator. If NCCL reports an error, for example after the
/// death of a rank, or after the timeout, it calls ncclCommAbort, which ends the messages. The next
/// call of each of its transports, and check(), throw transport_error. The communicator exists no
/// longer then (see is_aborted): do not call ncclCommDestroy. Messages in CUDA graphs are not
/// watched.
///
/// The caller owns communicator and stream, which must outlive this; wait for the stream before.
/// Memory: two events per hop in progress. Cost: a group call, and recording two events, per hop.
class transport {
 public:
  /// A pending send or receive. Wait for it exactly once.
  struct request {
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };

  /// @param stream  of the executor of the plans
  /// @throws std::runtime_error     no usable NCCL
  /// @throws std::invalid_argument  the timeout is not positive
  /// @throws transport_error        the communicator is not valid
  transport(communicator comm, cudaStream_t stream, transport_options const& options = {})
      : nccl_(&detail::library::get()), comm_(comm), stream_(stream), options_(options) {
    if (options.timeout <= std::chrono::nanoseconds::zero())
      throw std::invalid_argument(hcomp::detail::error_text(
          {"nccl: the timeout is ", static_cast<std::int64_t>(options.timeout.count()),
           " ns; it must be positive"}));
    require_valid(nccl_->user_rank(comm, &rank_), "ncclCommUserRank");
    require_valid(nccl_->count(comm, &size_), "ncclCommCount");
    watcher_ = detail::watcher::of(comm, rank_);
  }
  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return options_.group; }
  bool reaches(memory_space space) const { return space == memory_space::device; }
  bool is_stream_ordered() const { return true; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  /// Whether ncclCommAbort was called: the communicator exists no longer.
  bool is_aborted() const { return watcher_->is_aborted(); }

  request isend(int peer, tag_t, std::span<std::byte const> bytes) {
    bytes_sent_ += bytes.size();
    // NCCL takes addresses of both directions alike.
    return post({next_, peer, const_cast<std::byte*>(bytes.data()), bytes.size(), false});
  }
  request irecv(int peer, tag_t, std::span<std::byte> bytes) {
    return post({next_, peer, bytes.data(), bytes.size(), true});
  }
  /// Enqueues the hop of the request, if it is not enqueued yet.
  /// @throws transport_error  an earlier message has failed, or NCCL refuses this one
  std::size_t wait(request& r) {
    check();
    bool const is_pending = std::any_of(pending_.begin(), pending_.end(),
                                        [&](message const& one) { return one.number == r.number; });
    if (is_pending) enqueue(r.number);
    return r.bytes;
  }
  /// @throws transport_error  a message has failed
  void check() { watcher_->check(); }
  /// Other ranks learn of it as of the loss of this rank.
  /// @throws wire_error  always
  [[noreturn]] void revoke(std::string const& why) {
    watcher_->abort(-1, why);
    throw wire_error(why);
  }

 private:
  struct message {
    std::uint64_t number;
    int peer;
    std::byte* at;
    std::size_t bytes;
    bool is_receive;
  };

  request post(message const& one) {
    ++next_;
    if (one.bytes > 0) pending_.push_back(one);  // both sides know the size
    return {one.number, one.bytes};
  }

  /// Enqueues what was posted up to a request or the last send, as one group: sends and receives of
  /// a hop wait for each other. Receives of the next hop were posted after the last send.
  void enqueue(std::uint64_t number) {
    std::uint64_t last = number;
    for (auto const& one : pending_)
      if (!one.is_receive) last = std::max(last, one.number);
    auto const split = std::stable_partition(pending_.begin(), pending_.end(),
                                             [&](message const& one) { return one.number > last; });
    std::span const group(split, pending_.end());
    detail::peers peers;
    for (auto const& one : group) peers.add(one.peer, one.is_receive);
    watcher_->begin(stream_, peers, options_.timeout);
    char const* call = "ncclGroupEnd";
    int const result = enqueue(group, call);
    pending_.erase(split, pending_.end());
    watcher_->end(stream_, result, call, options_.timeout);
  }
  /// @param call  becomes the name of the call that failed
  int enqueue(std::span<message const> group, char const*& call) const {
    if (int const result = nccl_->group_start(); result != detail::success) return result;
    int refused = detail::success;
    for (auto const& one : group) {
      int const result =
          one.is_receive
              ? nccl_->receive(one.at, one.bytes, detail::as_bytes, one.peer, comm_, stream_)
              : nccl_->send(one.at, one.bytes, detail::as_bytes, one.peer, comm_, stream_);
      if (result == detail::success || result == detail::in_progress) continue;
      refused = result;
      call = one.is_receive ? "ncclRecv" : "ncclSend";
      break;
    }
    int const ended = nccl_->group_end();
    return refused != detail::success ? refused : ended;
  }
  void require_valid(int result, char const* call) const {
    if (result != detail::success)
      throw transport_error(
          -1, hcomp::detail::error_text({"nccl: ", call, ": ", nccl_->error_string(result)}));
  }

  detail::library const* nccl_;
  communicator comm_;
  cudaStream_t stream_;
  transport_options options_;
  int rank_ = -1;
  int size_ = 0;
  std::shared_ptr<detail::watcher> watcher_;
  std::uint64_t next_ = 1;
  std::uint64_t bytes_sent_ = 0;
  std::vector<message> pending_;  ///< not enqueued yet, in the order of posting
};

static_assert(Transport<transport>);

}  // namespace hcomp::nccl
