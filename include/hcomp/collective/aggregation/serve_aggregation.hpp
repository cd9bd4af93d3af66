#pragma once
/// @file
/// The loop of a rank that is an aggregator.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <span>
#include <vector>

namespace hcomp {

/// Aggregates the contributions of the workers of `link`, ranks 0 to workers - 1, until all workers
/// have left or no packet has arrived for `idle`. So a failed worker, or a lost last packet, does
/// not block the aggregator forever.
///
/// @param options  from aggregation_layout::aggregator
/// @throws std::invalid_argument  as aggregator
/// @throws transport_error        from the link
template <PacketLink L>
aggregator_stats serve_aggregation(L& link, aggregator_options const& options,
                                   std::chrono::nanoseconds idle = std::chrono::minutes(1)) {
  using receiver = aggregator_answer::receiver;
  aggregator sums(options);
  int const workers = options.workers;
  std::vector<char> has_left(static_cast<std::size_t>(workers));
  int left = 0;
  // One byte more than the longest packet, to detect longer ones.
  std::vector<std::byte> buffer(std::max(packet_bytes(options.chunk_values, options.bits),
                                         packet_bytes(options.chunk_words, 32)) +
                                1);
  auto const send = [&](aggregator_answer const& answer) {
    if (answer.to == receiver::one) link.send(answer.rank, answer.packet);
    if (answer.to == receiver::all)
      for (int worker = 0; worker < workers; ++worker) link.send(worker, answer.packet);
  };

  for (auto last_heard = link.now(); left < workers;) {
    auto const now = link.now();
    for (auto out = sums.expire(now); out.to != receiver::nobody; out = sums.expire(now)) send(out);
    if (now - last_heard >= idle) break;
    auto const got = link.receive(buffer, std::min(sums.time_left(now), idle));
    if (got.from < 0) continue;
    last_heard = link.now();
    std::span<std::byte const> const packet(buffer.data(), std::min(got.bytes, buffer.size()));
    if (packet.size() == packet_header_bytes && got.from < workers) {
      auto const header = load<aggregation_packet>(packet.data());
      if (header.magic == aggregation_packet{}.magic && header.kind == packet_kind::leave) {
        char& gone = has_left[static_cast<std::size_t>(got.from)];
        if (!gone) ++left;
        gone = 1;
        continue;
      }
    }
    send(sums.take(got.from, packet, last_heard));
  }
  return sums.stats();
}

}  // namespace hcomp
