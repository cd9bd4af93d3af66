#pragma once
/// @file
/// How ranks end together what one of them cannot go on with.

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
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hcomp::mpi {

/// Why all is over, as ranks tell each other; to every rank, with the messages that it was sent.
struct notice {
  std::uint64_t sent = 0;   ///< messages to the receiver of this, since the transport was made
  std::int32_t finder = 0;  ///< the rank that cannot go on
  static constexpr std::int32_t nobody = -2;
  std::int32_t culprit = -1;  ///< of a transport_error, or nobody; -1: a wire_error
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

/// Which tags the messages of a transport have, up to that of notices, which no other has.
struct tag_range {
  int first, notices;
};

/// One rank's part in it. Every rank tells every other one that all is over and how many messages
/// it has sent there, takes back its receives, and receives and forgets what was sent to it; so all
/// sends end, and nothing of the communicator is under way any more.
class revocation {
 public:
  revocation(MPI_Comm comm, tag_range tags, pending_messages& messages)
      : comm_(comm), tags_(tags), rank_(rank_of(comm)), size_(size_of(comm)), messages_(messages) {}

  /// True if some rank has told.
  /// @param tag  of notices
  static bool is_told(MPI_Comm comm, int tag) {
    int told = 0;
    return MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &told, MPI_STATUS_IGNORE) == MPI_SUCCESS && told;
  }

  /// Tells and is told. Who never comes here, since it needs nothing of this communicator any more,
  /// is waited for as long as `limit` says; what was sent to it stays under way. Who is lost is not
  /// waited for, where the MPI tells.
  /// @param mine  what this rank has found, or null: the others have
  /// @return      what was found by the lowest of the ranks that have found something; its finder is -1
  ///              if a loss was found meanwhile, and what was told cannot be heard any more
  notice run(notice const* mine, std::chrono::milliseconds limit) {
    auto const end = std::chrono::steady_clock::now() + limit;
    peers_.resize(static_cast<std::size_t>(size_));
    if (mine) hear(*mine);
    while (!mine && first_.finder < 0) {  // somebody has told
      if (ulfm::is_revoked(comm_)) return first_;
      hear_all();
    }
    tell_all();
    take_receives_back();
    while (!is_done() && std::chrono::steady_clock::now() < end) {
      hear_all();
      for (int peer = 0; peer < size_; ++peer) drain(peer);
      for (int const peer : ulfm::lost_ranks(comm_)) state(peer).is_lost = true;
      std::this_thread::yield();
    }
    return first_;
  }

  /// Nothing of the communicator is under way any more, on this rank.
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
    bool is_lost = false;    ///< it says nothing any more
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
  /// Takes what the peer has sent and nobody has received.
  void drain(int peer) {
    auto const& from = state(peer);
    // what shares its communicator has one tag
    int const tag = tags_.notices == tags_.first + 1 ? tags_.first : MPI_ANY_TAG;
    int there = 1;
    while (from.was_told && messages_.received(peer) < from.sent) {
      MPI_Status status;
      if (MPI_Iprobe(peer, tag, comm_, &there, &status) != MPI_SUCCESS || !there) return;
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
