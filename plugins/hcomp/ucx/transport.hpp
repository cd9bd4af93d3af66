#pragma once
/// @file
/// hcomp's transport over UCX: tagged messages.

#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
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
  /// How long the constructor, one `wait`, and the goodbyes at the end, may take; 0 waits for ever.
  /// One message must pass in this time: choose it for the largest message and the slowest link.
  std::chrono::milliseconds timeout{30'000};
  peer_failure failures = peer_failure::detect;
  /// The network devices to use and to listen on, e.g. "eth0" or "lo"; empty leaves it to
  /// HCOMP_UCX_NET_DEVICES, and without that UCX listens on every device that has an address.
  std::string devices{};
  /// Which ranks of a job these are, as draw_key::group; the same on all of them.
  std::uint64_t group = 0;
};

/// Moves bytes between `size` ranks over UCX.
///
/// For one thread at a time. Long messages move inside `wait` only: a rank that computes does not
/// serve its peers meanwhile. Environment: HCOMP_UCX_TLS and all others of UCX, see
/// `open_context`.
///
/// The constructor connects every rank with every other; none returns before all are connected.
/// Cost: size - 1 connections per rank, a message over each, and log2(size) hops.
///
/// When a peer dies, every rank that waits, or connects, gets a transport_error in time: at once
/// where UCX notices (the peer's process ended), else after `options.timeout` (it hangs, or a link
/// is cut), and half a second to agree on its name. Who gives up tells all ranks whom it blames,
/// closes its endpoints, and touches no buffer of the caller any more. With peer_failure::ignore
/// only the time limit is left, and a buffer that a peer reads or writes directly may be touched
/// until the peer gives up as well.
///
/// The end is collective: the destructor waits, within `options.timeout`, for every rank to come to
/// its own. Destroyed with an operation not waited for, it gives up instead, and its peers get a
/// transport_error.
class transport {
 public:
  using settings = options;

  /// What `isend` and `irecv` return and `wait` takes. Bound to its transport; copies are one
  /// request.
  struct request {
    int slot = -1;          ///< of an operation under way; -1 when there is nothing to wait for
    std::size_t bytes = 0;  ///< moved, when there is nothing to wait for
  };

  /// Collective: every rank calls it with its own `rank` and the same `size`.
  /// @throws std::invalid_argument  rank or size impossible
  /// @throws transport_error        UCX cannot start; `exchange` returned other than `size`
  ///                                addresses; a rank failed before all were connected
  /// @throws wire_error             a rank has revoked before all were connected
  transport(int rank, int size, address_exchange const& exchange, options const& how = {})
      : transport(meeting_of(checked_rank(rank, size), size, exchange), how) {}
  /// The same for ranks that get to know in the meeting who and how many they are.
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
        say_goodbye(peers_, heard_, deadline(options_.timeout));
      } else {
        operations_.cancel_receives(peers_.worker());  // their buffers may be gone
        agree_on(peers_, heard_, rank_, answer_time);
      }
      close();
    } catch (...) {  // out of memory: what is left goes with the worker
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t group() const { return options_.group; }
  /// The device's memory where UCX was built with CUDA, finds a device, and HCOMP_UCX_TLS, if set,
  /// names a transport for it, as in tcp,self,cuda_copy.
  bool reaches(memory_space space) const {
    return space == memory_space::host || peers_.reaches_device();
  }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  /// A rank may send to itself.
  /// @throws std::invalid_argument  no such peer
  /// @throws transport_error        a peer failed before
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    operation it{operation::send, peer, tag, bytes.size()};
    if (!failed_) catch_up();
    prepare("isend", it);
    // No type of memory: here nobody knows it, and UCX without CUDA does not look.
    ucp_request_param_t const how{};
    bytes_sent_ += bytes.size();
    return start(std::move(it), ucp_tag_send_nbx(peers_[peer], bytes.data(), bytes.size(),
                                                 message_tag(rank_, tag), &how));
  }

  /// @throws std::invalid_argument  no such peer
  /// @throws transport_error        a peer failed before
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    operation it{operation::receive, peer, tag, bytes.size()};
    prepare("irecv", it);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // the length is known of requests only
    return start(std::move(it), ucp_tag_recv_nbx(peers_.worker(), bytes.data(), bytes.size(),
                                                 message_tag(peer, tag), ~std::uint64_t{0}, &how));
  }

  /// @return  the bytes moved
  /// @throws transport_error  naming the rank that failed, which may be another than the peer
  /// @throws wire_error       a rank has revoked
  std::size_t wait(request& waited) {
    for (;; progress())
      if (auto const moved = look_at(waited)) return *moved;
  }
  /// What `wait` would return; nothing yet.
  std::optional<std::size_t> test(request& waited) {
    if (auto const moved = look_at(waited)) return moved;
    if (!peers_.step()) return std::nullopt;
    heard_.hear(peers_.worker());
    return look_at(waited);
  }

  /// Serve peers, without waiting: answer those that set up a connection, send what had no room in a
  /// socket. A peer may wait for that until this rank's next call. Not while another call goes on.
  void serve() {
    if (!failed_) catch_up();
  }

  /// Ends what all ranks have under way.
  /// @throws wire_error       always, but
  /// @throws transport_error  a peer failed before
  [[noreturn]] void revoke(std::string const& why) {
    refuse_after_failure();
    heard_.hear(peers_.worker());
    int culprit = rank_;
    for (int rank = 0; rank < size_; ++rank)  // an earlier one counts
      if (!heard_.accused.words_of(rank).empty()) culprit = rank;
    if (culprit == rank_) heard_.accused.add(rank_, rank_, why);
    agree_on(peers_, heard_, culprit, answer_time);
    fail(std::make_exception_ptr(wire_error(heard_.accused.words_of(culprit))));
  }

 private:
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

  /// Every rank says hello to every other. Then, in hops as of a dissemination barrier, the ranks
  /// learn that all have all hellos: every connection works, both ways.
  void connect() {
    deadline const limit(options_.timeout);
    auto const to = [](int peer) { return "connecting to rank " + std::to_string(peer); };
    auto const late = [&] {
      return std::max(answer_time, std::min(connecting_time, limit.left()));
    };
    auto const await = [&](int peer, auto is_there) {
      for (; !is_there(); progress())
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
    if (status == UCS_OK) return {-1, it.bytes};  // a send that is through
    if (status != UCS_INPROGRESS) give_up(it.text(), {it.peer, failure_text(it.peer, status)});
    it.request = started_request(answer);
    return {operations_.add(std::move(it)), 0};
  }

  /// Read what has arrived, once from each rank. After a long time without `wait` a peer may have
  /// given up and closed its end: a send fails then, and what the peer has said would be lost.
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

  /// Who seems to have failed, and how this rank would say it.
  struct trouble {
    int suspect;
    std::string why;
  };

  /// What ends a wait for `peer`.
  /// @param status  of the operation waited for
  std::optional<trouble> find_trouble(int peer, ucs_status_t status, deadline const& limit) {
    if (status != UCS_INPROGRESS) {
      if (status == UCS_ERR_MESSAGE_TRUNCATED) heard_.accused.make_certain(peer);
      return trouble{peer, failure_text(peer, status)};
    }
    for (int const failed : peers_.failed())  // a peer that needs nothing any more may go
      if (failed == peer || !heard_.said_goodbye(failed))
        return trouble{failed, failure_text(failed, peers_.status(failed))};
    if (int const accuser = heard_.accused.first_accuser(); accuser != accusations::nobody) {
      if (heard_.accused.is_certain(rank_))
        return trouble{rank_, gave_up_text(accuser) + " on this rank"};
      auto const last = heard_.accused.follow(accuser).culprit;
      if (heard_.accused.made_by(last) != rank_) return trouble{accuser, gave_up_text(accuser)};
      return trouble{peer, "no answer from rank " + std::to_string(peer) + ", and " +
                               gave_up_text(accuser)};  // it waits for this rank, which waits
    }
    if (limit.passed())
      return trouble{peer, "no answer from rank " + std::to_string(peer) + " within " +
                               std::to_string(options_.timeout.count()) + " ms"};
    return std::nullopt;
  }

  /// Blame the suspect, or whom it blames itself; close everything; throw.
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
                 : "rank " + std::to_string(verdict.culprit) + " failed, reported by rank " +
                       std::to_string(verdict.reporter)))));
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

  /// After this UCX touches no buffer of the caller.
  void close() {
    operations_.cancel_receives(peers_.worker());
    peers_.discard_arrived();
    {
      auto const closing = peers_.start_closing();
      deadline const limit(closing_time);
      peers_.progress_until(
          limit, [&] { return std::none_of(closing.begin(), closing.end(), under_way); });
      // What ends with an endpoint has ended. A receive whose message has come in part, from a rank that
      // is gone, never does: nobody waits for it, it goes with the worker.
      while (operations_.any_under_way() && !limit.passed() && peers_.step()) {
      }
      peers_.discard_arrived();
      operations_.clear();
    }  // all requests are back before their worker goes
    peers_.destroy();
  }

  static constexpr std::chrono::milliseconds answer_time{500};  ///< for ranks that are only slow
  static constexpr std::chrono::milliseconds connecting_time{5000};  ///< for ranks that come late
  static constexpr std::chrono::milliseconds closing_time{1000};     ///< for endpoints to close

  options options_;
  notices heard_;  // before peers_: UCX may still send words
  endpoints peers_;
  int rank_;
  int size_;
  operation_table operations_;  // after peers_: requests go before their worker
  std::uint64_t bytes_sent_ = 0;
  std::exception_ptr failed_;  ///< what every call throws
};

static_assert(Transport<transport>);

}  // namespace hcomp::ucx
