#pragma once
/// @file
/// The interface of packet links between an aggregator and its workers: weaker than a Transport.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hcomp {

/// Result of `receive`.
struct received_packet {
  int from = -1;  ///< rank of the sender; -1: timeout
  std::size_t bytes =
      0;  ///< size of the packet; bytes beyond the capacity of `buffer` are discarded
};

/// Moves packets of some KiB between ranks. Packets may be lost, late, duplicated or reordered, but
/// never truncated or changed.
///
/// `send` copies the packet and does not block. `receive` waits for a packet of any rank, at most
/// for the given timeout. Host memory; one thread at a time. A Transport does not suffice: its
/// `wait` waits for one given peer, without a timeout.
template <class L>
concept PacketLink = requires(L& l, L const& c, int peer, std::span<std::byte const> packet,
                              std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { l.send(peer, packet) } -> std::same_as<void>;  // throws transport_error
  { l.receive(buffer, timeout) } -> std::same_as<received_packet>;
  { l.now() } -> std::same_as<std::chrono::nanoseconds>;  // since an arbitrary epoch
  { c.bytes_sent() } -> std::same_as<std::uint64_t>;
};

}  // namespace hcomp
