#pragma once
/// @file
/// The transport over UCX: tagged messages.

#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/context.hpp>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/goodbye.hpp>
#include <hcomp/ucx/notices.hpp>
#include <hcomp/ucx/operations.hpp>
#include <hcomp/ucx/tags.hpp>
#include <hcomp/ucx/verdict.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace hcomp::ucx {

struct options {
  /// Timeout of the constructor, of one `wait`, and of the goodbyes at the end; 0: none. One
  /// message must pass in this time: choose it for the largest message and the slowest link.
  std::chrono::milliseconds timeout{30'000};
  peer_failure failures = peer_failure::detect;
  /// The network devices to use and to listen on, e.g. "eth0" or "lo". Empty:
  /// HCOMP_UCX_NET_DEVICES, else UCX_NET_DEVICES, else RDMA devices and the network that connects
  /// all ranks (see chosen_offers), without interfaces of containers and virtual machines.
  std::string devices{};
  /// Identifies this set of ranks of a job, as draw_key::group; equal on all of them.
  std::uint64_t group = 0;
};

/// Moves bytes between `size` ranks over UCX.
///
/// For one thread at a time. Long messages progress only inside `wait`: a rank that computes does
/// not serve its peers. Environment: HCOMP_UCX_TLS and other variables of UCX, see `open_context`.
///
/// The constructor connects all pairs of ranks; it returns on no rank before all are connected.
/// Cost: size - 1 connections per rank, a message over each, and log2(size) hops.
///
/// When a peer dies, every rank that waits or connects gets a transport_error. It comes at once if
/// UCX detects the failure (the peer's process ended), else after `options.timeout` (the peer
/// hangs, or a link is down); the ranks then agree on the failed rank within half a second. A rank
/// that gives up sends its accusation to all ranks, closes its endpoints, and no longer accesses
/// the caller's buffers.
///
/// With peer_failure::ignore only the timeout detects failures. A buffer that a peer reads or
/// writes directly may then be accessed until the peer gives up as well.
///
/// Destruction is collective: the destructor waits, within `options.timeout`, for the destructors
/// of all ranks. If an operation is still pending, it gives up instead, and the peers get a
/// transport_error.
class transport {
 public:
  using settings = options;

  /// The result of `isend` and `irecv` and the argument of `wait`. Valid for its transport only;
  /// copies denote the same request.
  struct request {
    int slot = -1;          ///< slot of a pending operation; -1: complete
    std::size_t bytes = 0;  ///< bytes moved, if complete
  };

  /// Collective: every rank calls it with its own `rank` and the same `size`.
  /// @throws std::invalid_argument  invalid rank or size
  /// @throws transport_error        UCX cannot start; `exchange` did not return `size` addresses; a
  ///                                rank failed before all were connected
  /// @throws wire_error             a rank revoked before all were connected
  transport(int rank, int size, address_exchange const& exchange, options const& how = {})
      : transport(meeting_of(checked_rank(rank, size), size, exchange), how) {}
  /// For ranks that learn their number and the number of ranks in the meeting.
  explicit transport(meeting const& meet, options const& how = {})
      : options_(how),
        heard_(0, 1),
        peers_(meet, how.failures, how.devices),
        rank_(peers_.rank()),
        size_(peers_.size()) {
    heard_ = notices(rank_, size_);
    connect();
  }

  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;

  ~transport() {
    if (failed_) return;
    try {
      if (operations_.empty()) {
        deadline limit(options_.timeout);
        say_goodbye(peers_, heard_, limit);
      } else {
        operations_.cancel_receives(peers_.worker());  // their buffers may be invalid
        agree_on(peers_, heard_, rank_, answer_time);
      }
      close();
    } catch (...) {  // out of memory: the rest is destroyed with the worker
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return options_.group; }
  /// True for device memory if UCX was built with CUDA, finds a device, and moves it by RDMA, or by
  /// CUDA IPC with all ranks on one node. HCOMP_UCX_TLS, if set, must include those transports, as
  /// in tcp,self,cuda_copy,cuda_ipc. A copy through pinned memory is faster over TCP, see
  /// host_staged.
  bool reaches(memory_space space) const {
    return space == memory_space::host || peers_.reaches_device();
  }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  /// A rank may send to itself.
  /// @throws std::invalid_argument  peer out of range
  /// @throws transport_error        a peer failed before
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    operation it{operation::send, peer, tag, bytes.size()};
    if (!failed_) catch_up();
    prepare("isend", it);
    // No memory type: it is unknown here, and UCX without CUDA ignores it.
    ucp_request_param_t const how{};
    bytes_sent_ += bytes.size();
    return start(std::move(it), ucp_tag_send_nbx(peers_[peer], bytes.data(), bytes.size(),
                                                 message_tag(rank_, tag), &how));
  }

  /// @throws std::invalid_argument  peer out of range
  /// @throws transport_error        a peer failed before
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    operation it{operation::receive, peer, tag, bytes.size()};
    prepare("irecv", it);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // only requests provide the length
    return start(std::move(it), ucp_tag_recv_nbx(peers_.worker(), bytes.data(), bytes.size(),
                                                 message_tag(peer, tag), ~std::uint64_t{0}, &how));
  }

  /// @return  number of bytes moved
  /// @throws transport_error  names the failed rank, which may differ from the peer
  /// @throws wire_error       a rank revoked
  std::size_t wait(request& waited) {
    for (;; progress())
      if (auto const moved = look_at(waited)) return *moved;
  }
  /// The result of `wait` if it would return at once; otherwise empty.
  std::optional<std::size_t> test(request& waited) {
    if (auto const moved = look_at(waited)) return moved;
    if (!peers_.step()) return std::nullopt;
    heard_.hear(peers_.worker());
    return look_at(waited);
  }

  /// Serves peers without waiting: answers peers that connect, and sends data that did not fit into
  /// a socket. A peer may wait for that until this rank's next call. Must not run concurrently with
  /// another call.
  void serve() {
    if (!failed_) catch_up();
  }

  /// Ends the pending operations of all ranks.
  /// @throws wire_error       always, except
  /// @throws transport_error  a peer failed before
  [[noreturn]] void revoke(std::string const& why) {
    refuse_after_failure();
    heard_.hear(peers_.worker());
    int culprit = rank_;
    for (int rank = 0; rank < size_; ++rank)  // an earlier revocation counts
      if (!heard_.accused.words_of(rank).empty()) culprit = rank;
    if (culprit == rank_) heard_.accused.add(rank_, rank_, why);
    agree_on(peers_, heard_, culprit, answer_time);
    fail(std::make_exception_ptr(wire_error(heard_.accused.words_of(culprit))));
  }

 private:
  using deadline = hcomp::detail::deadline;

  static int checked_rank(int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size)
      throw std::invalid_argument("transport: rank " + std::to_string(rank) + " of " +
                                  std::to_string(size) + " ranks; 0 <= rank < size is needed");
    return rank;
  }

  static meeting meeting_of(int rank, int size, address_exchange const& exchange) {
    return [rank, size, &exchange](std::span<std::byte const> mine) -> roll_call {
      auto addresses = exchange(mine);
      if (addresses.size() != std::size_t(size))
        throw transport_error(-1, "ucx: the exchange returned " + std::to_string(addresses.size()) +
                                      " addresses, the transport has " + std::to_string(size) +
                                      " ranks");
      return {rank, std::move(addresses)};
    };
  }

  void refuse_after_failure() const {
    if (failed_) std::rethrow_exception(failed_);
  }

  /// Every rank sends a hello to every other one. Then, in the hops of a dissemination barrier, the
  /// ranks learn that all hellos arrived: every connection works in both directions.
  void connect() {
    deadline limit(options_.timeout);
    auto const to = [this](int peer) {
      return "connecting to rank " + std::to_string(peer) + " (" + peers_.interfaces_to(peer) +
             "; HCOMP_UCX_NET_DEVICES selects other devices)";
    };
    auto const late = [&] {
      using std::chrono::milliseconds;
      auto const left = std::chrono::duration_cast<milliseconds>(limit.left());
      return std::max(answer_time, std::min(connecting_time, left));
    };
    auto const await = [&](int peer, auto has_arrived) {
      for (; !has_arrived(); progress())
        if (auto const found = find_trouble(peer, UCS_INPROGRESS, limit))
          give_up(to(peer), *found, late());
    };
    for (int peer = 0; peer < size_; ++peer)
      if (auto const status = peer == rank_ ? UCS_OK : peers_.open(peer); status != UCS_OK)
        give_up(to(peer), {peer, failure_text(peer, status)}, late());
    tell_all(peers_, notice_tag(rank_, notice::hello));
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) await(peer, [&] { return heard_.said_hello(peer); });
    for (int hop = 0, distance = 1; distance < size_; ++hop, distance *= 2) {
      tell(peers_, (rank_ + distance) % size_, notice_tag(rank_, notice::ready, hop));
      await((rank_ + size_ - distance) % size_, [&] { return heard_.ready(hop); });
    }
  }

  void prepare(char const* call, operation const& it) {
    hcomp::detail::require_peer(call, it.peer, size_, "transport");
    refuse_after_failure();
    if (auto const status = peers_.open(it.peer); status != UCS_OK)
      give_up(it.text(), {it.peer, failure_text(it.peer, status)});
  }

  request start(operation&& it, ucs_status_ptr_t answer) {
    ucs_status_t const status = started_status(answer);
    if (status == UCS_OK) return {-1, it.bytes};  // a send that completed at once
    if (status != UCS_INPROGRESS) give_up(it.text(), {it.peer, failure_text(it.peer, status)});
    it.request = started_request(answer);
    return {operations_.add(std::move(it)), 0};
  }

  /// Reads pending data once per rank. After a long time without `wait` a peer may have given up
  /// and closed its end: a send then fails, and the peer's notice would be lost.
  void catch_up() {
    for (int reads = 0; reads < size_ && peers_.step(); ++reads) {
    }
    heard_.hear(peers_.worker());
  }

  std::optional<std::size_t> look_at(request& waited) {
    if (waited.slot < 0) return waited.bytes;
    refuse_after_failure();
    operation& it = operations_[waited.slot];
    if (!it.limit) it.limit.emplace(options_.timeout);
    std::size_t moved = 0;
    ucs_status_t const status = it.test(moved);
    if (status == UCS_OK) {
      operations_.remove(waited.slot);
      waited = {-1, moved};
      return moved;
    }
    if (auto const found = find_trouble(it.peer, status, *it.limit)) give_up(it.text(), *found);
    return std::nullopt;
  }

  void progress() {
    if (peers_.progress()) heard_.hear(peers_.worker());
  }

  /// A suspected failure, and its error text.
  struct trouble {
    int suspect;
    std::string why;
  };

  /// The reason to end a wait for `peer`, if any.
  /// @param status  of the pending operation
  std::optional<trouble> find_trouble(int peer, ucs_status_t status, deadline& limit) {
    if (status != UCS_INPROGRESS) {
      if (status == UCS_ERR_MESSAGE_TRUNCATED) heard_.accused.make_certain(peer);
      return trouble{peer, failure_text(peer, status)};
    }
    for (int const failed : peers_.failed())  // a peer that needs nothing any more may leave
      if (failed == peer || !heard_.said_goodbye(failed))
        return trouble{failed, failure_text(failed, peers_.status(failed))};
    if (int const accuser = heard_.accused.first_accuser(); accuser != accusations::nobody) {
      if (heard_.accused.is_certain(rank_))
        return trouble{rank_, gave_up_text(accuser) + " on this rank"};
      auto const last = heard_.accused.follow(accuser).culprit;
      if (heard_.accused.made_by(last) != rank_) return trouble{accuser, gave_up_text(accuser)};
      return trouble{peer, "no answer from rank " + std::to_string(peer) + ", and " +
                               gave_up_text(accuser)};  // it waits for this rank, which waits for
                                                        // it
    }
    if (limit.passed())
      return trouble{peer, "no answer from rank " + std::to_string(peer) + " within " +
                               std::to_string(options_.timeout.count()) + " ms"};
    return std::nullopt;
  }

  /// Determines the culprit, starting from the suspect; closes everything; throws.
  [[noreturn]] void give_up(std::string const& what, trouble const& found,
                            std::chrono::milliseconds time = answer_time) {
    auto const verdict = agree_on(peers_, heard_, found.suspect, time);
    auto const& words = heard_.accused.words_of(verdict.culprit);
    if (!words.empty()) fail(std::make_exception_ptr(wire_error(words)));
    fail(std::make_exception_ptr(transport_error(
        verdict.culprit,
        "ucx: " + what + ": " +
            (verdict.reporter == rank_
                 ? found.why
                 : "rank " + std::to_string(verdict.culprit) +
                       (verdict.reporter == accusations::nobody
                            ? " does not answer"
                            : " failed, reported by rank " + std::to_string(verdict.reporter))))));
  }

  [[noreturn]] void fail(std::exception_ptr why) {
    failed_ = std::move(why);
    close();
    std::rethrow_exception(failed_);
  }

  static std::string failure_text(int rank, ucs_status_t status) {
    auto const name = "rank " + std::to_string(rank);
    return status == UCS_ERR_MESSAGE_TRUNCATED ? name + " sent more"
                                               : name + " failed: " + status_text(status);
  }

  static std::string gave_up_text(int rank) { return "rank " + std::to_string(rank) + " gave up"; }

  /// Afterwards UCX accesses no buffer of the caller.
  void close() {
    operations_.cancel_receives(peers_.worker());
    peers_.discard_arrived();
    {
      auto const closing = peers_.start_closing();
      deadline limit(closing_time);
      peers_.progress_until(
          limit, [&] { return std::none_of(closing.begin(), closing.end(), under_way); });
      // Operations of closed endpoints have ended. A receive whose message arrived in part, from a
      // failed rank, never completes: it is destroyed with the worker.
      while (operations_.any_under_way() && !limit.passed() && peers_.step()) {
      }
      peers_.discard_arrived();
      operations_.clear();
    }  // all requests are freed before their worker
    peers_.destroy();
  }

  static constexpr std::chrono::milliseconds answer_time{500};  ///< for ranks that are only slow
  static constexpr std::chrono::milliseconds connecting_time{5000};  ///< for ranks that start late
  static constexpr std::chrono::milliseconds closing_time{1000};     ///< for endpoints to close

  options options_;
  notices heard_;  // before peers_: UCX may still send texts
  endpoints peers_;
  int rank_;
  int size_;
  operation_table operations_;  // after peers_: requests are freed before their worker
  std::uint64_t bytes_sent_ = 0;
  std::exception_ptr failed_;  ///< thrown by every later call
};

static_assert(Transport<transport>);

}  // namespace hcomp::ucx
