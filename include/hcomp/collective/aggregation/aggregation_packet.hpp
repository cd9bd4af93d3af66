#pragma once
/// @file
/// The packets between workers and an aggregator: 32 bytes of header, then integers.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <span>

namespace hcomp {

/// Kind of packet. Workers send indices, words and leave; aggregators send sums and maxima.
enum class packet_kind : std::uint8_t {
  indices = 1,  ///< `values` indices into the table of levels, of `bits` bits each
  sums = 2,     ///< `values` sums of levels, of `bits` bits each, then the member bits
  words = 3,    ///< `values` words of 32 bits
  maxima = 4,   ///< `values` words, each the maximum over the members, then the member bits
  leave = 5,    ///< empty: this worker sends no more
};

/// Bits of aggregation_packet::flags.
enum packet_flag : std::uint16_t {
  packet_has_nonfinite = 1,  ///< a member had a NaN or an infinity; a sum has it if any member had
  packet_comes_late = 2,  ///< to one worker: its contribution came too late and is not in this sum
};

/// Header of every packet, little-endian. Numbers of b bits are packed without gaps: number i
/// starts at bit i b, counted from the lowest bit of the first byte. Member bits are packed in the
/// same way, one per worker: 1 if its contribution is in this sum.
struct aggregation_packet {
  std::uint16_t magic = 0x5401;  ///< 'T' and version 1
  packet_kind kind = packet_kind::indices;
  std::uint8_t bits = 0;            ///< per number of the payload
  std::uint16_t largest_level = 0;  ///< g, for indices and sums
  std::uint16_t flags = 0;          ///< bits of packet_flag
  std::uint32_t round = 0;
  std::uint32_t chunk = 0;    ///< number of the part of the vector, or of the words
  std::uint32_t values = 0;   ///< numbers in the payload
  std::uint16_t members = 1;  ///< contributions in the sum
  std::uint16_t rank = 0;     ///< of the sender; in kinds `sums` and `maxima`: number of workers
  std::uint32_t key = 0;      ///< folded: equal in all contributions to one sum
  std::uint32_t unit = 0;     ///< bits of a float, the norm: equal in all contributions to one sum
};
static_assert(sizeof(aggregation_packet) == 32);

inline constexpr std::size_t packet_header_bytes = sizeof(aggregation_packet);

/// Bytes of a packet of `values` numbers of `bits` bits, with member bits of `workers`, if any.
constexpr std::size_t packet_bytes(std::uint32_t values, int bits, int workers = 0) {
  return packet_header_bytes + (std::size_t{values} * static_cast<std::size_t>(bits) + 7) / 8 +
         (static_cast<std::size_t>(workers) + 7) / 8;
}

/// Bits of a number in packets of kind `sums` up to `largest`, with the default width.
constexpr int sum_bits_for(std::uint64_t largest) { return largest > 255 ? 16 : 8; }

/// The number of bits of `largest`.
constexpr int bits_for(std::uint64_t largest) {
  int bits = 1;
  while (largest >> bits) ++bits;
  return bits;
}

/// Whether contribution `rank` is in the sum. `packet` is complete, of kind `sums` or `maxima`.
inline bool has_member(std::span<std::byte const> packet, int workers, int rank) {
  auto const first = packet.size() - (static_cast<std::size_t>(workers) + 7) / 8;
  auto const byte = packet[first + static_cast<std::size_t>(rank) / 8];
  return (std::to_integer<int>(byte) >> (rank % 8) & 1) != 0;
}

/// Calls `use(i, number)` for the first `count` numbers of `bits` bits (1 to 16) in `bytes`.
template <class Use>
inline void unpack_numbers(std::byte const* bytes, std::size_t count, int bits, Use const& use) {
  std::uint32_t const mask = (1u << bits) - 1;
  std::uint32_t held = 0;  // bits read and not yet used
  int have = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (have < bits) {
      held |= std::to_integer<std::uint32_t>(*bytes++) << have;
      have += 8;
    }
    use(i, held & mask);
    held >>= bits;
    have -= bits;
  }
}

/// Writes `count` numbers of `bits` bits (1 to 16), `number(i)`, in complete bytes padded with 0.
template <class Number>
inline void pack_numbers(std::byte* bytes, std::size_t count, int bits, Number const& number) {
  std::uint32_t const mask = (1u << bits) - 1;
  std::uint32_t held = 0;
  int have = 0;
  for (std::size_t i = 0; i < count; ++i) {
    held |= (static_cast<std::uint32_t>(number(i)) & mask) << have;
    have += bits;
    while (have >= 8) {
      *bytes++ = static_cast<std::byte>(held);
      held >>= 8;
      have -= 8;
    }
  }
  if (have > 0) *bytes = static_cast<std::byte>(held);
}

}  // namespace hcomp
