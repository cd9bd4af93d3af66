#pragma once
/// @file
/// What is done with the values of shards of sparse vectors, on hosts: they are marked, written
/// into messages, added up and put back. On devices: device_shard_values.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/codec/detail/own_values.hpp>
#include <hcomp/collective/detail/packed_sums.hpp>
#include <hcomp/collective/detail/shard_message.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace hcomp::detail {

/// Part of a vector: words of its index, and the values they stand for.
struct sparse_shard {
  block_range words;
  std::size_t first = 0;  ///< value
  std::size_t count = 0;  ///< of values
};

/// Who owns what of a vector.
struct shard_layout {
  std::size_t values;
  std::size_t ranks, rank;

  std::size_t words() const { return index_words(values); }
  sparse_shard of(std::size_t owner) const {
    std::size_t const begin = first_word_of_shard(words(), ranks, owner),
                      end = first_word_of_shard(words(), ranks, owner + 1),
                      first = std::min(begin * 64, values);
    return {{begin, end - begin}, first, std::min(end * 64, values) - first};
  }
  sparse_shard mine() const { return of(rank); }
};

/// A bit per exponent of a float, as behind an index.
using exponent_bits = std::array<std::uint64_t, exponent_words>;

/// Whether a message has all values of a shard.
template <class Message>
bool sends_all(sparse_ways const& ways, std::size_t values, std::size_t marked) {
  if (!ways.dense || !(ways.packed || ways.sketched)) return ways.dense;
  return static_cast<double>(Message::packed_bytes(values, marked)) >=
         ways.worthwhile * static_cast<double>(Message::dense_bytes(values));
}

/// Whether everything in `some` is marked in `all`.
inline bool contains(std::span<std::uint64_t const> all, std::span<std::uint64_t const> some) {
  std::uint64_t missing = 0;
  for (std::size_t w = 0; w < some.size(); ++w) missing |= some[w] & ~all[w];
  return missing == 0;
}

/// Values are in the executor's memory, messages in `memory`, which is the host's. In this order:
/// start; then, to add up, mark where lanes are not floats, begin_parts, prepare_part of all other
/// shards, write_part of the same, end_parts, take_part of what came, add_up, and read_sums, or
/// write_sums, take_sums in the order of the owners, and write. Otherwise write_values and
/// read_values. x stays as it is until read_sums, write or read_values.
template <class Lane, Executor E> class shard_values {
  using part_message = shard_message<Lane>;  ///< to owners
  using sum_message = shard_message<float>;  ///< from them

 public:
  using memory = typename E::buffer;

  shard_values(shard_layout const& layout, sparse_ways const& ways, bool checksum, E& /*executor*/)
      : layout_(layout), ways_(ways), checksum_(checksum) {}

  /// What the last call has given to messages, or taken from them, is needed no more.
  void start() {
    if (!own_.empty()) return;
    own_.resize(layout_.ranks);
    lanes_of_sums_.resize(layout_.ranks);
    words_.resize(layout_.words() + exponent_words);
    packed_ = packed_sums<Lane>(layout_.mine().words.count, layout_.ranks);
  }

  /// Marks what is not zero in x.
  exponent_bits mark(std::span<float const> x) {
    exponent_bits all{};
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      mark_shard(owner, x);
      auto const* const found = words_.data() + layout_.of(owner).words.count;
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= found[i];
    }
    return all;
  }

  void begin_parts(std::span<float const>) {}
  void prepare_part(std::size_t, lhc_numbers<Lane> const&, std::span<float const>,
                    block_origin const&, std::byte*) {}
  /// What this rank has of an owner's shard, as a message; returns its bytes. Floats, which need no
  /// common unit, are marked only here, so that some shards travel while others are marked.
  std::size_t write_part(std::size_t owner, lhc_numbers<Lane> const& numbers,
                         std::span<float const> x, block_origin const& origin, std::byte* out) {
    auto const s = layout_.of(owner);
    if constexpr (std::is_same_v<Lane, float>) mark_shard(owner, x);
    auto const values = own_[owner].values();
    if (sends_all<part_message>(ways_, s.count, values.size()))
      return part_message::write_dense(numbers, x.subspan(s.first, s.count), origin, checksum_,
                                       out);
    return part_message::write_packed(numbers, own_[owner].marks(), values, s.count, origin,
                                      checksum_, out);
  }
  /// When all others' are sent.
  void end_parts(std::span<float const> x) {
    if constexpr (std::is_same_v<Lane, float>) mark_shard(layout_.rank, x);
  }

  /// Keeps the message until they are added up. Returns what is wrong with it.
  block_fault take_part(std::size_t sender, std::span<std::byte const> message,
                        block_origin const& origin) {
    auto const part = part_message::read(message, layout_.mine().count, origin,
                                         packed_.marks_of_part(sender).data());
    packed_.set_lanes_of_part(sender, part.lanes);
    return part.fault;
  }
  /// All ranks' parts of this rank's shard, its own among the others, in the order of the ranks.
  void add_up(lhc_numbers<Lane> const& numbers, std::span<float const> /*x*/) {
    auto const own = own_[layout_.rank].values();
    own_lanes_.resize(own.size());
    std::transform(own.begin(), own.end(), own_lanes_.begin(),
                   [&](float value) { return numbers.lane(value); });
    packed_.set_lanes_of_part(layout_.rank, reinterpret_cast<std::byte const*>(own_lanes_.data()));
    auto const marks = own_[layout_.rank].marks();
    std::copy(marks.begin(), marks.end(), packed_.marks_of_part(layout_.rank).begin());
    packed_.add_up();
  }
  /// By words of the shard.
  nonfinite_words nonfinite_sums() const requires std::is_same_v<Lane, float> {
    nonfinite_words found;
    std::span<float const> sums = packed_.sums();
    if (all_finite(sums)) return found;
    auto const marks = packed_.marks();
    for (std::size_t w = 0; w < marks.size(); ++w) {
      auto const count = static_cast<std::size_t>(ones(marks[w]));
      if (!all_finite(sums.first(count))) found.merge({w, 1});
      sums = sums.subspan(count);
    }
    return found;
  }
  void read_sums(lhc_numbers<Lane> const& numbers, std::span<float> x) const {
    auto const s = layout_.mine();
    float* const out = x.data() + s.first;
    std::fill_n(out, s.count, 0.0f);
    packed_.for_each([&](std::size_t i, Lane sum) { out[i] = numbers.value(sum); });
  }

  /// The sums as a message; returns its bytes.
  std::size_t write_sums(lhc_numbers<Lane> const& numbers, block_origin const& origin,
                         std::byte* out) {
    std::size_t const count = layout_.mine().count;
    auto const sums = packed_.sums();
    if (sends_all<sum_message>(ways_, count, sums.size())) {
      values_to_send_.assign(count, 0.0f);
      packed_.for_each([&](std::size_t i, Lane sum) { values_to_send_[i] = numbers.value(sum); });
      return sum_message::write_dense({}, values_to_send_, origin, checksum_, out);
    }
    values_to_send_.resize(sums.size());
    std::transform(sums.begin(), sums.end(), values_to_send_.begin(),
                   [&](Lane sum) { return numbers.value(sum); });
    return sum_message::write_packed({}, packed_.marks(), values_to_send_, count, origin, checksum_,
                                     out);
  }
  /// Keeps the message until `write`. A sum without what this rank has marked is wrong.
  typename sum_message::content take_sums(std::size_t owner, std::span<std::byte const> message,
                                          block_origin const& origin) {
    auto const s = layout_.of(owner);
    auto const marks = marks_of(s);
    auto const came = sum_message::read(message, s.count, origin, marks.data());
    if (came.fault != block_fault::none) return came;
    if (!contains(marks, own_[owner].marks())) return {block_fault::ranks};
    lanes_of_sums_[owner] = came.lanes;
    return came;
  }
  /// Into x, which is as it was when it was marked.
  void write(std::span<float> x) {
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      auto const s = layout_.of(owner);
      if (s.count == 0) continue;
      float* const here = x.data() + s.first;
      // All that this rank has marked is marked in the sum. The rest is 0 already, or -0.
      if (own_[owner].negative_zeros()) std::fill_n(here, s.count, 0.0f);
      for_lanes<float>(marks_of(s), lanes_of_sums_[owner],
                       [here](std::size_t i, float sum) { here[i] = sum; });
    }
  }

  /// This rank's shard of x as it is.
  std::size_t write_values(std::span<float const> x, block_origin const& origin, std::byte* out) {
    auto const s = layout_.mine();
    return sum_message::write_dense({}, x.subspan(s.first, s.count), origin, checksum_, out,
                                    sum_message::values_tag);
  }
  /// Of that, by words of the shard.
  nonfinite_words nonfinite_values(std::span<float const> x) const {
    auto const s = layout_.mine();
    nonfinite_words found;
    for (std::size_t i = 0; i < s.count; i += 64)
      if (!all_finite(x.subspan(s.first + i, std::min<std::size_t>(64, s.count - i))))
        found.merge({i / 64, 1});
    return found;
  }
  void read_values(std::size_t owner, std::byte const* message, std::span<float> x) {
    auto const s = layout_.of(owner);
    std::memcpy(x.data() + s.first, message + block_header_bytes, s.count * sizeof(float));
  }

 private:
  /// The exponents are behind the shard's marks in words_.
  void mark_shard(std::size_t owner, std::span<float const> x) {
    auto const s = layout_.of(owner);
    own_[owner].mark(x.subspan(s.first, s.count), words_.data());
  }
  /// Of the sums, after take_sums.
  std::span<std::uint64_t> marks_of(sparse_shard const& s) {
    return std::span(words_).subspan(s.words.first, s.words.count);
  }
  static bool all_finite(std::span<float const> values) {
    bool all = true;
    for (float const value : values) all &= is_finite(value);
    return all;
  }

  shard_layout layout_;
  sparse_ways ways_;
  bool checksum_;
  std::vector<own_values> own_;  ///< by owners
  packed_sums<Lane> packed_;     ///< of this rank's shard
  std::vector<Lane> own_lanes_;  ///< of its own part
  std::vector<std::uint64_t> words_;
  std::vector<std::byte const*> lanes_of_sums_;  ///< by owners
  std::vector<float> values_to_send_;
};

}  // namespace hcomp::detail
