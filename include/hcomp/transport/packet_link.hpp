#pragma once
/// @file
/// What an aggregator and its workers need from whatever moves packets: less than a Transport.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hcomp {

/// What `receive` got.
struct received_packet {
  int from = -1;          ///< rank of the sender; -1: nothing came in time
  std::size_t bytes = 0;  ///< of the packet; what the room given does not hold is lost
};

/// Moves packets of some KiB between ranks. Packets may get lost, come late, twice, and in any
/// order; but for that they come whole and as they were.
///
/// `send` keeps no reference to the packet and waits for nobody. `receive` waits for a packet of
/// any rank, but never longer than it is told. Host memory, one thread at a time.
/// A Transport cannot do this: its `wait` ends when the one peer it waits for has sent.
template <class L>
concept PacketLink = requires(L& l, L const& c, int peer, std::span<std::byte const> packet,
                              std::span<std::byte> room, std::chrono::nanoseconds timeout) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { l.send(peer, packet) } -> std::same_as<void>;  // throws transport_error
  { l.receive(room, timeout) } -> std::same_as<received_packet>;
  { l.now() } -> std::same_as<std::chrono::nanoseconds>;  // since some moment in the past
  { c.bytes_sent() } -> std::same_as<std::uint64_t>;
};

}  // namespace hcomp
