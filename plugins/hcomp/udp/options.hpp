#pragma once
/// @file
/// UDP link options, counters, and validation shared by both sides.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/udp/frame.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::udp {

/// Options of `packets` and `aggregator_packets`. `workers`, `aggregators`, `job` and
/// `datagram_bytes` are equal on all ranks.
struct options {
  int rank = 0;
  int workers = 1;                            ///< ranks 0 to workers - 1
  std::vector<std::string> aggregators = {};  ///< "host:port" of the ranks that follow
  std::uint32_t job = 0;                      ///< different for each job of an aggregator
  std::string listen = {};  ///< address on which a worker receives answers; empty: any address, a
                            ///< free port
  /// Maximum size of a datagram. The default fits results of 1024 values of 8 bits, or 512 of 16
  /// bits. Larger ones need jumbo frames.
  std::size_t datagram_bytes = ethernet_datagram_bytes;
  /// Maximum number of unanswered packets per aggregator; further packets wait in a queue. The
  /// windows of all workers should fit into the aggregator's receive buffer.
  int window = 64;
  std::uint64_t bytes_per_second = 0;  ///< limits a worker's rate; 0: limited by the window only
  /// If a full window gets no answer for this time, its packets count as lost, and a new window
  /// opens.
  std::chrono::nanoseconds window_timeout = std::chrono::milliseconds(10);
  /// A worker that hears nothing from an aggregator for this time joins again: the aggregator may
  /// have restarted.
  std::chrono::nanoseconds join_again = std::chrono::milliseconds(50);
};

/// Counters of a link.
struct stats {
  std::uint64_t sent = 0;              ///< datagrams
  std::uint64_t received = 0;          ///< packets, passed to the caller
  std::uint64_t lost_here = 0;         ///< datagrams that the kernel could not send
  std::uint64_t waiting = 0;           ///< packets not queued because the queue already holds them
  std::uint64_t windows = 0;           ///< full windows without an answer
  std::uint64_t joins = 0;             ///< sent by a worker, accepted by an aggregator
  std::uint64_t foreign = 0;           ///< datagrams of unknown senders, or of another job
  std::chrono::nanoseconds waited{0};  ///< time that a worker waited for packets
  std::array<std::uint64_t, static_cast<std::size_t>(frame_fault::faults)> refused = {};
};

namespace detail {

inline options const& checked(options const& o) {
  using hcomp::detail::error_text;
  auto const aggregators = static_cast<int>(o.aggregators.size());
  if (o.workers < 1 || o.workers > 65535 || aggregators < 1)
    throw std::invalid_argument(
        error_text({"udp: ", o.workers, " workers and ", aggregators,
                    " aggregators; 1 to 65535 workers and at least 1 aggregator are needed"}));
  if (o.rank < 0 || o.rank >= o.workers + aggregators)
    throw std::invalid_argument(error_text(
        {"udp: rank ", o.rank, ", but there are ranks 0 to ", o.workers + aggregators - 1}));
  if (o.datagram_bytes < 512 || o.datagram_bytes > 65507)
    throw std::invalid_argument(
        error_text({"udp: datagrams of ", o.datagram_bytes, " bytes; 512 to 65507 are possible"}));
  if (o.window < 1)
    throw std::invalid_argument(
        error_text({"udp: a window of ", o.window, " packets; at least 1 is needed"}));
  return o;
}

inline void require_short(std::size_t packet_bytes, options const& o) {
  if (packet_bytes + frame_bytes > o.datagram_bytes)
    throw std::invalid_argument(hcomp::detail::error_text(
        {"send: a packet of ", packet_bytes, " bytes and ", frame_bytes,
         " before it, but datagrams have at most ", o.datagram_bytes,
         "; take smaller chunk_values, or datagram_bytes that the network holds"}));
}

}  // namespace detail
}  // namespace hcomp::udp
