#pragma once
/// @file
/// The packet link of an aggregator over UDP.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/options.hpp>
#include <hcomp/udp/roster.hpp>
#include <hcomp/udp/socket.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::udp {

/// An aggregator's PacketLink, for serve_aggregation in your own program; hcomp-aggregator does not
/// use it.
///
/// Listens on its address in options.aggregators, and learns the workers' addresses when they join.
/// A packet to a worker that has not joined is dropped. Packets are accepted only from the sender
/// that joined as their rank; all other packets are counted and dropped. Linux.
class aggregator_packets {
 public:
  /// @throws std::invalid_argument  settings out of range, a rank that is not an aggregator's, an
  ///                                invalid address
  /// @throws transport_error        the address is not local, or is in use
  explicit aggregator_packets(options const& wanted)
      : options_(checked_aggregator(wanted)),
        socket_(
            address(options_.aggregators[static_cast<std::size_t>(wanted.rank - wanted.workers)])),
        roster_(options_.workers),
        in_(options_.datagram_bytes + 1) {
    out_.reserve(options_.datagram_bytes);
  }

  int rank() const { return options_.rank; }
  int size() const { return options_.workers + static_cast<int>(options_.aggregators.size()); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }  ///< includes frames
  udp::stats const& stats() const { return stats_; }
  std::string local() const { return socket_.local().text(); }  ///< for workers' options
  std::chrono::nanoseconds now() const {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  /// @throws std::invalid_argument  peer is not a worker, or the packet is too long
  /// @throws transport_error        the socket failed
  void send(int peer, std::span<std::byte const> packet) {
    hcomp::detail::require_peer("send", peer, options_.workers, "job, for an aggregator,");
    detail::require_short(packet.size(), options_);
    auto const* const to = roster_.of(peer);
    if (!to) {
      ++stats_.lost_here;
      return;
    }
    hand_over(to->from, header(frame_kind::packet, 0), packet);
  }

  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    auto const end = now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
    while (true) {
      address from;
      while (auto const bytes = socket_.receive(in_, from)) {
        auto const got = accept(*bytes, from, buffer);
        if (got.from >= 0) return got;
      }
      auto const time = now();
      if (time >= end) return {};
      socket_.wait(end - time);
    }
  }

 private:
  static options const& checked_aggregator(options const& o) {
    detail::checked(o);
    if (o.rank < o.workers)
      throw std::invalid_argument(hcomp::detail::error_text(
          {"udp::aggregator_packets: rank ", o.rank, " is a worker; aggregators are ranks ",
           o.workers, " to ", o.workers + static_cast<int>(o.aggregators.size()) - 1}));
    return o;
  }

  frame header(frame_kind kind, std::uint32_t session) const {
    return {.job = options_.job,
            .kind = kind,
            .rank = static_cast<std::uint16_t>(options_.rank),
            .session = session};
  }
  void hand_over(address const& to, frame const& header, std::span<std::byte const> packet) {
    out_.resize(frame_bytes + packet.size());
    std::copy(packet.begin(), packet.end(), out_.begin() + frame_bytes);
    seal(out_, header);
    bytes_sent_ += out_.size();
    ++(socket_.send(to, out_) ? stats_.sent : stats_.lost_here);
  }

  received_packet accept(std::size_t bytes, address const& from, std::span<std::byte> buffer) {
    auto const refuse = [&](frame_fault fault) {
      ++stats_.refused[static_cast<std::size_t>(fault)];
      return received_packet{};
    };
    if (bytes > options_.datagram_bytes) return refuse(frame_fault::length);
    frame got;
    auto const fault = read_frame({in_.data(), bytes}, got);
    if (fault != frame_fault::none) return refuse(fault);
    if (got.kind != frame_kind::packet && got.kind != frame_kind::join)
      return refuse(frame_fault::kind);
    if (got.job != options_.job) {
      ++stats_.foreign;
      return {};
    }
    if (got.kind == frame_kind::join) {
      auto const refusal = roster_.join(got, from);
      ++(refusal ? stats_.foreign : stats_.joins);
      if (refusal)
        hand_over(from, header(frame_kind::refusal, got.session),
                  std::as_bytes(std::span(&*refusal, 1)));
      else
        hand_over(from, header(frame_kind::welcome, got.session), {});
      return {};
    }
    if (!roster_.is_known(got, from)) {
      ++stats_.foreign;
      return {};
    }
    ++stats_.received;
    std::size_t const packet = bytes - frame_bytes;
    if (std::size_t const fits = std::min(packet, buffer.size()); fits > 0)
      std::memcpy(buffer.data(), in_.data() + frame_bytes, fits);
    return {got.rank, packet};
  }

  options options_;
  udp::socket socket_;
  roster roster_;
  std::vector<std::byte> in_, out_;
  std::uint64_t bytes_sent_ = 0;
  udp::stats stats_;
};

static_assert(PacketLink<aggregator_packets>);

}  // namespace hcomp::udp
