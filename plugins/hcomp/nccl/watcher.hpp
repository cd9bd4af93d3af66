#pragma once
/// @file
/// Watches the messages of an NCCL communicator.

#include <cuda_runtime.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/nccl/library.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::nccl::detail {

/// A peer of each direction of a group of messages.
struct peers {
  static constexpr int none = -1, several = -2;

  void add(int peer, bool is_receive) {
    int& one = is_receive ? from : to;
    one = one == none || one == peer ? peer : several;
  }
  std::string text() const {
    auto const name = [](int peer) {
      return peer == several ? std::string("several ranks") : "rank " + std::to_string(peer);
    };
    std::string text;
    if (from != none) text += ", receiving from " + name(from);
    if (to != none) text += ", sending to " + name(to);
    return text;
  }

  int from = none, to = none;
};

/// State of one communicator, which all its transports share: the groups in progress, and why it
/// was aborted. A thread finds errors of NCCL, and groups that take too long.
class watcher {
 public:
  /// @param rank  of this process, for error texts
  static std::shared_ptr<watcher> of(communicator comm, int rank) {
    static std::mutex mutex;
    static std::map<communicator, std::weak_ptr<watcher>> all;
    std::lock_guard const lock(mutex);
    auto found = all[comm].lock();
    // A new communicator may have the address of an aborted one.
    if (!found || found->is_aborted()) all[comm] = found = std::make_shared<watcher>(comm, rank);
    return found;
  }

  watcher(communicator comm, int rank) : nccl_(&library::get()), comm_(comm), rank_(rank) {
    HCOMP_CUDA_TRY(cudaGetDevice(&device_));
  }
  watcher(watcher const&) = delete;
  watcher& operator=(watcher const&) = delete;
  ~watcher() {
    {
      std::lock_guard const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  bool is_aborted() const {
    std::lock_guard const lock(mutex_);
    return !failure_.empty();
  }
  /// @throws transport_error  the communicator was aborted
  void check() const {
    std::lock_guard const lock(mutex_);
    require_running();
  }
  void abort(int peer, std::string const& why) {
    std::lock_guard const lock(mutex_);
    abort_locked(peer, why);
  }

  /// Called before a group is enqueued, which may take long where NCCL connects ranks.
  /// @throws transport_error  the communicator was aborted
  void begin(cudaStream_t stream, peers const& with, std::chrono::nanoseconds timeout) {
    auto status = cudaStreamCaptureStatusNone;
    HCOMP_CUDA_TRY(cudaStreamIsCapturing(stream, &status));
    std::lock_guard const lock(mutex_);
    require_running();
    group one = spare_.empty() ? group{} : std::move(spare_.back());
    if (!spare_.empty()) spare_.pop_back();
    one.with = with;
    one.timeout = timeout;
    one.since = clock::now();
    one.state = progress::enqueuing;
    one.is_captured = status != cudaStreamCaptureStatusNone;
    if (!one.is_captured) one.begin.record(stream);
    groups_.push_back(std::move(one));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
  }
  /// Called when the group is enqueued.
  /// @param result, call  of NCCL
  /// @throws transport_error  NCCL has refused the group, or the communicator was aborted
  void end(cudaStream_t stream, int result, char const* call, std::chrono::nanoseconds timeout) {
    if (result == in_progress) result = settled(timeout);
    std::lock_guard const lock(mutex_);
    require_running();
    auto& one = groups_.back();
    if (result != success) {
      abort_locked(
          -1, hcomp::detail::error_text({"nccl: rank ", rank_, ": ", call, ": ", text_of(result)}));
      require_running();
    }
    if (one.is_captured) {
      spare_.push_back(std::move(one));
      groups_.pop_back();
      return;
    }
    one.end.record(stream);
    one.state = progress::enqueued;
  }

 private:
  using clock = std::chrono::steady_clock;
  enum class progress { enqueuing, enqueued, begun };

  /// Messages of one hop.
  struct group {
    gpu::detail::event begin, end;
    peers with;
    std::chrono::nanoseconds timeout{};
    clock::time_point since{};  ///< the present state
    progress state = progress::enqueuing;
    bool is_captured = false;
  };

  void require_running() const {
    if (!failure_.empty()) throw transport_error(failed_peer_, failure_);
  }
  /// The result of a call to a nonblocking communicator, within the timeout.
  int settled(std::chrono::nanoseconds timeout) const {
    int result = in_progress;
    auto const end = clock::now() + timeout;
    while (result == in_progress && clock::now() < end && !is_aborted()) {
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

  void run() {
    cudaSetDevice(device_);
    // Queries of events are no part of what other threads capture.
    auto mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    std::unique_lock lock(mutex_);
    while (!ends_ && failure_.empty()) {
      if (groups_.empty())
        changed_.wait(lock);
      else
        changed_.wait_for(
            lock, std::min<std::chrono::nanoseconds>(groups_.front().timeout / 8, longest_pause));
      try {
        if (!ends_ && failure_.empty()) look();
      } catch (std::exception const& error) {  // CUDA itself has failed
        abort_locked(-1, error.what());
      }
    }
  }
  /// Forgets groups that are done, and aborts if one is late or NCCL reports an error.
  void look() {
    while (!groups_.empty() && groups_.front().state != progress::enqueuing &&
           groups_.front().end.is_done()) {
      spare_.push_back(std::move(groups_.front()));
      groups_.pop_front();
    }
    if (groups_.empty()) return;
    auto& first = groups_.front();
    if (first.state == progress::enqueued && first.begin.is_done()) {
      first.state = progress::begun;
      first.since = clock::now();
    }
    auto const& last = groups_.back();
    // NCCL must not lose the communicator within a call, unless the call itself takes too long.
    if (last.state == progress::enqueuing) {
      if (is_late(last)) abort_locked(last.with.from, late(last));
      return;
    }
    int result = success;
    nccl_->async_error(comm_, &result);
    if (result != success && result != in_progress)
      abort_locked(first.with.from,
                   hcomp::detail::error_text(
                       {"nccl: rank ", rank_, ": ", text_of(result), first.with.text()}));
    else if (first.state == progress::begun && is_late(first))
      abort_locked(first.with.from, late(first));
  }
  static bool is_late(group const& one) { return clock::now() - one.since >= one.timeout; }
  std::string late(group const& one) const {
    auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(one.timeout).count();
    return hcomp::detail::error_text({"nccl: rank ", rank_, ": a hop is not done within ",
                                      static_cast<std::int64_t>(ms), " ms", one.with.text()});
  }
  void abort_locked(int peer, std::string const& why) {
    if (!failure_.empty()) return;
    failure_ = why;
    failed_peer_ = peer >= 0 ? peer : -1;
    nccl_->abort(comm_);
  }

  static constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(50);

  library const* nccl_;
  communicator comm_;
  int rank_;
  int device_ = 0;
  mutable std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  std::deque<group> groups_;  ///< in progress; only the last one may be enqueuing
  std::vector<group> spare_;  ///< their events serve later ones
  std::string failure_;       ///< why the communicator was aborted; empty: it was not
  int failed_peer_ = -1;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace hcomp::nccl::detail
