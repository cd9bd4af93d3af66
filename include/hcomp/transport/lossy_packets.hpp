#pragma once
/// @file
/// A packet link that drops packets at random, for tests of packet loss.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// Sends over `link`, but drops each packet with probability `loss`. Dropped packets count as sent.
template <PacketLink L> class lossy_packets {
 public:
  /// @param loss  0 to 1: the share of this rank's packets that never arrive
  /// @throws std::invalid_argument  loss out of range
  lossy_packets(L& link, double loss, std::uint64_t seed)
      : link_(&link), limit_(limit_of(loss)), seed_(seed) {}

  int rank() const { return link_->rank(); }
  int size() const { return link_->size(); }
  std::uint64_t bytes_sent() const { return link_->bytes_sent() + bytes_lost_; }
  std::uint64_t packets_lost() const { return lost_; }
  std::chrono::nanoseconds now() const { return link_->now(); }

  void send(int peer, std::span<std::byte const> packet) {
    auto const number = sent_++;
    auto const draw =
        philox4x32({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                    static_cast<std::uint32_t>(rank()), 0},
                   seed_)[0];
    if (draw >= limit_) return link_->send(peer, packet);
    ++lost_;
    bytes_lost_ += packet.size();
  }
  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    return link_->receive(buffer, timeout);
  }

 private:
  static std::uint64_t limit_of(double loss) {
    if (!(loss >= 0 && loss <= 1))
      throw std::invalid_argument(detail::error_text(
          {"lossy_packets: a loss of ", loss, " of all packets; 0 to 1 is possible"}));
    return static_cast<std::uint64_t>(loss * 0x1p32);
  }

  L* link_;
  std::uint64_t limit_;
  std::uint64_t seed_;
  std::uint64_t sent_ = 0, lost_ = 0, bytes_lost_ = 0;
};

}  // namespace hcomp
