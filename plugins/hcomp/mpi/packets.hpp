#pragma once
/// @file
/// A packet link over MPI, for aggregators and their workers.

#include <mpi.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hcomp::mpi {

/// A PacketLink on its own communicator. Loses no packet and keeps the order between each pair of
/// ranks. For one thread at a time.
class packets {
 public:
  /// Collective over `comm`, which is duplicated. Destruction is collective, too, and discards
  /// packets that were not received, unless a transport_error was thrown.
  explicit packets(MPI_Comm comm) {
    require(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    rank_ = rank_of(comm_);
    size_ = size_of(comm_);
  }
  packets(packets const&) = delete;
  packets& operator=(packets const&) = delete;
  ~packets() {
    if (!is_running() || failed_) return;
    try {
      drain();
      MPI_Comm_free(&comm_);
    } catch (std::exception const&) {  // the job is about to end
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::chrono::nanoseconds now() const {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  /// @throws std::invalid_argument  peer outside the communicator, or a packet of 2 GiB or more
  /// @throws transport_error        MPI fails
  void send(int peer, std::span<std::byte const> packet) {
    hcomp::detail::require_peer("send", peer, size_, "communicator");
    if (packet.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument("send: a packet of " + std::to_string(packet.size()) +
                                  " bytes, MPI allows at most " +
                                  std::to_string(std::numeric_limits<int>::max()));
    forget_sent();
    auto& one = under_way_.emplace_back();
    if (!spare_.empty()) {
      one.bytes.swap(spare_.back());
      spare_.pop_back();
    }
    one.bytes.assign(packet.begin(), packet.end());
    // Synchronous: completes on arrival, which drain() relies on.
    check(MPI_Issend(one.bytes.data(), static_cast<int>(packet.size()), MPI_BYTE, peer, tag, comm_,
                     &one.request),
          "send to rank " + std::to_string(peer), peer);
    bytes_sent_ += packet.size();
  }

  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    auto const start = now();
    for (int idle = 0;; ++idle) {
      int found = 0;
      MPI_Message message;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &message, &status), "MPI_Improbe");
      if (found) return take(message, status, buffer);
      forget_sent();
      if (now() - start >= timeout) return {};
      if (idle > 64) std::this_thread::yield();
    }
  }

 private:
  static constexpr int tag = 0;
  struct packet {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> bytes;
  };

  received_packet take(MPI_Message& message, MPI_Status const& found, std::span<std::byte> buffer) {
    int count = 0;
    MPI_Get_count(&found, MPI_BYTE, &count);
    auto const bytes = static_cast<std::size_t>(count);
    // A packet longer than `buffer` needs its own buffer: MPI cannot truncate it.
    if (bytes > buffer.size()) longer_.resize(bytes);
    std::byte* const to = bytes > buffer.size() ? longer_.data() : buffer.data();
    check(MPI_Mrecv(to, count, MPI_BYTE, &message, MPI_STATUS_IGNORE),
          "receive from rank " + std::to_string(found.MPI_SOURCE), found.MPI_SOURCE);
    if (bytes > buffer.size()) std::copy_n(longer_.begin(), buffer.size(), buffer.begin());
    return {found.MPI_SOURCE, bytes};
  }

  /// Recycles the memory of the oldest packets that were sent.
  void forget_sent() {
    while (!under_way_.empty()) {
      int done = 0;
      check(MPI_Test(&under_way_.front().request, &done, MPI_STATUS_IGNORE), "send");
      if (!done) return;
      spare_.push_back(std::move(under_way_.front().bytes));
      under_way_.pop_front();
    }
  }

  /// Receives and discards packets until all packets of all ranks have arrived: a rank enters a
  /// barrier once its own packets have arrived, and receives until the barrier completes.
  /// Source: Hoefler, Siebert and Lumsdaine, PPoPP 2010 (NBX).
  void drain() {
    std::vector<std::byte> buffer(1);
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool in_barrier = false;
    for (int done = 0; !done;) {
      receive(buffer, std::chrono::nanoseconds(0));
      if (!in_barrier && under_way_.empty()) {
        check(MPI_Ibarrier(comm_, &barrier), "MPI_Ibarrier");
        in_barrier = true;
      }
      if (in_barrier) check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier");
      if (!done) std::this_thread::yield();
    }
  }

  void check(int code, std::string const& what, int peer = -1) {
    if (code != MPI_SUCCESS) failed_ = true;
    require(code, what, peer);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool failed_ = false;
  std::deque<packet> under_way_;
  std::vector<std::vector<std::byte>> spare_;  ///< memory of sent packets, for reuse
  std::vector<std::byte> longer_;
  std::uint64_t bytes_sent_ = 0;
};

static_assert(PacketLink<packets>);

}  // namespace hcomp::mpi
