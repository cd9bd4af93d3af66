#pragma once
/// @file
/// Packets for an aggregator as workers build them, and readers of its answers.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/core/bits.hpp>
#include <span>
#include <vector>

namespace hcomp::testing {

using packet = std::vector<std::byte>;

/// A contribution of `indices`, or of numbers of `header.bits` bits in general.
inline packet packet_of(aggregation_packet header, std::vector<std::uint32_t> const& numbers) {
  header.values = static_cast<std::uint32_t>(numbers.size());
  packet bytes(packet_bytes(header.values, header.bits));
  store(bytes.data(), 0, header);
  std::byte* const payload = bytes.data() + packet_header_bytes;
  if (header.bits == 32)
    for (std::size_t i = 0; i < numbers.size(); ++i) store(payload, i, numbers[i]);
  else
    pack_numbers(payload, numbers.size(), header.bits, [&](std::size_t i) { return numbers[i]; });
  return bytes;
}

inline aggregation_packet header_of(std::span<std::byte const> bytes) {
  return load<aggregation_packet>(bytes.data());
}

/// The numbers in a packet.
inline std::vector<std::uint32_t> numbers_in(std::span<std::byte const> bytes) {
  auto const header = header_of(bytes);
  std::vector<std::uint32_t> numbers(header.values);
  std::byte const* const payload = bytes.data() + packet_header_bytes;
  if (header.bits == 32)
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = load<std::uint32_t>(payload, i);
  else
    unpack_numbers(payload, numbers.size(), header.bits,
                   [&](std::size_t i, std::uint32_t number) { numbers[i] = number; });
  return numbers;
}

/// The ranks that contributed to a sum.
inline std::vector<int> members_in(std::span<std::byte const> bytes) {
  int const workers = header_of(bytes).rank;
  std::vector<int> members;
  for (int rank = 0; rank < workers; ++rank)
    if (has_member(bytes, workers, rank)) members.push_back(rank);
  return members;
}

/// Passes `sums` a packet that comes from the rank in its header.
inline aggregator_answer take(aggregator& sums, std::span<std::byte const> bytes,
                              std::chrono::nanoseconds now) {
  int const rank = bytes.size() < packet_header_bytes ? 0 : header_of(bytes).rank;
  return sums.take(rank, bytes, now);
}

/// 2^bits levels from 0 to `largest`, about evenly spaced.
inline std::vector<std::uint8_t> even_levels(int bits, int largest) {
  std::vector<std::uint8_t> levels(std::size_t{1} << bits);
  for (std::size_t i = 0; i < levels.size(); ++i)
    levels[i] =
        static_cast<std::uint8_t>(i * static_cast<std::size_t>(largest) / (levels.size() - 1));
  return levels;
}

}  // namespace hcomp::testing
