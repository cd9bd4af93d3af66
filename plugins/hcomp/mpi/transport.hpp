#pragma once
/// @file
/// The transport over MPI point-to-point messages.

#include <mpi.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/communicators.hpp>
#include <hcomp/mpi/device_memory.hpp>
#include <hcomp/mpi/pending.hpp>
#include <hcomp/mpi/revocation.hpp>
#include <hcomp/mpi/ulfm.hpp>
#include <hcomp/transport/detail/nap.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace hcomp::mpi {

/// How a rank waits for a message.
enum class waiting {
  yield,  ///< polls MPI and yields the core in turns: ranks may share cores
  sleep,  ///< polls MPI and sleeps in turns, for 20 us to 1 ms: for threads that share cores with
          ///< computation
  block   ///< calls MPI_Wait: for MPIs that sleep in it or simulate time, for example SMPI
};

/// Moves bytes with MPI_Isend and MPI_Irecv on its own communicator, or with its own tags.
///
/// Errors that MPI reports become transport_error. Plain MPI does not detect a dead peer or a
/// broken link: most libraries abort the job, some wait for ever. To detect them, use
/// hcomp::ucx::transport, or an MPI with ULFM (ulfm::is_on). With ULFM a failed rank is a
/// transport_error with its number on all other ranks; the communicator is revoked, and its pending
/// messages have ended.
///
/// set_time_limit bounds the wait for a live peer that never sends the message, for example because
/// it calls a plan with another tag.
///
/// If one rank cannot continue (revoke, or a message longer than its receive), the operation ends
/// on all ranks. Each throws the same error at its next wait, except with waiting::block, which
/// receives no notices. Receives are cancelled; sent messages are received and discarded. For
/// messages longer than their receives this requires an MPI that survives them: MPICH 4.0 aborts
/// the job, Open MPI 4.1 can write past the receive. For one thread at a time.
class transport {
 public:
  /// A pending send or receive. Must be waited for exactly once.
  struct request {
    int slot = -1;
  };

  /// Collective over `comm`, which is duplicated. Destruction is collective, too, unless a
  /// transport_error was thrown.
  explicit transport(MPI_Comm comm, waiting how = waiting::yield)
      : transport(private_comm{duplicate(comm)}, how) {}
  /// Takes ownership of `comm`. Collective if its ranks belong to several jobs, see group_of.
  explicit transport(private_comm comm, waiting how = waiting::yield)
      : transport(comm.handle, nullptr, {.first = 0, .notices = largest_tag_of(comm.handle)}, how) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  /// Shares the communicator, and sets it to return errors.
  explicit transport(shared_comm of, waiting how = waiting::yield)
      : transport(*of.comm, of.comm, {.first = 0, .notices = largest_tag_of(*of.comm)}, how) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  /// Not collective, unless the ranks belong to several jobs; destruction is never collective.
  explicit transport(private_tags tags, waiting how = waiting::yield)
      : transport(*tags.comm, tags.comm, {.first = tags.first, .notices = tags.first + 1}, how) {}
  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;
  ~transport() {
    if (!is_running()) return;
    if (!failed_ && is_told()) take_part(nullptr);
    if (!failed_ && !shared_) MPI_Comm_free(&comm_);  // freeing may wait for other ranks
    if (ending_ && !ending_->is_done())
      static_cast<void>(ending_.release());  // MPI still uses its memory
  }

  /// Takes effect with the next wait.
  void set_waiting(waiting how) { waiting_ = how; }
  /// Takes effect with the next wait. A message that takes longer is a transport_error on all ranks
  /// that wait then or later. Not with waiting::block. Default: no limit, as in MPI.
  /// @throws std::invalid_argument  limit <= 0
  void set_time_limit(std::chrono::nanoseconds limit) {
    if (limit <= limit.zero())
      throw std::invalid_argument("mpi: a time limit of " + std::to_string(limit.count()) +
                                  " ns, it must be positive");
    time_limit_ = limit;
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return group_; }
  /// True for device memory if MPI reports support.
  bool reaches(memory_space space) const { return space == memory_space::host || reaches_device(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    check("isend", peer, tag, bytes.size());
    pending_message one{MPI_REQUEST_NULL, peer, tag, bytes.size(), true};
    int const code = MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer,
                               tags_.first + static_cast<int>(tag), comm_, &one.handle);
    if (code != MPI_SUCCESS) fail(one, code);
    bytes_sent_ += bytes.size();
    return {messages_.add(one)};
  }

  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    check("irecv", peer, tag, bytes.size());
    pending_message one{MPI_REQUEST_NULL, peer, tag, bytes.size(), false};
    int const code = MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer,
                               tags_.first + static_cast<int>(tag), comm_, &one.handle);
    if (code != MPI_SUCCESS) fail(one, code);
    return {messages_.add(one)};
  }

  std::size_t wait(request& r) {
    refuse_after_failure();
    auto& one = messages_[r.slot];
    MPI_Status status;
    int const code =
        waiting_ == waiting::block ? MPI_Wait(&one.handle, &status) : poll(one, status);
    return moved_by(r, code, status);
  }

  /// The result of `wait` if it would return at once; otherwise empty.
  std::optional<std::size_t> test(request& r) {
    refuse_after_failure();
    MPI_Status status;
    int done = 0;
    int const code = ask(messages_[r.slot], done, status);
    if (code == MPI_SUCCESS && !done) return std::nullopt;
    return moved_by(r, code, status);
  }

  /// See Transport. MPI makes progress meanwhile, also on messages of the program.
  void wait_until(std::function<bool()> const& is_so) {
    auto const since = std::chrono::steady_clock::now();
    for (unsigned turn = 1; !is_so(); ++turn) {
      refuse_after_failure();
      if (is_told()) {
        take_part(nullptr);
        failed_->raise();
      }
      if (waiting_ == waiting::sleep && turn % hcomp::detail::turns_of_a_nap == 0)
        hcomp::detail::nap(std::chrono::steady_clock::now() - since);
      std::this_thread::yield();
    }
  }

  /// Returns within half a minute, even if some rank never takes part.
  /// @throws wire_error  always; on all ranks
  [[noreturn]] void revoke(std::string const& why) {
    refuse_after_failure();
    notice mine{.finder = rank_};
    mine.set_text(why);
    take_part(&mine);
    failed_->raise();
  }

 private:
  transport(MPI_Comm comm, std::shared_ptr<MPI_Comm const> shared, tag_range tags, waiting how)
      : comm_(comm),
        shared_(std::move(shared)),
        tags_(tags),
        waiting_(how),
        rank_(rank_of(comm)),
        size_(size_of(comm)),
        group_(group_of(comm)),
        messages_(size_) {}

  static MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Comm mine = MPI_COMM_NULL;
    require(MPI_Comm_dup(comm, &mine), "MPI_Comm_dup");
    return mine;
  }

  static int largest_tag_of(MPI_Comm comm) {
    int* bound = nullptr;
    int found = 0;
    require(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&bound), &found),
            "MPI_Comm_get_attr");
    return found ? *bound : 32767;  // the minimum that MPI guarantees
  }

  bool is_told() const { return revocation::is_told(comm_, tags_.notices); }
  void refuse_after_failure() const {
    if (failed_) failed_->raise();
  }
  /// Takes part in a revocation.
  void take_part(notice const* mine) {
    ending_ = std::make_unique<revocation>(comm_, tags_, messages_);
    failed_ = ending_->run(mine, std::chrono::seconds(30));
    if (failed_->finder < 0) failed_ = loss(nullptr);
  }
  /// Handles a failed rank, found by this rank or another one. Notifies all ranks.
  /// @param one  the message that did not arrive, or null
  notice loss(pending_message const* one) {
    ulfm::revoke(comm_);
    messages_.end(std::chrono::seconds(30));
    int const rank = ulfm::lost_rank(comm_, one ? one->peer : -1);
    auto const what = rank < 0 ? std::string("another rank has given the communicator up")
                               : "rank " + std::to_string(rank) + " is lost";
    notice mine = one ? about(*one, what) : notice{.finder = rank_};
    if (!one) mine.set_text("mpi: " + what);
    mine.culprit = rank < 0 ? notice::nobody : rank;
    return mine;
  }
  notice about(pending_message const& one, std::string const& what) const {
    notice mine{.finder = rank_, .culprit = one.peer};
    mine.set_text("mpi: " + std::string(one.is_send ? "send to rank " : "receive from rank ") +
                  std::to_string(one.peer) + " of " + std::to_string(one.bytes) +
                  " bytes: " + what);
    return mine;
  }
  /// Handles a timeout. The peer may be alive, but all ranks must be notified.
  [[noreturn]] void end_too_late(pending_message const& one) {
    auto const limit = std::chrono::duration_cast<std::chrono::milliseconds>(time_limit_).count();
    notice const mine = about(
        one,
        hcomp::detail::error_text({"not done within ", limit, " ms, with tag ", one.tag, "; rank ",
                                   one.peer, " is late, or calls a plan with another tag"}));
    take_part(&mine);
    failed_->raise();
  }
  /// Handles an error of a send or receive.
  [[noreturn]] void fail(pending_message const& one, int code) {
    if (ulfm::is_loss(code)) {
      failed_ = loss(&one);
      failed_->raise();
    }
    notice mine = about(one, error_text(code));
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE)
      take_part(&mine);  // MPI continues, and other ranks have not noticed
    else
      failed_ = mine;
    failed_->raise();
  }

  std::size_t moved_by(request& r, int code, MPI_Status const& status) {
    auto const one = messages_[r.slot];
    messages_.remove(r.slot);
    if (code != MPI_SUCCESS) fail(one, code);
    if (one.is_send) return one.bytes;
    int came = 0;
    require(MPI_Get_count(&status, MPI_BYTE, &came), "MPI_Get_count", one.peer);
    return static_cast<std::size_t>(came);
  }

  /// MPI_Wait that yields: those of Open MPI and MPICH keep the core busy.
  int poll(pending_message& one, MPI_Status& status) {
    int code = MPI_SUCCESS, done = 0;
    while (code == MPI_SUCCESS && !done) {
      if (one.asked > 64 && waiting_ == waiting::yield) std::this_thread::yield();
      constexpr auto turns = hcomp::detail::turns_of_a_nap;
      if (waiting_ == waiting::sleep && one.asked % turns == turns - 1)
        hcomp::detail::nap(std::chrono::steady_clock::now() - one.since);
      code = ask(one, done, status);
    }
    return code;
  }
  /// MPI_Test; every 1024 polls also checks for notices and the time limit.
  int ask(pending_message& one, int& done, MPI_Status& status) {
    using clock = std::chrono::steady_clock;
    bool const is_limited = time_limit_ > time_limit_.zero();
    if (one.asked == 0 && waiting_ == waiting::sleep) one.since = clock::now();
    if (one.asked == 0 && is_limited) one.limit.emplace(time_limit_);
    if (one.asked % 1024 == 1023) {
      if (is_told()) {
        take_part(nullptr);
        failed_->raise();
      }
      if (one.limit && one.limit->passed()) end_too_late(one);
    }
    ++one.asked;
    return MPI_Test(&one.handle, &done, &status);
  }

  void check(char const* what, int peer, tag_t tag, std::size_t bytes) const {
    refuse_after_failure();
    hcomp::detail::require_peer(what, peer, size_, "communicator");
    auto const largest = static_cast<tag_t>(tags_.notices - 1 - tags_.first);
    if (tag > largest)
      throw std::invalid_argument(std::string(what) + ": tag " + std::to_string(tag) +
                                  (shared_ ? ", there can be " : ", this MPI allows at most ") +
                                  std::to_string(largest));
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw std::invalid_argument(std::string(what) + ": " + std::to_string(bytes) +
                                  " bytes in one message, MPI allows at most " +
                                  std::to_string(std::numeric_limits<int>::max()));
  }

  MPI_Comm comm_;
  std::shared_ptr<MPI_Comm const> shared_;  ///< null: the transport owns its communicator
  tag_range tags_;
  waiting waiting_;
  std::chrono::nanoseconds time_limit_{};  ///< 0: none
  int rank_, size_;
  std::uint64_t group_;
  pending_messages messages_;
  std::optional<notice> failed_;        ///< the error of every later call
  std::unique_ptr<revocation> ending_;  // after messages_, which it uses
  std::uint64_t bytes_sent_ = 0;
};

static_assert(Transport<transport>);

}  // namespace hcomp::mpi
