#pragma once
/// @file
/// Results received from aggregators: partial sums, each chunk with its own number of members, and
/// missing chunks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/aggregation/aggregation_layout.hpp>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// pack_numbers for bytes.
inline void pack_indices(std::byte* out, std::uint8_t const* indices, std::size_t count, int bits) {
  if (bits != 4) return pack_numbers(out, count, bits, [&](std::size_t i) { return indices[i]; });
  for (std::size_t i = 0; i < count / 2; ++i)
    out[i] = static_cast<std::byte>(indices[2 * i] | indices[2 * i + 1] << 4);
  if (count % 2 != 0) out[count / 2] = static_cast<std::byte>(indices[count - 1]);
}

/// The partial sums of one round.
template <IndexCodec C> class partial_sums {
 public:
  explicit partial_sums(aggregation_layout<C> const& layout)
      : layout_(&layout),
        codec_(wide(layout.codec())),
        largest_(static_cast<std::uint32_t>(codec_.granularity())),
        norms_(layout.words()),
        sums_(layout.coordinates()),
        members_(layout.chunks()),
        states_(layout.chunks()),
        has_words_(layout.word_chunks()),
        block_(codec_.block_bytes(C::block_values)) {}

  /// The worker's codec, with room for any number of members.
  C const& codec() const { return codec_; }

  /// Discards the last round.
  void begin(std::uint32_t round, std::uint64_t key, int rank) {
    round_ = round;
    key_ = key;
    rank_ = rank;
    std::fill(norms_.begin(), norms_.end(), 0u);
    std::fill(members_.begin(), members_.end(), 0u);
    std::fill(states_.begin(), states_.end(), std::uint8_t{0});
    std::fill(has_words_.begin(), has_words_.end(), char{0});
  }

  bool has_words(std::size_t chunk) const { return has_words_[chunk]; }
  bool has_words_of_block(std::size_t b) const {
    return has_words_[b * layout_->words_per_block() / chunk_words];
  }
  std::uint32_t const* norms_of_block(std::size_t b) const {
    return norms_.data() + b * layout_->words_per_block();
  }
  /// Number of workers in the sum of a chunk; 0: not received.
  std::uint32_t members(std::size_t chunk) const { return members_[chunk]; }
  bool has_me(std::size_t chunk) const { return states_[chunk] & me; }
  bool has_nonfinite(std::size_t chunk) const { return states_[chunk] & nonfinite; }

  /// The header of a contribution to `chunk`, without flags and number of values.
  aggregation_packet header(packet_kind kind, std::size_t chunk) const {
    bool const is_words = kind == packet_kind::words;
    aggregation_packet h;
    h.kind = kind;
    h.bits = static_cast<std::uint8_t>(is_words ? 32 : codec_.bits());
    h.largest_level = static_cast<std::uint16_t>(is_words ? 0 : largest_);
    h.round = round_;
    h.chunk = layout_->number_of(chunk);
    h.rank = static_cast<std::uint16_t>(rank_);
    h.key = static_cast<std::uint32_t>(key_ ^ key_ >> 32);
    h.unit = is_words ? 0 : unit_of(chunk);
    return h;
  }

  /// Keeps packets of this round and drops all other packets.
  void take(int from, std::span<std::byte const> packet) {
    if (packet.size() < packet_header_bytes) return;
    auto const h = load<aggregation_packet>(packet.data());
    bool const is_words = h.kind == packet_kind::maxima;
    if (h.magic != aggregation_packet{}.magic || (!is_words && h.kind != packet_kind::sums) ||
        h.round != round_ || h.key != static_cast<std::uint32_t>(key_ ^ key_ >> 32) ||
        h.rank != layout_->workers() || h.members < 1 || h.members > layout_->workers())
      return;
    std::size_t const chunk = layout_->chunk_of(from, h.chunk);
    if (chunk >= (is_words ? layout_->word_chunks() : layout_->chunks())) return;
    if (h.values != (is_words ? layout_->words_in(chunk) : layout_->values_in(chunk)) ||
        (is_words ? h.bits != 32 : h.bits < 1 || h.bits > 16 || h.largest_level != largest_) ||
        packet.size() != packet_bytes(h.values, h.bits, layout_->workers()))
      return;
    std::byte const* const payload = packet.data() + packet_header_bytes;
    if (is_words) {
      std::memcpy(norms_.data() + chunk * chunk_words, payload, h.values * 4u);
      has_words_[chunk] = 1;
      return;
    }
    // A worker that received no norms can still decode chunks that other workers contributed to.
    std::size_t const word = word_of(chunk * layout_->chunk_values());
    bool const has_norm = has_words_[word / chunk_words];
    if (!has_norm && is_one_transform()) norms_[word] = h.unit;
    // After a restart of an aggregator, workers may have other norms for the same round.
    if (has_norm && h.unit != unit_of(chunk)) return;
    auto* const sums = sums_.data() + chunk * layout_->chunk_values();
    unpack_numbers(payload, h.values, h.bits, [&](std::size_t i, std::uint32_t sum) {
      sums[i] = static_cast<std::uint16_t>(sum);
    });
    members_[chunk] = h.members;
    states_[chunk] =
        static_cast<std::uint8_t>((has_member(packet, layout_->workers(), rank_) ? me : 0) |
                                  (h.flags & packet_has_nonfinite ? nonfinite : 0));
  }

  /// The mean of block b. Each chunk is divided by its own number of members.
  ///
  /// The codec divides all coordinates of a block by one weight. If chunks differ, they are scaled
  /// to the largest weight that 16 bits hold, which rounds them to 1/65535 of the range: a squared
  /// error of 4e-10. A missing chunk is the middle of the range: 0.
  template <class Out> void decode(std::size_t b, Out* x) {
    std::uint32_t const weight = unite_chunks(b);
    codec_.decode_sums(simd_group{}, block_.data(), norm_bytes_of(b), values_in(b),
                       {key_, 0, weight, static_cast<std::uint32_t>(b), nullptr}, x,
                       reduce_op::mean);
  }
  /// Whether `decode` yields only finite values.
  bool stays_finite(std::size_t b) {
    // a mean does not depend on the weight
    if (!may_be_infinite<typename C::value_type>(
            codec_.largest_sum(norm_bytes_of(b), values_in(b), 1, reduce_op::mean)))
      return true;
    std::uint32_t const weight = unite_chunks(b);
    return codec_.sums_stay_finite(simd_group{}, block_.data(), norm_bytes_of(b), values_in(b),
                                   weight, reduce_op::mean);
  }

  /// This worker's contribution, as a block of codec(); valid until the next call.
  /// @param indices       of the block; null: this worker has sent nothing
  /// @param only_members  chunks whose sums lack this worker count as 0
  std::byte const* own_block(std::size_t b, std::uint8_t const* indices, bool only_members) {
    int const n = layout_->blocks().values_in(b);
    std::size_t const norm_bytes = codec_.statistics_in(n) * 4;
    // All values are doubled, so that 0, the middle of the range, is an integer.
    auto const header = make_header(
        C::codec_id, n, false,
        {key_, static_cast<std::uint32_t>(rank_), 2, static_cast<std::uint32_t>(b), nullptr});
    store(block_.data(), 0, header);
    std::memcpy(block_.data() + block_header_bytes, norms_of_block(b), norm_bytes);
    std::byte* const lanes = block_.data() + block_header_bytes + norm_bytes;
    auto const levels = codec_.levels();
    auto const [first, last] = chunks_of(b);
    std::size_t const at = b * C::block_values;
    for (std::size_t c = first; c < last; ++c) {
      std::size_t const from = c * layout_->chunk_values() - at, count = layout_->values_in(c);
      std::byte* const out = lanes + from * sizeof(std::uint16_t);
      if (indices && (!only_members || members_[c] == 0 || has_me(c)))
        for (std::size_t i = 0; i < count; ++i)
          store(out, i, static_cast<std::uint16_t>(2 * levels[indices[from + i]]));
      else
        for (std::size_t i = 0; i < count; ++i) store(out, i, static_cast<std::uint16_t>(largest_));
    }
    return block_.data();
  }

 private:
  int values_in(std::size_t b) const { return layout_->blocks().values_in(b); }
  std::byte const* norm_bytes_of(std::size_t b) const {
    return reinterpret_cast<std::byte const*>(norms_of_block(b));
  }

  /// Writes the partial sums of a block into block_, and returns their common weight.
  std::uint32_t unite_chunks(std::size_t b) {
    auto const [first, last] = chunks_of(b);
    std::size_t const at = b * C::block_values;
    std::uint32_t weight = members_[first];
    bool const alike = std::all_of(members_.begin() + static_cast<std::ptrdiff_t>(first),
                                   members_.begin() + static_cast<std::ptrdiff_t>(last),
                                   [&](std::uint32_t k) { return k == weight; });
    if (!alike || weight == 0) weight = 65535 / largest_ / 2 * 2;
    std::byte* const lanes = block_.data();
    for (std::size_t c = first; c < last; ++c) {
      std::size_t const from = c * layout_->chunk_values(), count = layout_->values_in(c);
      std::uint32_t const k = members_[c], middle = largest_ * weight / 2;
      std::uint16_t const* const sums = sums_.data() + from;
      std::byte* const out = lanes + (from - at) * sizeof(std::uint16_t);
      if (k == weight)
        std::memcpy(out, sums, count * sizeof(std::uint16_t));
      else if (k == 0)
        for (std::size_t i = 0; i < count; ++i) store(out, i, static_cast<std::uint16_t>(middle));
      else
        for (std::size_t i = 0; i < count; ++i)
          store(out, i, static_cast<std::uint16_t>((sums[i] * weight + k / 2) / k));
    }
    return weight;
  }

  static constexpr std::uint8_t me = 1, nonfinite = 2;
  /// The prime next to 2^32 / golden ratio: the multiplier of Knuth's multiplicative hash (TAOCP 3,
  /// section 6.4).
  static constexpr std::uint32_t golden_ratio_prime = 0x9e3779b1u;
  static constexpr std::size_t chunk_words = aggregation_layout<C>::chunk_words;

  /// The same levels with 16 bits per sum.
  static C wide(C const& codec) {
    return C(thc_options{codec.bits(), codec.granularity(), codec.truncation(), codec.transform()})
        .fitted(65535u / static_cast<std::uint32_t>(codec.granularity()));
  }

  bool is_one_transform() const {
    return layout_->chunk_values() <= static_cast<std::uint32_t>(codec_.transform());
  }
  std::size_t word_of(std::size_t coordinate) const {
    return coordinate / static_cast<std::size_t>(codec_.transform());
  }
  /// The norm of a chunk; with several transforms a hash of their norms.
  std::uint32_t unit_of(std::size_t chunk) const {
    std::size_t const first = word_of(chunk * layout_->chunk_values());
    if (is_one_transform()) return norms_[first];
    std::size_t const last =
        word_of(chunk * layout_->chunk_values() + layout_->values_in(chunk) - 1);
    std::uint32_t unit = 0;
    for (std::size_t word = first; word <= last; ++word)
      unit = unit * golden_ratio_prime + norms_[word];
    return unit;
  }
  /// The first chunk, and one past the last.
  std::pair<std::size_t, std::size_t> chunks_of(std::size_t b) const {
    std::size_t const unit = layout_->chunk_values(), first = b * C::block_values;
    auto const count = static_cast<std::size_t>(codec_.coordinates(layout_->blocks().values_in(b)));
    return {first / unit, (first + count + unit - 1) / unit};
  }
  aggregation_layout<C> const* layout_;
  C codec_;
  std::uint32_t largest_;
  std::vector<std::uint32_t> norms_;  ///< agreed between workers; 0 where unknown
  std::vector<std::uint16_t> sums_;
  std::vector<std::uint32_t> members_;  ///< by chunk
  std::vector<std::uint8_t> states_;    ///< by chunk
  std::vector<char> has_words_;         ///< by chunk of norms
  std::vector<std::byte> block_;
  std::uint32_t round_ = 0;
  std::uint64_t key_ = 0;
  int rank_ = 0;
};

}  // namespace hcomp::detail
