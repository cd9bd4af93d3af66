#pragma once
/// @file
/// hcomp's collectives over MPI point-to-point.

#include <mpi.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/device_memory.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace hcomp::mpi {

/// What a rank does while it waits for a message.
enum class waiting {
  yield,  ///< asks MPI and gives the processor away in turns: ranks may share cores
  sleep,  ///< asks MPI and sleeps in turns, for 20 us to 1 ms: for threads beside others that
          ///< calculate
  block   ///< leaves it to MPI_Wait, for MPIs that sleep in it or simulate time, such as SMPI
};

/// A communicator that nobody else uses.
struct private_comm {
  MPI_Comm handle;
};

/// Moves bytes with MPI_Isend and MPI_Irecv on a communicator of its own.
///
/// Errors that MPI reports become transport_error (MPICH 4.0 aborts the job instead when it notices
/// one while waiting, such as a message longer than its receive); but plain MPI does not notice
/// that a peer died or a link was cut: most libraries abort the job, some wait for ever. Where that
/// matters use hcomp::ucx::transport. Used by one thread at a time.
class transport {
 public:
  /// A send or receive under way. Movable; waited for exactly once.
  struct request {
    MPI_Request handle = MPI_REQUEST_NULL;
    int peer = -1;
    std::size_t bytes = 0;
    bool is_send = false;
  };

  /// Collective over `comm`, which is duplicated; so is destruction, unless a transport_error was
  /// thrown.
  explicit transport(MPI_Comm comm, waiting how = waiting::yield)
      : transport(private_comm{duplicate(comm)}, how) {}
  /// Takes `comm`, which it frees.
  explicit transport(private_comm comm, waiting how = waiting::yield)
      : comm_(comm.handle), waiting_(how) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    rank_ = rank_of(comm_);
    size_ = size_of(comm_);
    int* bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&bound), &found);
    if (found) largest_tag_ = *bound;
  }
  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;
  ~transport() {
    if (is_running() && !failed_) MPI_Comm_free(&comm_);  // freeing may wait for the others
  }

  /// From the next wait on.
  void set_waiting(waiting how) { waiting_ = how; }

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The device's memory where the MPI says so.
  bool reaches(memory_space space) const { return space == memory_space::host || reaches_device(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    check("isend", peer, tag, bytes.size());
    request r{MPI_REQUEST_NULL, peer, bytes.size(), true};
    require(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer,
                      static_cast<int>(tag), comm_, &r.handle),
            "send to rank " + std::to_string(peer), peer);
    bytes_sent_ += bytes.size();
    return r;
  }

  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    check("irecv", peer, tag, bytes.size());
    request r{MPI_REQUEST_NULL, peer, bytes.size(), false};
    require(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer,
                      static_cast<int>(tag), comm_, &r.handle),
            "receive from rank " + std::to_string(peer), peer);
    return r;
  }

  std::size_t wait(request& r) {
    MPI_Status status;
    int const code =
        waiting_ == waiting::block ? MPI_Wait(&r.handle, &status) : poll(r.handle, status);
    if (code != MPI_SUCCESS) {
      failed_ = true;
      require(code,
              (r.is_send ? "send to rank " : "receive from rank ") + std::to_string(r.peer) +
                  " of " + std::to_string(r.bytes) + " bytes",
              r.peer);
    }
    if (r.is_send) return r.bytes;
    int came = 0;
    require(MPI_Get_count(&status, MPI_BYTE, &came), "MPI_Get_count", r.peer);
    return static_cast<std::size_t>(came);
  }

 private:
  static MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Comm mine = MPI_COMM_NULL;
    require(MPI_Comm_dup(comm, &mine), "MPI_Comm_dup");
    return mine;
  }

  /// MPI_Wait that yields: those of Open MPI and MPICH keep the processor.
  int poll(MPI_Request& handle, MPI_Status& status) const {
    int code = MPI_SUCCESS, done = 0;
    using clock = std::chrono::steady_clock;
    clock::time_point begin;
    if (waiting_ == waiting::sleep) begin = clock::now();
    for (int idle = 0; code == MPI_SUCCESS && !done; ++idle) {
      if (idle > 64 && waiting_ == waiting::yield) std::this_thread::yield();
      // Not yield: a thread that calculates would keep the processor for milliseconds. Not after
      // every question: Open MPI looks at its sockets every eighth time. An eighth of what it has
      // waited: as much later it may notice.
      if (waiting_ == waiting::sleep && idle % 9 == 8) {
        std::this_thread::sleep_for(std::clamp<clock::duration>((clock::now() - begin) / 8,
                                                                std::chrono::microseconds(20),
                                                                std::chrono::milliseconds(1)));
      }
      code = MPI_Test(&handle, &done, &status);
    }
    return code;
  }

  void check(char const* what, int peer, tag_t tag, std::size_t bytes) const {
    hcomp::detail::require_peer(what, peer, size_, "communicator");
    if (tag > static_cast<tag_t>(largest_tag_))
      throw std::invalid_argument(std::string(what) + ": tag " + std::to_string(tag) +
                                  ", this MPI allows at most " + std::to_string(largest_tag_));
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument(std::string(what) + ": " + std::to_string(bytes) +
                                  " bytes in one message, MPI allows at most " +
                                  std::to_string(std::numeric_limits<int>::max()));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  waiting waiting_;
  int rank_ = 0;
  int size_ = 1;
  bool failed_ = false;
  int largest_tag_ = 32767;  // what MPI guarantees
  std::uint64_t bytes_sent_ = 0;
};

static_assert(Transport<transport>);

}  // namespace hcomp::mpi
