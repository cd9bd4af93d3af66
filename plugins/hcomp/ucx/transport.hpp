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
#include <hcomp/ucx/operations.hpp>
#include <hcomp/ucx/tags.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace hcomp::ucx {

struct options {
  /// How long one `wait`, and the goodbyes at the end, may take; 0 waits for ever.
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
/// `open_context`. The endpoint to a peer is opened by the first message to or from it.
///
/// When a peer dies, every rank that waits gets a transport_error in time: at once where UCX
/// notices (the peer's process ended), else after `options.timeout` (it hangs, or a link is cut).
/// Who gives up tells its peers whom it blames, closes its endpoints, so that they give up too, and
/// touches no buffer of the caller any more. With peer_failure::ignore only the time limit is left,
/// and a buffer that a peer reads or writes directly may be touched until the peer gives up as
/// well.
///
/// The end is collective: the destructor waits, within `options.timeout`, for every rank it
/// exchanged messages with to come to its own. Destroyed with an operation not waited for, it gives
/// up instead, and its peers get a transport_error.
class transport {
 public:
  /// What `isend` and `irecv` return and `wait` takes. Bound to its transport; copies are one
  /// request.
  struct request {
    int slot = -1;          ///< of an operation under way; -1 when there is nothing to wait for
    std::size_t bytes = 0;  ///< moved, when there is nothing to wait for
  };

  /// Collective: every rank calls it with its own `rank` and the same `size`.
  /// @throws std::invalid_argument  rank or size impossible
  /// @throws transport_error        UCX cannot start; `exchange` returned other than `size`
  /// addresses
  transport(int rank, int size, address_exchange const& exchange, options const& how = {})
      : rank_(checked_rank(rank, size)),
        size_(size),
        options_(how),
        peers_(size, exchange, how.failures, how.devices) {}

  transport(transport const&) = delete;
  transport& operator=(transport const&) = delete;

  ~transport() {
    if (failed_) return;
    try {
      if (operations_.empty())
        say_goodbye(peers_, rank_, size_, deadline(options_.timeout));
      else
        accusations(rank_, size_).spread(peers_, rank_);
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
    if (waited.slot < 0) return waited.bytes;
    refuse_after_failure();
    operation const& it = operations_[waited.slot];
    for (deadline const limit(options_.timeout);; peers_.progress()) {
      std::size_t moved = 0;
      ucs_status_t const status = it.test(moved);
      if (status == UCS_OK) {
        operations_.remove(waited.slot);
        waited = {-1, moved};
        return moved;
      }
      if (status != UCS_INPROGRESS) give_up(it, it.peer, status);
      if (int const failed = peers_.first_failed(); failed >= 0)
        give_up(it, failed, peers_.status(failed));
      if (limit.passed()) give_up(it, it.peer, UCS_INPROGRESS);
    }
  }

  /// Ends what all ranks that are connected have under way; ranks that they are connected to hear
  /// of it by them.
  /// @throws wire_error       always, but
  /// @throws transport_error  a peer failed before
  [[noreturn]] void revoke(std::string const& why) {
    refuse_after_failure();
    accusations heard(rank_, size_);
    heard.hear(peers_.worker());
    for (int rank = 0; rank < size_; ++rank)  // an earlier one counts
      if (auto words = heard.words_of(rank); !words.empty()) end(heard, rank, parting_time);
    heard.add(rank_, rank_, why);
    end(heard, rank_, parting_time);
  }

 private:
  static int checked_rank(int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size)
      throw std::invalid_argument("transport: rank " + std::to_string(rank) + " of " +
                                  std::to_string(size) + " ranks; 0 <= rank < size is needed");
    return rank;
  }

  void refuse_after_failure() const {
    if (failed_) std::rethrow_exception(failed_);
  }

  void prepare(char const* call, operation const& it) {
    hcomp::detail::require_peer(call, it.peer, size_, "transport");
    refuse_after_failure();
    if (auto const status = peers_.open(it.peer); status != UCS_OK) give_up(it, it.peer, status);
  }

  request start(operation&& it, ucs_status_ptr_t answer) {
    ucs_status_t const status = started_status(answer);
    if (status == UCS_OK) return {-1, it.bytes};  // a send that is through
    if (status != UCS_INPROGRESS) give_up(it, it.peer, status);
    it.request = started_request(answer);
    return {operations_.add(std::move(it)), 0};
  }

  /// Blame `suspect`, or whom it blames itself; tell the others; close everything; throw.
  /// `status` says what is wrong with `suspect`; UCS_INPROGRESS that the time is up.
  [[noreturn]] void give_up(operation const& it, int suspect, ucs_status_t status) {
    accusations heard(rank_, size_);
    heard.hear(peers_.worker());
    auto verdict = heard.follow(suspect);
    heard.spread(peers_, verdict.culprit);
    // After a time-out the suspect may be alive and its own time just be up: listen longer.
    peers_.progress_until(deadline(status == UCS_INPROGRESS ? answer_time : parting_time), [&] {
      heard.hear(peers_.worker());
      if (auto const better = heard.follow(suspect); better != verdict) {
        verdict = better;
        heard.spread(peers_, verdict.culprit);
      }
      return false;
    });
    auto const words = heard.words_of(verdict.culprit);
    fail(words.empty() ? std::make_exception_ptr(transport_error(
                             verdict.culprit, "ucx: " + it.text() + ": " + reason(verdict, status)))
                       : std::make_exception_ptr(wire_error(words)));
  }

  /// Tells that `culprit` has revoked.
  [[noreturn]] void end(accusations& heard, int culprit, std::chrono::milliseconds time) {
    heard.spread(peers_, culprit);
    peers_.progress_until(deadline(time), [] { return false; });
    fail(std::make_exception_ptr(wire_error(heard.words_of(culprit))));
  }

  [[noreturn]] void fail(std::exception_ptr why) {
    failed_ = std::move(why);
    close();
    std::rethrow_exception(failed_);
  }

  std::string reason(accusations::verdict const& verdict, ucs_status_t status) const {
    std::string const culprit = "rank " + std::to_string(verdict.culprit);
    if (verdict.reporter != rank_)
      return culprit + " failed, reported by rank " + std::to_string(verdict.reporter);
    if (status == UCS_INPROGRESS)
      return "no answer from " + culprit + " within " + std::to_string(options_.timeout.count()) +
             " ms";
    if (status == UCS_ERR_MESSAGE_TRUNCATED) return culprit + " sent more";
    return culprit + " failed: " + status_text(status);
  }

  /// After this UCX touches no buffer of the caller.
  void close() {
    operations_.cancel_receives(peers_.worker());
    peers_.discard_arrived();
    {
      auto const closing = peers_.start_closing();
      peers_.progress_until(deadline(closing_time), [&] {
        return !operations_.any_under_way() &&
               std::none_of(closing.begin(), closing.end(), under_way);
      });
      peers_.discard_arrived();
      operations_.clear();
    }  // all requests are back before their worker goes
    peers_.destroy();
  }

  static constexpr std::chrono::milliseconds parting_time{20};    ///< for last words to leave
  static constexpr std::chrono::milliseconds answer_time{500};    ///< for ranks that are only slow
  static constexpr std::chrono::milliseconds closing_time{1000};  ///< for endpoints to close

  int rank_;
  int size_;
  options options_;
  endpoints peers_;
  operation_table operations_;  // after peers_: requests go before their worker
  std::uint64_t bytes_sent_ = 0;
  std::exception_ptr failed_;  ///< what every call throws
};

static_assert(Transport<transport>);

}  // namespace hcomp::ucx
