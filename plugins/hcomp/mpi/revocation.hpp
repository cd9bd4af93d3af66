#pragma once
/// @file
/// How all ranks end together after one of them cannot continue.

#include <mpi.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/pending.hpp>
#include <hcomp/mpi/ulfm.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hcomp::mpi {

/// The reason of the end, which each rank sends to every other rank, with the number of messages it
/// sent.
struct notice {
  std::uint64_t sent = 0;   ///< messages sent to the receiver of this notice since the transport
                            ///< was created
  std::int32_t finder = 0;  ///< the rank that cannot continue
  static constexpr std::int32_t nobody = -2;
  std::int32_t culprit = -1;  ///< peer of the transport_error, or nobody; -1: a wire_error
  std::array<char, 1008> text{};

  void set_text(std::string_view words) {
    std::memcpy(text.data(), words.data(), std::min(words.size(), text.size() - 1));
  }
  [[noreturn]] void raise() const {
    std::string const words(text.data(), strnlen(text.data(), text.size()));
    if (culprit == -1) throw wire_error(words);
    throw transport_error(culprit == nobody ? -1 : culprit, words);
  }
};

/// The tags of a transport's messages, first to notices - 1, and the tag reserved for notices.
struct tag_range {
  int first, notices;
};

/// One rank's part in a revocation. Every rank sends a notice with its message count to every other
/// rank, cancels its receives, and receives and discards all messages sent to it. Thus all sends
/// complete, and no message of the communicator is pending.
class revocation {
 public:
  revocation(MPI_Comm comm, tag_range tags, pending_messages& messages)
      : comm_(comm), tags_(tags), rank_(rank_of(comm)), size_(size_of(comm)), messages_(messages) {}

  /// True if a notice of some rank has arrived.
  /// @param tag  tag of notices
  static bool is_told(MPI_Comm comm, int tag) {
    int told = 0;
    return MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &told, MPI_STATUS_IGNORE) == MPI_SUCCESS && told;
  }

  /// Sends and receives notices. A rank that does not take part, because it no longer needs the
  /// communicator, is waited for at most for `limit`; messages to it stay pending. Failed ranks are
  /// not waited for, if MPI reports them.
  /// @param mine  the finding of this rank, or null: other ranks have one
  /// @return      the finding of the lowest rank that has one; its finder is -1 if a rank failed
  ///              meanwhile, so that no more notices can be received
  notice run(notice const* mine, std::chrono::milliseconds limit) {
    hcomp::detail::deadline end(limit);
    peers_.resize(static_cast<std::size_t>(size_));
    if (mine) hear(*mine);
    while (!mine && first_.finder < 0) {  // some rank has sent a notice
      if (ulfm::is_revoked(comm_)) return first_;
      hear_all();
    }
    tell_all();
    take_receives_back();
    while (!is_done() && !end.passed()) {
      hear_all();
      for (int peer = 0; peer < size_; ++peer) drain(peer);
      for (int const peer : ulfm::lost_ranks(comm_)) state(peer).is_lost = true;
      std::this_thread::yield();
    }
    return first_;
  }

  /// True if no message of the communicator is pending on this rank.
  bool is_done() {
    bool const is_given_up = ulfm::is_revoked(comm_);
    bool done = true;
    for (auto& one : drained_) done &= is_done(one.handle);
    for (auto& one : messages_) done &= is_done(one);
    for (int peer = 0; peer < size_; ++peer) {
      auto& it = state(peer);
      done &= is_done(it.telling) &&
              (is_given_up || it.is_lost || (it.was_told && messages_.received(peer) >= it.sent));
    }
    return done;
  }

 private:
  struct peer_state {
    bool was_told = false;   ///< by the peer
    bool is_lost = false;    ///< the peer has failed
    std::uint64_t sent = 0;  ///< by the peer
    notice leaving;
    MPI_Request telling = MPI_REQUEST_NULL;
  };
  struct forgotten {
    std::vector<std::byte> bytes;
    MPI_Request handle = MPI_REQUEST_NULL;
  };

  peer_state& state(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  void hear(notice const& one) {
    if (first_.finder < 0 || one.finder < first_.finder) first_ = one;
  }
  void hear_all() {
    for (int peer = 0; peer < size_; ++peer) {
      auto& from = state(peer);
      int told = 0;
      if (from.was_told || peer == rank_ ||
          MPI_Iprobe(peer, tags_.notices, comm_, &told, MPI_STATUS_IGNORE) != MPI_SUCCESS || !told)
        continue;
      notice one;
      if (MPI_Recv(&one, sizeof(one), MPI_BYTE, peer, tags_.notices, comm_, MPI_STATUS_IGNORE) !=
          MPI_SUCCESS)
        continue;
      from.was_told = true;
      from.sent = one.sent;
      hear(one);
    }
  }
  void tell_all() {
    for (int peer = 0; peer < size_; ++peer) {
      auto& to = state(peer);
      if (peer == rank_) {
        to.was_told = true;
        to.sent = messages_.sent(rank_);
        continue;
      }
      to.leaving = first_;
      to.leaving.sent = messages_.sent(peer);
      MPI_Isend(&to.leaving, sizeof(notice), MPI_BYTE, peer, tags_.notices, comm_, &to.telling);
    }
  }
  void take_receives_back() {
    for (auto& one : messages_)
      if (!one.is_send && one.handle != MPI_REQUEST_NULL) MPI_Cancel(&one.handle);
  }
  /// Receives messages of the peer for which no receive was posted.
  void drain(int peer) {
    auto const& from = state(peer);
    // a transport on a shared communicator has a single message tag
    int const tag = tags_.notices == tags_.first + 1 ? tags_.first : MPI_ANY_TAG;
    int arrived = 1;
    while (from.was_told && messages_.received(peer) < from.sent) {
      MPI_Status status;
      if (MPI_Iprobe(peer, tag, comm_, &arrived, &status) != MPI_SUCCESS || !arrived) return;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      auto& one = drained_.emplace_back();
      one.bytes.resize(static_cast<std::size_t>(bytes));
      if (MPI_Irecv(one.bytes.data(), bytes, MPI_BYTE, peer, status.MPI_TAG, comm_, &one.handle) !=
          MPI_SUCCESS)
        return;
      ++messages_.received(peer);
    }
  }
  static bool is_done(MPI_Request& handle) {
    int done = 1;
    return handle == MPI_REQUEST_NULL ||
           MPI_Test(&handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  }
  bool is_done(pending_message& one) {
    if (one.handle == MPI_REQUEST_NULL) return true;
    MPI_Status status;
    int done = 0, cancelled = 0;
    if (MPI_Test(&one.handle, &done, &status) != MPI_SUCCESS) return true;
    if (done && !one.is_send) {
      MPI_Test_cancelled(&status, &cancelled);
      if (!cancelled) ++messages_.received(one.peer);
    }
    return done;
  }

  MPI_Comm comm_;
  tag_range tags_;
  int rank_, size_;
  pending_messages& messages_;
  notice first_{.finder = -1};
  std::vector<peer_state> peers_;
  std::list<forgotten> drained_;
};

}  // namespace hcomp::mpi
