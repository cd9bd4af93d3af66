#pragma once
/// @file
/// Options, faults and counters of an aggregator.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hcomp {

/// Width of the partial sums that aggregators send.
enum class sum_width {
  lanes,  ///< 8 bits, or 16 if the largest sum of all workers exceeds 8
  u16,    ///< 16 bits
  tight   ///< the number of bits of the largest sum of all workers
};

/// Options of an aggregator. They must match those of its workers.
struct aggregator_options {
  int workers = 1;  ///< ranks 0 to workers - 1, at most 65535
  int bits = 4;     ///< per index, 1 to 8
  /// The value of each index: 2^bits values, nondecreasing, starting at 0. A function of the
  /// codec's parameters; it is never sent.
  std::vector<std::uint8_t> levels = {};
  std::uint32_t chunks = 1;           ///< per round
  std::uint32_t chunk_values = 1024;  ///< at most, per packet
  std::uint32_t word_chunks = 0;      ///< packets of words per round
  std::uint32_t chunk_words = 256;    ///< at most, per packet
  std::uint32_t rounds = 2;           ///< in progress at the same time
  /// How far a round may be ahead of the newest round with a contribution; 1 to 2^31 - 1. The first
  /// contribution may have any round, because workers may start before the aggregator.
  std::uint32_t rounds_ahead = 1024;
  sum_width width = sum_width::lanes;
  int quota = 0;  ///< contributions after which a sum is sent; 0: those of all workers
  /// Time from the first contribution after which a partial sum is sent; 0: never.
  std::chrono::nanoseconds deadline{0};
  /// The same for words, which start a round; 0: as `deadline`. Must exceed the time by which
  /// workers differ after a round in which some of them waited for lost packets.
  std::chrono::nanoseconds word_deadline{0};
  bool answer_late = true;  ///< answer late workers; false: late packets are dropped
};

/// Why a packet was refused.
enum class packet_fault : std::uint8_t {
  none,
  length,   ///< does not match the header, or is shorter than one
  magic,    ///< not an aggregation packet, or of another version
  kind,     ///< a kind that workers do not send
  rank,     ///< not a worker's
  members,  ///< not one contribution
  values,   ///< none, too many, or not the number of the first contribution
  levels,   ///< other bits or another largest level
  chunk,    ///< outside the vector
  key,      ///< another seed, step or tensor than the first contribution's
  unit,     ///< another norm than the first contribution's
  sender,   ///< not the rank of its sender
  round,    ///< more than rounds_ahead beyond the newest
  faults    ///< number of faults
};

/// Description of a fault, for people.
inline char const* to_text(packet_fault fault) {
  switch (fault) {
    case packet_fault::none: return "no fault";
    case packet_fault::length: return "a packet of another length than its header says";
    case packet_fault::magic: return "not an aggregation packet of this version";
    case packet_fault::kind: return "a kind of packet that no worker sends";
    case packet_fault::rank: return "a rank that is no worker";
    case packet_fault::members: return "a contribution of more or less than one worker";
    case packet_fault::values: return "a chunk of another number of values";
    case packet_fault::levels: return "a table of another size";
    case packet_fault::chunk: return "a chunk outside the vector";
    case packet_fault::key: return "another seed, step or tensor";
    case packet_fault::unit: return "another norm";
    case packet_fault::sender: return "a rank that is not its sender's";
    case packet_fault::round: return "a round too far ahead";
    case packet_fault::faults: break;
  }
  return "unknown fault";
}

/// Counters of packets and sums.
struct aggregator_stats {
  std::uint64_t added = 0;       ///< contributions
  std::uint64_t duplicates = 0;  ///< contributions already added
  std::uint64_t late = 0;        ///< contributions after the sum was sent without them
  std::uint64_t stale = 0;       ///< contributions to a round whose slot a newer round has taken
  std::uint64_t whole = 0;       ///< complete: all workers contributed
  std::uint64_t partial = 0;     ///< sent with fewer workers, by quota or deadline
  std::uint64_t abandoned = 0;   ///< ended by a newer round before they were sent
  std::array<std::uint64_t, static_cast<std::size_t>(packet_fault::faults)> refused = {};

  aggregator_stats& operator+=(aggregator_stats const& other) {
    added += other.added;
    duplicates += other.duplicates;
    late += other.late;
    stale += other.stale;
    whole += other.whole;
    partial += other.partial;
    abandoned += other.abandoned;
    for (std::size_t fault = 0; fault < refused.size(); ++fault)
      refused[fault] += other.refused[fault];
    return *this;
  }
  std::uint64_t all_refused() const {
    std::uint64_t sum = 0;
    for (std::uint64_t const count : refused) sum += count;
    return sum;
  }
};

}  // namespace hcomp
