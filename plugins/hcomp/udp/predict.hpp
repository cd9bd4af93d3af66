#pragma once
/// @file
/// Predicted time of an all-reduce through an aggregator.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/udp/chunk_values.hpp>
#include <hcomp/udp/frame.hpp>
#include <stdexcept>

namespace hcomp::udp {

/// As hcomp::predict, for an aggregated_plan with an aggregator that is never slower than the
/// links.
///
/// A rank's link carries indices in one direction and results in the other at the same time. The
/// slower direction determines the time, independent of the number of ranks. Norms are exchanged
/// before.
/// @param codec  a codec with indices, for example thc
/// @throws std::invalid_argument  the codec has no indices, ranks < 1, or costs are negative or not
///                                finite
inline prediction predict(int ranks, std::size_t values, codec_cost const& codec,
                          link_cost const& link,
                          std::size_t datagram_bytes = ethernet_datagram_bytes) {
  hcomp::detail::require_ranks("udp::predict", ranks);
  hcomp::detail::require_costs("udp::predict", codec, link);
  if (codec.one_bits == 0 || codec.sum_step == 0)
    throw std::invalid_argument("udp::predict: the codec has no indices that an aggregator adds");
  auto const all = static_cast<double>(values);
  int const sum_bits =
      sum_bits_for(static_cast<std::uint64_t>(ranks) * static_cast<unsigned>(codec.sum_step));
  auto const chunk = chunk_values_for(static_cast<std::uint32_t>(codec.block_values), sum_bits,
                                      ranks, datagram_bytes);
  auto const bytes = [&](int bits, int members) {
    return all / chunk * static_cast<double>(frame_bytes + packet_bytes(chunk, bits, members));
  };
  double const norms =
      all / static_cast<double>(codec.block_values) * static_cast<double>(codec.statistics_bytes);
  prediction p;
  p.agree = 2 * link.seconds_per_message + 2 * norms * link.seconds_per_byte + codec.call +
            all * codec.measure;
  p.encode = codec.call + all * codec.encode;
  p.all_gather = 2 * link.seconds_per_message +
                 std::max(bytes(codec.one_bits, 0), bytes(sum_bits, ranks)) * link.seconds_per_byte;
  p.decode = codec.call + all * codec.decode;
  return p;
}

}  // namespace hcomp::udp
