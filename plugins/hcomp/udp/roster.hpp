#pragma once
/// @file
/// The senders of the workers of a job.

#include <cstddef>
#include <cstdint>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <optional>
#include <vector>

namespace hcomp::udp {

/// The sender of each rank that has joined: an address and a session. The first sender that joins
/// as a rank keeps it.
class roster {
 public:
  struct sender {
    address from;
    std::uint32_t session = 0;
  };

  explicit roster(int workers) : senders_(static_cast<std::size_t>(workers)) {}

  int workers() const { return static_cast<int>(senders_.size()); }

  /// Admits a worker. Returns empty if it is admitted, now or earlier; otherwise the reason for
  /// rejection.
  std::optional<refusal_reason> join(frame const& header, address const& from) {
    if (header.rank >= senders_.size()) return refusal_reason::rank;
    if (!senders_[header.rank]) senders_[header.rank] = sender{from, header.session};
    if (!is_known(header, from)) return refusal_reason::taken;
    return std::nullopt;
  }

  /// Whether the sender of a datagram is the one that joined as its rank.
  bool is_known(frame const& header, address const& from) const {
    if (header.rank >= senders_.size() || !senders_[header.rank]) return false;
    auto const& known = *senders_[header.rank];
    return known.session == header.session && known.from == from;
  }

  /// Null if no such worker has joined.
  sender const* of(int rank) const {
    auto const& one = senders_[static_cast<std::size_t>(rank)];
    return one ? &*one : nullptr;
  }

 private:
  std::vector<std::optional<sender>> senders_;
};

}  // namespace hcomp::udp
