#pragma once
/// @file
/// What an aggregator is told, and what it tells about itself.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hcomp {

/// How wide the sums on the way back are.
enum class sum_width {
  lanes,  ///< 8 bits, or 16 where 8 do not hold the largest sum of all workers
  u16,    ///< 16 bits
  tight   ///< as many bits as the largest sum of all workers needs
};

/// Settings of an aggregator; those of its workers must fit.
struct aggregator_options {
  int workers = 1;  ///< ranks 0 to workers - 1, at most 65535
  int bits = 4;     ///< of an index, 1 to 8
  /// What an index adds: 2^bits values, never falling, from 0. A function of the codec's
  /// parameters; it is never sent.
  std::vector<std::uint8_t> levels = {};
  std::uint32_t chunks = 1;           ///< per round
  std::uint32_t chunk_values = 1024;  ///< at most, per packet
  std::uint32_t word_chunks = 0;      ///< packets of words per round
  std::uint32_t chunk_words = 256;    ///< at most, per packet
  std::uint32_t rounds = 2;           ///< under way at the same time
  /// How far a round may be beyond the newest one that has been contributed to; 1 to 2^31 - 1. The
  /// first contribution may be of any round: workers may have begun before the aggregator.
  std::uint32_t rounds_ahead = 1024;
  sum_width width = sum_width::lanes;
  int quota = 0;  ///< contributions after which a sum goes out; 0: those of all workers
  /// After so long a sum goes out with what has come, from the first contribution on; 0: never.
  std::chrono::nanoseconds deadline{0};
  /// The same for words, with which a round begins; 0: as `deadline`. Longer than workers may be
  /// apart after a round in which some waited for what was lost.
  std::chrono::nanoseconds word_deadline{0};
  bool answer_late = true;  ///< tell who comes late; otherwise late packets are dropped
};

/// Why a packet was refused.
enum class packet_fault : std::uint8_t {
  none,
  length,   ///< shorter or longer than its header says, or than a header
  magic,    ///< not such a packet, or of another version
  kind,     ///< nothing a worker sends
  rank,     ///< of no worker
  members,  ///< not one contribution
  values,   ///< none, too many, or others than the first contribution has
  levels,   ///< other bits or another largest level
  chunk,    ///< of no part of the vector
  key,      ///< another seed, step or tensor than the first contribution's
  unit,     ///< another norm than the first contribution's
  sender,   ///< a rank that is not its sender's
  round,    ///< more than rounds_ahead beyond the newest
  faults    ///< how many there are
};

/// Text for people: what `fault` means.
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

/// What became of the packets so far.
struct aggregator_stats {
  std::uint64_t added = 0;       ///< contributions
  std::uint64_t duplicates = 0;  ///< of contributions already added
  std::uint64_t late = 0;        ///< after the sum had gone out without them
  std::uint64_t stale = 0;       ///< of a round whose place a newer one has taken
  std::uint64_t whole = 0;       ///< sums of all workers that went out
  std::uint64_t partial = 0;     ///< sums of fewer, by quota or deadline
  std::uint64_t abandoned = 0;   ///< sums that a newer round ended before they went out
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
