#pragma once
/// @file
/// The packet link of a worker over UDP.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/options.hpp>
#include <hcomp/udp/socket.hpp>
#include <hcomp/udp/terms.hpp>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hcomp::udp {

/// A worker's PacketLink to aggregators, which it reaches by address.
///
/// The first packet makes the worker join: aggregators learn its address and answer. Until then,
/// and while a whole window of packets to an aggregator is unanswered, packets wait in a queue;
/// `receive` sends them. So the slowest worker sets the pace of all, and no buffer in the network
/// must hold a whole vector. The worker rejoins a restarted aggregator by itself.
///
/// The caller resends lost packets, as aggregated_mean does; a packet that is still in the queue is
/// not queued twice. Datagrams that are damaged or from unknown senders are counted and dropped.
/// Memory: a copy of the queued packets. Linux.
class packets {
 public:
  /// Opens a socket; sends nothing.
  /// @throws std::invalid_argument  settings out of range, a rank that is not a worker's, an
  ///                                unknown host
  /// @throws transport_error        the socket failed
  explicit packets(options const& wanted)
      : options_(checked_worker(wanted)),
        peers_(peers_of(options_)),
        socket_(options_.listen.empty() ? address::any_like(peers_.front().to)
                                        : address(options_.listen)),
        session_(std::random_device{}()),
        in_(options_.datagram_bytes + 1) {}
  packets(packets const&) = delete;
  packets& operator=(packets const&) = delete;
  /// Sends queued packets, for at most a tenth of a second.
  ~packets() {
    try {
      auto const end = now() + std::chrono::milliseconds(100);
      while (has_queue() && now() < end) receive({}, std::chrono::milliseconds(1));
    } catch (std::exception const&) {  // the job is about to end
    }
  }

  int rank() const { return options_.rank; }
  int size() const { return options_.workers + static_cast<int>(peers_.size()); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }  ///< includes frames
  udp::stats const& stats() const { return stats_; }
  std::string local() const { return socket_.local().text(); }
  std::chrono::nanoseconds now() const {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  /// Sets the terms of the job for a server of several jobs: equal on all workers, and before any
  /// packet is sent. Not needed with aggregator_packets.
  /// @param options  for example mean.layout().aggregator(), with quota and deadlines
  void set_terms(aggregator_options const& options) { terms_ = to_terms(options); }

  /// Joins all aggregators and waits for their answers. Otherwise the first packet joins.
  /// @throws transport_error  an aggregator did not answer in time, or rejected this worker
  void join(std::chrono::nanoseconds timeout) {
    hcomp::detail::deadline limit(std::max(timeout, std::chrono::nanoseconds(1)));
    while (true) {
      auto const time = now();
      pump(time);
      address from;
      // Discards no result: no packet has been sent yet.
      while (auto const bytes = socket_.receive(in_, from)) accept(*bytes, from, {});
      auto const waits = std::find_if(peers_.begin(), peers_.end(),
                                      [](peer const& one) { return !one.is_joined; });
      if (waits == peers_.end()) return;
      if (limit.passed(time))
        throw transport_error(
            rank_of(*waits),
            hcomp::detail::error_text(
                {"udp: aggregator ", waits->to.text(), " did not answer rank ", rank(), " of job ",
                 options_.job, " within ",
                 std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(), " ms"}));
      socket_.wait(std::min(limit.longest_sleep(), next_event() - time));
    }
  }

  /// @throws std::invalid_argument  peer is not an aggregator, or the packet is too long
  /// @throws transport_error        the socket failed, or an aggregator rejects this worker
  void send(int to, std::span<std::byte const> packet) {
    hcomp::detail::require_peer("send", to, size(), "job");
    if (to < options_.workers)
      throw std::invalid_argument(hcomp::detail::error_text(
          {"send: peer ", to, " is a worker; workers send to aggregators, from rank ",
           options_.workers, " on"}));
    detail::require_short(packet.size(), options_);
    peer& one = peers_[static_cast<std::size_t>(to - options_.workers)];
    auto datagram = memory();
    datagram.resize(frame_bytes + packet.size());
    std::copy(packet.begin(), packet.end(), datagram.begin() + frame_bytes);
    seal(datagram, header(frame_kind::packet));
    if (one.in_queue.insert(load<frame>(datagram.data()).checksum).second) {
      one.queue.push_back(std::move(datagram));
    } else {
      ++stats_.waiting;
      spare_.push_back(std::move(datagram));
    }
    pump(now());
  }

  /// @throws transport_error  the socket failed, or an aggregator rejects this worker
  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    auto const end = now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
    while (true) {
      auto const time = now();
      pump(time);
      address from;
      while (auto const bytes = socket_.receive(in_, from)) {
        auto const got = accept(*bytes, from, buffer);
        if (got.from >= 0) return got;
      }
      if (time >= end) return {};
      auto const start = now();
      socket_.wait(std::min(end, next_event()) - start);
      stats_.waited += now() - start;
    }
  }

 private:
  using time = std::chrono::nanoseconds;

  struct peer {
    address to;
    bool is_joined = false;
    std::optional<time> last_join = {};
    std::optional<time> asked = {};  ///< time of the first packet sent since the last answer
    time last_moved{0};              ///< time of the last packet sent or received
    int unanswered = 0;              ///< packets; lost ones count until the window reopens
    std::deque<std::vector<std::byte>> queue = {};
    std::unordered_set<std::uint64_t> in_queue = {};  ///< checksums
  };

  static options const& checked_worker(options const& o) {
    detail::checked(o);
    if (o.rank >= o.workers)
      throw std::invalid_argument(hcomp::detail::error_text(
          {"udp::packets: rank ", o.rank, " is none of the ", o.workers, " workers"}));
    return o;
  }
  static std::vector<peer> peers_of(options const& o) {
    std::vector<peer> peers;
    for (auto const& text : o.aggregators) peers.push_back({.to = address(text)});
    for (auto const& one : peers)
      if (one.to.family() != peers.front().to.family())
        throw std::invalid_argument("udp: aggregators " + peers.front().to.text() + " and " +
                                    one.to.text() + ", one of IPv4 and one of IPv6");
    return peers;
  }

  int rank_of(peer const& one) const {
    return options_.workers + static_cast<int>(&one - peers_.data());
  }
  bool has_queue() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](peer const& one) { return !one.queue.empty(); });
  }
  frame header(frame_kind kind) const {
    return {.job = options_.job,
            .kind = kind,
            .rank = static_cast<std::uint16_t>(options_.rank),
            .session = session_};
  }
  std::vector<std::byte> memory() {
    if (spare_.empty()) return {};
    auto bytes = std::move(spare_.back());
    spare_.pop_back();
    return bytes;
  }

  void hand_over(peer const& one, std::span<std::byte const> datagram) {
    bytes_sent_ += datagram.size();
    ++(socket_.send(one.to, datagram) ? stats_.sent : stats_.lost_here);
  }

  /// Sends all packets and joins that are due.
  void pump(time now) {
    for (peer& one : peers_) {
      if ((!one.is_joined || (one.asked && now - *one.asked >= options_.join_again)) &&
          (!one.last_join || now - *one.last_join >= options_.join_again)) {
        std::vector<std::byte> join(frame_bytes);
        join.insert(join.end(), terms_.begin(), terms_.end());
        seal(join, header(frame_kind::join));
        hand_over(one, join);
        ++stats_.joins;
        one.last_join = now;
      }
      if (!one.is_joined) continue;
      if (!one.queue.empty() && one.unanswered >= options_.window &&
          now - one.last_moved >= options_.window_timeout) {
        one.unanswered = 0;
        ++stats_.windows;
      }
      while (!one.queue.empty() && one.unanswered < options_.window && now >= next_send_) {
        auto& first = one.queue.front();
        hand_over(one, first);
        if (options_.bytes_per_second > 0)
          next_send_ = std::max(next_send_, now - burst) +
                       time(first.size() * 1'000'000'000 / options_.bytes_per_second);
        one.in_queue.erase(load<frame>(first.data()).checksum);
        spare_.push_back(std::move(first));
        one.queue.pop_front();
        ++one.unanswered;
        one.last_moved = now;
        if (!one.asked) one.asked = now;
      }
    }
  }

  /// The next time at which `pump` has work even if no packet arrives.
  time next_event() const {
    time first = time::max();
    for (peer const& one : peers_) {
      if (!one.is_joined || one.asked) {
        time const again = one.last_join ? *one.last_join + options_.join_again : time(0);
        first = std::min(first,
                         one.is_joined ? std::max(*one.asked + options_.join_again, again) : again);
      }
      if (one.is_joined && !one.queue.empty())
        first = std::min(first, one.unanswered < options_.window
                                    ? next_send_
                                    : one.last_moved + options_.window_timeout);
    }
    return first;
  }

  /// Processes the datagram of `bytes` bytes in in_. Returns its packet, or an empty result if it
  /// has none for the caller.
  received_packet accept(std::size_t bytes, address const& from, std::span<std::byte> buffer) {
    auto const refuse = [&](frame_fault fault) {
      ++stats_.refused[static_cast<std::size_t>(fault)];
      return received_packet{};
    };
    if (bytes > options_.datagram_bytes) return refuse(frame_fault::length);
    std::span<std::byte const> const datagram(in_.data(), bytes);
    frame header;
    auto const fault = read_frame(datagram, header);
    if (fault != frame_fault::none) return refuse(fault);
    auto const found =
        std::find_if(peers_.begin(), peers_.end(), [&](peer const& one) { return one.to == from; });
    bool const is_answer = header.kind == frame_kind::welcome || header.kind == frame_kind::refusal;
    if (found == peers_.end() || header.job != options_.job ||
        (is_answer && header.session != session_)) {
      ++stats_.foreign;
      return {};
    }
    if (header.kind != frame_kind::packet && !is_answer) return refuse(frame_fault::kind);
    if (header.kind == frame_kind::refusal) throw_refused(*found, datagram);
    found->asked.reset();
    if (header.kind == frame_kind::welcome) {
      found->is_joined = true;
      return {};
    }
    found->unanswered = std::max(found->unanswered - 1, 0);
    found->last_moved = now();
    ++stats_.received;
    std::size_t const packet = bytes - frame_bytes;
    if (std::size_t const fits = std::min(packet, buffer.size()); fits > 0)
      std::memcpy(buffer.data(), in_.data() + frame_bytes, fits);
    return {rank_of(*found), packet};
  }

  [[noreturn]] void throw_refused(peer const& one, std::span<std::byte const> datagram) const {
    refusal_reason reason{};
    if (datagram.size() >= frame_bytes + sizeof reason)
      reason = load<refusal_reason>(datagram.data() + frame_bytes);
    throw transport_error(
        rank_of(one),
        hcomp::detail::error_text({"udp: aggregator ", one.to.text(), " refuses rank ", rank(),
                                   " of job ", options_.job, ": ", to_text(reason)}));
  }

  static constexpr time burst = std::chrono::milliseconds(1);

  options options_;
  std::vector<peer> peers_;
  udp::socket socket_;
  std::uint32_t session_;
  std::vector<std::byte> terms_;
  std::vector<std::byte> in_;
  std::vector<std::vector<std::byte>> spare_;  ///< memory of sent datagrams, for reuse
  time next_send_{0};
  std::uint64_t bytes_sent_ = 0;
  udp::stats stats_;
};

static_assert(PacketLink<packets>);

}  // namespace hcomp::udp
