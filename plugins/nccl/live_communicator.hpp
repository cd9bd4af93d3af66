#pragma once
/// @file
/// A communicator that another thread may end.

#include <hcomp/nccl/library.hpp>
#include <mutex>

namespace hcomp::drop_in {

/// Asks NCCL about a communicator only before ncclCommAbort or ncclCommDestroy, which free it.
class live_communicator {
 public:
  explicit live_communicator(nccl::communicator comm) : comm_(comm) {}

  nccl::communicator get() const { return comm_; }
  /// Its asynchronous error; ncclRemoteError once it is ended.
  int state() {
    std::lock_guard const lock(mutex_);
    int result = nccl::detail::remote_error;
    if (!is_ended_) nccl::detail::library::get().async_error(comm_, &result);
    return result;
  }
  /// The result of a call, which a nonblocking communicator has enqueued on return.
  int settled(int result) {
    while (result == nccl::detail::in_progress) result = state();
    if (result == nccl::detail::success && is_ended()) return nccl::detail::remote_error;
    return result;
  }
  /// Before NCCL's function that ends it.
  void end() {
    std::lock_guard const lock(mutex_);
    is_ended_ = true;
  }
  bool is_ended() {
    std::lock_guard const lock(mutex_);
    return is_ended_;
  }

 private:
  nccl::communicator comm_;
  std::mutex mutex_;
  bool is_ended_ = false;
};

}  // namespace hcomp::drop_in
