#pragma once
/// @file
/// The number of coordinates per packet, such that indices and results fit into datagrams.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/udp/frame.hpp>

namespace hcomp::udp {

/// The largest power of two from 64 to `most` whose results fit into datagrams; 64 if none does.
/// @param most      a power of two: a packet covers one block
/// @param sum_bits  bits per coordinate of a result, see sum_bits_for
constexpr std::uint32_t chunk_values_for(std::uint32_t most, int sum_bits, int workers,
                                         std::size_t datagram_bytes) {
  std::uint32_t chunk = most;
  while (chunk > 64 && packet_bytes(chunk, sum_bits, workers) + frame_bytes > datagram_bytes)
    chunk /= 2;
  return chunk;
}

}  // namespace hcomp::udp
