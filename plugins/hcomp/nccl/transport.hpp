#pragma once
/// @file
/// A stream-ordered transport over an NCCL communicator.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/nccl/library.hpp>
#include <hcomp/transport/transport.hpp>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::nccl {

struct transport_options {
  /// Limit for the messages of one hop, counted from the time at which the stream reaches them.
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  std::uint64_t group = 0;  ///< see Transport; equal on all ranks of the communicator
};

/// Moves messages in device memory by ncclSend and ncclRecv, as work of a stream. Nothing waits on
/// the host; header-only, libnccl.so.2 is found at run time.
///
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::nccl::transport ranks(communicator, stream);
///     hcomp::plan sum(n, hcomp::fit(hcomp::thc<float>{}, ranks.size()), ranks, executor);
///     sum.all_reduce(x);  // returns when everything is enqueued
///     sum.check();        // waits for the stream
///
/// All messages of a hop are one NCCL group, which is enqueued when the hop is waited for. Several
/// plans may use the transport in turn, and several transports one communicator, if all ranks make
/// their calls in the same order. One thread at a time. CUDA graphs can capture the calls.
///
/// A thread watches the messages. If NCCL reports an error, for example after the death of a
/// rank, or after the timeout, it calls ncclCommAbort, which ends the messages. The next call, and
/// check(), throw transport_error. The communicator exists no longer then (see is_aborted): do not
/// call ncclCommDestroy. Messages in CUDA graphs are not watched.
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
    HCOMP_CUDA_TRY(cudaGetDevice(&device_));
    require(nccl_->user_rank(comm, &rank_), "ncclCommUserRank");
    require(nccl_->count(comm, &size_), "ncclCommCount");
  }
  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;
  ~transport() {
    {
      std::lock_guard const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (watcher_.joinable()) watcher_.join();
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return options_.group; }
  bool reaches(memory_space space) const { return space == memory_space::device; }
  bool is_stream_ordered() const { return true; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  /// Whether ncclCommAbort was called: the communicator exists no longer.
  bool is_aborted() const {
    std::lock_guard const lock(mutex_);
    return !failure_.empty();
  }

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
    for (auto const& one : pending_)
      if (one.number == r.number) {
        enqueue(r.number);
        break;
      }
    return r.bytes;
  }
  /// @throws transport_error  a message has failed
  void check() {
    std::lock_guard const lock(mutex_);
    if (!failure_.empty()) throw transport_error(failed_peer_, failure_);
  }
  /// Other ranks learn of it as of the loss of this rank.
  /// @throws wire_error  always
  [[noreturn]] void revoke(std::string const& why) {
    {
      std::lock_guard const lock(mutex_);
      abort(-1, why);
    }
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
  /// A group of messages in progress.
  struct watched {
    gpu::detail::event begin, end;
    int from = -1, to = -1;  ///< a peer of each direction; -1: none, -2: several
    bool has_begun = false;
    std::chrono::steady_clock::time_point begun{};
  };
  using clock = std::chrono::steady_clock;

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
    bool const is_watched = !is_captured();
    watched group = spare();
    if (is_watched) group.begin.record(stream_);
    require(nccl_->group_start(), "ncclGroupStart");
    int refused = detail::success;
    char const* call = "ncclGroupEnd";
    std::size_t kept = 0;
    for (auto const& one : pending_) {
      if (one.number > last) {
        pending_[kept++] = one;
        continue;
      }
      if (refused != detail::success) continue;
      auto& peer = one.is_receive ? group.from : group.to;
      peer = peer == -1 || peer == one.peer ? one.peer : -2;
      call = one.is_receive ? "ncclRecv" : "ncclSend";
      refused = one.is_receive
                    ? nccl_->receive(one.at, one.bytes, detail::as_bytes, one.peer, comm_, stream_)
                    : nccl_->send(one.at, one.bytes, detail::as_bytes, one.peer, comm_, stream_);
    }
    pending_.resize(kept);
    int const ended = nccl_->group_end();
    require(refused, call);
    require(ended, "ncclGroupEnd");
    if (!is_watched) return;
    group.end.record(stream_);
    watch(std::move(group));
  }
  bool is_captured() const {
    auto status = cudaStreamCaptureStatusNone;
    HCOMP_CUDA_TRY(cudaStreamIsCapturing(stream_, &status));
    return status != cudaStreamCaptureStatusNone;
  }

  /// Aborts the communicator if a call has failed.
  /// @throws transport_error  it has
  void require(int result, char const* call) {
    if (result == detail::in_progress) result = settled();
    if (result == detail::success) return;
    std::lock_guard const lock(mutex_);
    std::string const why = text_of(result);
    if (rank_ < 0)
      throw transport_error(-1, hcomp::detail::error_text({"nccl: ", call, ": ", why}));
    abort(-1, hcomp::detail::error_text({"nccl: rank ", rank_, ": ", call, ": ", why}));
    throw transport_error(-1, failure_);
  }
  /// The result of a call to a nonblocking communicator, within the timeout.
  int settled() {
    int result = detail::in_progress;
    auto const end = clock::now() + options_.timeout;
    while (result == detail::in_progress && clock::now() < end) {
      nccl_->async_error(comm_, &result);
      std::this_thread::yield();
    }
    return result;
  }
  std::string text_of(int result) const {
    std::string text = nccl_->error_string(result);
    char const* const more = nccl_->last_error(comm_);
    if (more && *more) text += std::string(", ") + more;
    return text;
  }

  // ---- The thread that watches -------------------------------------------------------------------
  /// Events of an earlier group, or new ones.
  watched spare() {
    std::lock_guard const lock(mutex_);
    watched one = spare_.empty() ? watched{} : std::move(spare_.back());
    if (!spare_.empty()) spare_.pop_back();
    one.from = one.to = -1;
    one.has_begun = false;
    return one;
  }
  void watch(watched group) {
    std::lock_guard const lock(mutex_);
    in_progress_.push_back(std::move(group));
    if (!watcher_.joinable()) watcher_ = std::thread([this] { run(); });
    changed_.notify_all();
  }
  void run() {
    cudaSetDevice(device_);
    std::unique_lock lock(mutex_);
    auto const pause = std::min<std::chrono::nanoseconds>(options_.timeout / 8, longest_pause);
    while (!ends_ && failure_.empty()) {
      if (in_progress_.empty())
        changed_.wait(lock);
      else
        changed_.wait_for(lock, pause, [&] { return ends_; });
      try {
        if (!ends_ && failure_.empty()) look();
      } catch (std::exception const& error) {  // CUDA itself has failed
        abort(-1, error.what());
      }
    }
  }
  /// Forgets groups that are done, and fails if one is late or NCCL reports an error.
  void look() {
    while (!in_progress_.empty() && in_progress_.front().end.is_done()) {
      spare_.push_back(std::move(in_progress_.front()));
      in_progress_.pop_front();
    }
    int result = detail::success;
    nccl_->async_error(comm_, &result);
    bool const has_error = result != detail::success && result != detail::in_progress;
    if (in_progress_.empty() && !has_error) return;
    if (has_error) {
      bool const is_busy = !in_progress_.empty();
      abort(is_busy ? in_progress_.front().from : -1,
            hcomp::detail::error_text({"nccl: rank ", rank_, ": ", text_of(result),
                                       is_busy ? peers_of(in_progress_.front()) : ""}));
      return;
    }
    auto& first = in_progress_.front();
    if (!first.has_begun && first.begin.is_done()) {
      first.has_begun = true;
      first.begun = clock::now();
    }
    if (!first.has_begun || clock::now() - first.begun < options_.timeout) return;
    auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout).count();
    abort(first.from,
          hcomp::detail::error_text({"nccl: rank ", rank_, ": a hop is not done within ",
                                     static_cast<std::int64_t>(ms), " ms", peers_of(first)}));
  }
  static std::string peers_of(watched const& group) {
    auto const name = [](int peer) {
      return peer == -2 ? std::string("several ranks") : "rank " + std::to_string(peer);
    };
    std::string text;
    if (group.from != -1) text += ", receiving from " + name(group.from);
    if (group.to != -1) text += ", sending to " + name(group.to);
    return text;
  }
  /// Called with the lock.
  void abort(int peer, std::string const& why) {
    if (!failure_.empty()) return;
    failure_ = why;
    failed_peer_ = peer >= 0 ? peer : -1;
    nccl_->abort(comm_);
  }

  static constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(50);

  detail::library const* nccl_;
  communicator comm_;
  cudaStream_t stream_;
  transport_options options_;
  int rank_ = -1;
  int size_ = 0;
  int device_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t bytes_sent_ = 0;
  std::vector<message> pending_;  ///< not enqueued yet, in the order of posting

  mutable std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  std::deque<watched> in_progress_;
  std::vector<watched> spare_;
  std::string failure_;  ///< why the communicator was aborted; empty: it was not
  int failed_peer_ = -1;
  bool ends_ = false;
  std::thread watcher_;
};

static_assert(Transport<transport>);

}  // namespace hcomp::nccl
