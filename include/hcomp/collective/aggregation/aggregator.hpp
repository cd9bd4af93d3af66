#pragma once
/// @file
/// An aggregating switch as an object: table look-ups, integer additions, answers.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/core/bits.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp {

/// The packet to send after a packet or a deadline, if any.
struct aggregator_answer {
  enum class receiver { nobody, one, all };
  receiver to = receiver::nobody;
  int rank = -1;                           ///< the receiver, if it is one
  std::span<std::byte const> packet = {};  ///< valid until the next call
  packet_fault refused = packet_fault::none;
};

/// Adds table values, by round and chunk: integers in, integers out.
///
/// Contributions to a round and chunk are added in a slot of a fixed pool, in any order; a bitmap
/// records the contributors. After `quota` contributions, or at the deadline, all workers get the
/// sum, with the number and bitmap of its members. Later, a repeated or late contribution is
/// answered with the sum, for its sender only.
///
/// A slot serves `rounds` rounds in turn: a newer round replaces an older one, whose packets are
/// then stale. Words (norms as the bits of nonnegative floats) are united by maximum in the same
/// way, in slots of their own.
///
/// Every packet is validated. A packet is counted by reason and changes nothing if it is malformed,
/// names another rank than its sender's, belongs to a round far ahead, or contradicts its slot.
/// Detecting damage and identifying the sender are the link's tasks.
///
/// Uses no clock, no link and no floating-point instruction; allocates only in the constructor.
/// Memory: per round about 2 bytes per value, 4 with 16-bit sums, and 8 per word.
/// Cost of a contribution: one look-up and one addition per value.
/// Source: Li et al., THC, NSDI 2024; slots and bitmap after Sapio et al., SwitchML, NSDI 2021.
class aggregator {
 public:
  /// @throws std::invalid_argument  an option out of range, or levels whose sum over all workers
  ///                                may exceed 16 bits
  explicit aggregator(aggregator_options options) : options_(std::move(options)) {
    require_sound();
    largest_level_ = options_.levels.back();
    if (options_.quota == 0) options_.quota = options_.workers;
    std::uint64_t const largest =
        std::uint64_t{largest_level_} * static_cast<std::uint64_t>(options_.workers);
    lane_bytes_ = options_.width == sum_width::u16 ? 2 : sum_bits_for(largest) / 8;
    sum_bits_ = options_.width == sum_width::tight ? bits_for(largest) : 8 * lane_bytes_;
    for (std::size_t byte = 0; byte < 256; ++byte)
      if (options_.bits == 4)
        pairs_[byte] = static_cast<std::uint16_t>(options_.levels[byte & 15] |
                                                  options_.levels[byte >> 4] << 8);
    vector_.make(options_.rounds, options_.chunks,
                 std::size_t{options_.chunk_values} * static_cast<std::size_t>(lane_bytes_),
                 packet_bytes(options_.chunk_values, sum_bits_, options_.workers));
    words_.make(options_.rounds, options_.word_chunks, std::size_t{options_.chunk_words} * 4,
                packet_bytes(options_.chunk_words, 32, options_.workers));
    words_.has_words = true;
    vector_.deadline = options_.deadline;
    words_.deadline =
        options_.word_deadline.count() > 0 ? options_.word_deadline : options_.deadline;
    seen_words_ = (static_cast<std::size_t>(options_.workers) + 63) / 64;
    vector_.seen.resize(vector_.slots.size() * seen_words_);
    words_.seen.resize(words_.slots.size() * seen_words_);
  }

  aggregator_options const& options() const { return options_; }
  aggregator_stats const& stats() const { return stats_; }
  int sum_bits() const { return sum_bits_; }  ///< per number in packets of kind `sums`

  /// Adds a contribution.
  /// @param from  the sender's rank, as the link knows it
  /// @param now   since some moment in the past; never decreases between calls
  aggregator_answer take(int from, std::span<std::byte const> packet,
                         std::chrono::nanoseconds now) {
    aggregation_packet header;
    packet_fault fault = read(packet, header);
    if (fault != packet_fault::none) return refuse(fault);
    if (header.rank != from) return refuse(packet_fault::sender);
    if (newest_ &&
        rounds_between(*newest_, header.round) > static_cast<std::int64_t>(options_.rounds_ahead))
      return refuse(packet_fault::round);
    bool const is_words = header.kind == packet_kind::words;
    pool& mine = is_words ? words_ : vector_;
    std::size_t const at = std::size_t{header.round % options_.rounds} * mine.chunks + header.chunk;
    slot& place = mine.slots[at];

    if (place.state != slot_state::empty && place.round != header.round) {
      if (rounds_between(place.round, header.round) < 0) {
        ++stats_.stale;
        return {};
      }
      if (place.state == slot_state::open) {
        ++stats_.abandoned;
        mine.close(at);
      }
      place.state = slot_state::empty;
    }
    if (place.state == slot_state::empty) {
      begin(mine, at, header, now);
    } else {
      fault = header.values != place.values ? packet_fault::values
              : header.key != place.key     ? packet_fault::key
              : header.unit != place.unit   ? packet_fault::unit
                                            : packet_fault::none;
      if (fault != packet_fault::none) return refuse(fault);
    }

    std::uint64_t& seen = mine.seen[at * seen_words_ + header.rank / 64];
    std::uint64_t const bit = std::uint64_t{1} << header.rank % 64;
    if (place.state == slot_state::out) {
      bool const is_late = (seen & bit) == 0;
      ++(is_late ? stats_.late : stats_.duplicates);
      if (is_late && !options_.answer_late) return {};
      return again(mine, at, header.rank, is_late);
    }
    if (seen & bit) {
      ++stats_.duplicates;
      return {};
    }
    seen |= bit;
    ++place.members;
    ++stats_.added;
    place.flags = static_cast<std::uint16_t>(place.flags | (header.flags & packet_has_nonfinite));
    add(mine, at, packet.data() + packet_header_bytes);
    return place.members >= options_.quota ? finish(mine, at) : aggregator_answer{};
  }

  /// The next sum whose deadline has passed, for all workers. Call it until the receiver is nobody.
  aggregator_answer expire(std::chrono::nanoseconds now) {
    for (pool* const mine : {&words_, &vector_})
      if (mine->deadline.count() > 0 && mine->first_open != none &&
          now - mine->slots[mine->first_open].since >= mine->deadline)
        return finish(*mine, mine->first_open);
    return {};
  }

  /// Time from `now` until `expire` may have a sum; the maximum duration if never.
  std::chrono::nanoseconds time_left(std::chrono::nanoseconds now) const {
    auto left = std::chrono::nanoseconds::max();
    for (pool const* const mine : {&words_, &vector_})
      if (mine->first_open != none && mine->deadline.count() > 0) {
        auto const passed = now - mine->slots[mine->first_open].since;
        left = std::min(
            left, passed < mine->deadline ? mine->deadline - passed : std::chrono::nanoseconds(0));
      }
    return left;
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  enum class slot_state : std::uint8_t { empty, open, out };

  /// A sum that is open, or sent and kept for repeated requests.
  struct slot {
    slot_state state = slot_state::empty;
    std::uint16_t flags = 0;
    int members = 0;
    std::uint32_t round = 0, values = 0, key = 0, unit = 0;
    std::chrono::nanoseconds since{0};       ///< time of the first contribution
    std::size_t older = none, newer = none;  ///< list of open slots, by deadline
  };

  /// The slots of one kind of numbers.
  struct pool {
    bool has_words = false;  ///< false: table values
    std::size_t chunks = 0, sum_bytes = 0, packet_bytes = 0;
    std::vector<slot> slots;
    std::vector<std::uint64_t> seen;
    std::vector<std::byte> sums, packets;
    std::size_t first_open = none, last_open = none;
    std::chrono::nanoseconds deadline{0};

    void make(std::size_t rounds, std::size_t count, std::size_t bytes, std::size_t packet) {
      chunks = count;
      sum_bytes = bytes;
      packet_bytes = packet;
      slots.resize(rounds * count);
      sums.resize(rounds * count * bytes);
      packets.resize(rounds * count * packet);
    }
    std::byte* sum(std::size_t at) { return sums.data() + at * sum_bytes; }
    std::byte* packet(std::size_t at) { return packets.data() + at * packet_bytes; }
    void open(std::size_t at) {
      slots[at].older = last_open;
      slots[at].newer = none;
      (last_open == none ? first_open : slots[last_open].newer) = at;
      last_open = at;
    }
    void close(std::size_t at) {
      auto const [older, newer] = std::pair(slots[at].older, slots[at].newer);
      (older == none ? first_open : slots[older].newer) = newer;
      (newer == none ? last_open : slots[newer].older) = older;
    }
  };

  void require_sound() const {
    auto const refuse_setting = [](std::string const& text) {
      throw std::invalid_argument("aggregator: " + text);
    };
    auto const& o = options_;
    if (o.workers < 1 || o.workers > 65535)
      refuse_setting(std::to_string(o.workers) + " workers; 1 to 65535 are possible");
    if (o.bits < 1 || o.bits > 8)
      refuse_setting("indices of " + std::to_string(o.bits) + " bits; 1 to 8 are possible");
    if (o.levels.size() != std::size_t{1} << o.bits)
      refuse_setting(std::to_string(o.levels.size()) + " levels for indices of " +
                     std::to_string(o.bits) + " bits, " + std::to_string(1 << o.bits) +
                     " are needed");
    for (std::size_t i = 0; i + 1 < o.levels.size(); ++i)
      if (o.levels[i] > o.levels[i + 1])
        refuse_setting("level " + std::to_string(i) + " is " + std::to_string(o.levels[i]) +
                       ", the next one " + std::to_string(o.levels[i + 1]) + "; levels never fall");
    if (o.levels.front() != 0 || o.levels.back() == 0)
      refuse_setting("levels from " + std::to_string(o.levels.front()) + " to " +
                     std::to_string(o.levels.back()) + "; from 0 to 1 or more is needed");
    std::uint64_t const largest =
        std::uint64_t{o.levels.back()} * static_cast<std::uint64_t>(o.workers);
    if (largest > 65535)
      refuse_setting("the sum of " + std::to_string(o.workers) + " workers' levels of up to " +
                     std::to_string(o.levels.back()) + " is up to " + std::to_string(largest) +
                     ", 16 bits hold 65535; at most " + std::to_string(65535 / o.levels.back()) +
                     " workers are possible");
    if (o.quota < 0 || o.quota > o.workers)
      refuse_setting("a quota of " + std::to_string(o.quota) + " contributions of " +
                     std::to_string(o.workers) + " workers");
    if (o.rounds < 1 || o.rounds > 65536 || o.chunk_values < 1 || o.chunk_words < 1)
      refuse_setting("chunks of " + std::to_string(o.chunk_values) + " values and " +
                     std::to_string(o.chunk_words) + " words in " + std::to_string(o.rounds) +
                     " rounds; at least 1 of each is needed, and at most 65536 rounds");
    if (o.rounds_ahead < 1 || o.rounds_ahead > 0x7fffffff)
      refuse_setting("rounds_ahead " + std::to_string(o.rounds_ahead) +
                     "; 1 to 2147483647 are possible");
  }

  /// Rounds are compared like sequence numbers: 2^32 - 1 comes before 0.
  static std::int32_t rounds_between(std::uint32_t from, std::uint32_t to) {
    return static_cast<std::int32_t>(to - from);
  }

  aggregator_answer refuse(packet_fault fault) {
    ++stats_.refused[static_cast<std::size_t>(fault)];
    aggregator_answer answer;
    answer.refused = fault;
    return answer;
  }

  /// The fault of a packet, independent of its slot.
  packet_fault read(std::span<std::byte const> packet, aggregation_packet& header) const {
    aggregation_packet const expected;
    if (packet.size() < packet_header_bytes) return packet_fault::length;
    header = load<aggregation_packet>(packet.data());
    if (header.magic != expected.magic) return packet_fault::magic;
    bool const is_words = header.kind == packet_kind::words;
    if (!is_words && header.kind != packet_kind::indices) return packet_fault::kind;
    if (header.rank >= options_.workers) return packet_fault::rank;
    if (header.members != 1) return packet_fault::members;
    if (header.bits != (is_words ? 32 : options_.bits) ||
        header.largest_level != (is_words ? 0 : largest_level_))
      return packet_fault::levels;
    if (header.chunk >= (is_words ? options_.word_chunks : options_.chunks))
      return packet_fault::chunk;
    if (header.values < 1 ||
        header.values > (is_words ? options_.chunk_words : options_.chunk_values))
      return packet_fault::values;
    if (packet.size() != packet_bytes(header.values, header.bits)) return packet_fault::length;
    return packet_fault::none;
  }

  void begin(pool& mine, std::size_t at, aggregation_packet const& header,
             std::chrono::nanoseconds now) {
    slot& place = mine.slots[at];
    place.state = slot_state::open;
    place.flags = 0;
    place.members = 0;
    place.round = header.round;
    if (!newest_ || rounds_between(*newest_, header.round) > 0) newest_ = header.round;
    place.values = header.values;
    place.key = header.key;
    place.unit = header.unit;
    place.since = now;
    std::fill_n(mine.seen.data() + at * seen_words_, seen_words_, std::uint64_t{0});
    std::memset(mine.sum(at), 0, mine.sum_bytes);
    mine.open(at);
  }

  void add(pool& mine, std::size_t at, std::byte const* payload) {
    std::byte* const sum = mine.sum(at);
    std::size_t const count = mine.slots[at].values;
    if (mine.has_words) {
      for (std::size_t i = 0; i < count; ++i)
        store(sum, i, std::max(load<std::uint32_t>(sum, i), load<std::uint32_t>(payload, i)));
    } else if (lane_bytes_ == 2) {
      auto const* const level = options_.levels.data();
      unpack_numbers(payload, count, options_.bits, [&](std::size_t i, std::uint32_t index) {
        store(sum, i, static_cast<std::uint16_t>(load<std::uint16_t>(sum, i) + level[index]));
      });
    } else if (options_.bits == 4) {
      // Two 8-bit sums in one addition: neither can reach 256, so there is no carry.
      for (std::size_t i = 0; i < count / 2; ++i)
        store(sum, i,
              static_cast<std::uint16_t>(load<std::uint16_t>(sum, i) +
                                         pairs_[std::to_integer<std::size_t>(payload[i])]));
      if (count % 2 != 0)
        add_level(sum[count - 1], std::to_integer<std::size_t>(payload[count / 2]) & 15);
    } else {
      unpack_numbers(payload, count, options_.bits,
                     [&](std::size_t i, std::uint32_t index) { add_level(sum[i], index); });
    }
  }
  void add_level(std::byte& sum, std::size_t index) const {
    sum = static_cast<std::byte>(std::to_integer<unsigned>(sum) + options_.levels[index]);
  }

  /// Closes the slot and sends its sum to all workers.
  aggregator_answer finish(pool& mine, std::size_t at) {
    slot& place = mine.slots[at];
    place.state = slot_state::out;
    mine.close(at);
    ++(place.members == options_.workers ? stats_.whole : stats_.partial);

    aggregation_packet header;
    header.kind = mine.has_words ? packet_kind::maxima : packet_kind::sums;
    header.bits = static_cast<std::uint8_t>(mine.has_words ? 32 : sum_bits_);
    header.largest_level = mine.has_words ? std::uint16_t{0} : largest_level_;
    header.flags = place.flags;
    header.round = place.round;
    header.chunk = static_cast<std::uint32_t>(at % mine.chunks);
    header.values = place.values;
    header.members = static_cast<std::uint16_t>(place.members);
    header.rank = static_cast<std::uint16_t>(options_.workers);
    header.key = place.key;
    header.unit = place.unit;

    std::byte* const packet = mine.packet(at);
    std::byte* const payload = packet + packet_header_bytes;
    std::byte const* const sum = mine.sum(at);
    store(packet, 0, header);
    std::size_t const count = place.values;
    if (mine.has_words || sum_bits_ == 8 * lane_bytes_)
      std::memcpy(payload, sum, count * (mine.has_words ? 4u : static_cast<unsigned>(lane_bytes_)));
    else if (lane_bytes_ == 1)
      pack_numbers(payload, count, sum_bits_,
                   [&](std::size_t i) { return std::to_integer<unsigned>(sum[i]); });
    else
      pack_numbers(payload, count, sum_bits_,
                   [&](std::size_t i) { return load<std::uint16_t>(sum, i); });
    std::size_t const bytes = packet_size(mine, place);
    std::size_t const members = (static_cast<std::size_t>(options_.workers) + 7) / 8;
    std::memcpy(packet + bytes - members, mine.seen.data() + at * seen_words_, members);
    return {aggregator_answer::receiver::all, -1, {packet, bytes}, packet_fault::none};
  }

  /// Sends the slot's sum again, to one worker.
  aggregator_answer again(pool& mine, std::size_t at, int rank, bool is_late) {
    slot const& place = mine.slots[at];
    auto header = load<aggregation_packet>(mine.packet(at));
    header.flags =
        static_cast<std::uint16_t>(place.flags | (is_late ? packet_comes_late : packet_flag{}));
    store(mine.packet(at), 0, header);
    return {aggregator_answer::receiver::one,
            rank,
            {mine.packet(at), packet_size(mine, place)},
            packet_fault::none};
  }
  std::size_t packet_size(pool const& mine, slot const& place) const {
    return packet_bytes(place.values, mine.has_words ? 32 : sum_bits_, options_.workers);
  }

  aggregator_options options_;
  aggregator_stats stats_;
  std::uint16_t largest_level_ = 0;
  int lane_bytes_ = 1;
  int sum_bits_ = 8;
  std::size_t seen_words_ = 1;              ///< words of 64 workers each
  std::array<std::uint16_t, 256> pairs_{};  ///< levels of two 4-bit indices
  std::optional<std::uint32_t> newest_;     ///< newest round with a contribution
  pool vector_, words_;
};

}  // namespace hcomp
