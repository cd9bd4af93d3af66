#pragma once
/// @file
/// Pending MPI messages, so that all of them can be ended.

#include <mpi.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace hcomp::mpi {

/// A pending send or receive.
struct pending_message {
  MPI_Request handle = MPI_REQUEST_NULL;
  int peer = -1;
  tag_t tag = 0;
  std::size_t bytes = 0;
  bool is_send = false;
  std::chrono::steady_clock::time_point since = {};   ///< time of the first poll
  std::uint64_t asked = 0;                            ///< number of polls
  std::optional<hcomp::detail::deadline> limit = {};  ///< starts with the first poll
};

/// A table of pending messages with reusable slots, and the number of messages per peer. Allocates
/// only if the number of pending messages reaches a new maximum.
class pending_messages {
 public:
  explicit pending_messages(int ranks)
      : sent_(static_cast<std::size_t>(ranks)), received_(static_cast<std::size_t>(ranks)) {}

  pending_message& operator[](int slot) { return messages_[static_cast<std::size_t>(slot)]; }
  auto begin() { return messages_.begin(); }
  auto end() { return messages_.end(); }

  int add(pending_message const& one) {
    if (one.is_send) ++sent_[static_cast<std::size_t>(one.peer)];
    if (free_.empty()) {
      free_.reserve(messages_.size() + 1);  // so that `remove` cannot fail
      messages_.push_back(one);
      return static_cast<int>(messages_.size()) - 1;
    }
    int const slot = free_.back();
    free_.pop_back();
    (*this)[slot] = one;
    return slot;
  }
  /// The message is complete.
  void remove(int slot) {
    auto& one = (*this)[slot];
    if (!one.is_send) ++received_[static_cast<std::size_t>(one.peer)];
    one.handle = MPI_REQUEST_NULL;
    free_.push_back(slot);
  }

  /// Waits, at most for `limit`, until all messages on a revoked communicator have ended (see
  /// ulfm::revoke). Their buffers are free then.
  void end(std::chrono::milliseconds limit) {
    hcomp::detail::deadline last(limit);
    for (auto& one : messages_)
      for (int done = 0; one.handle != MPI_REQUEST_NULL && !done;) {
        if (MPI_Test(&one.handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
        if (last.passed()) return;
        std::this_thread::yield();
      }
  }

  std::uint64_t& sent(int peer) { return sent_[static_cast<std::size_t>(peer)]; }
  std::uint64_t& received(int peer) { return received_[static_cast<std::size_t>(peer)]; }

 private:
  std::vector<pending_message> messages_;
  std::vector<int> free_;
  std::vector<std::uint64_t> sent_, received_;
};

}  // namespace hcomp::mpi
