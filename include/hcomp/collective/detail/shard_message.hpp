#pragma once
/// @file
/// What one rank has of one shard of a sparse vector, as a message to the shard's owner.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_lanes.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <span>

namespace hcomp::detail {

/// A header like a block's, then the marks and the lanes of what is marked, or without marks all
/// lanes; or the shard's values as they are.
template <class Lane> class shard_message {
 public:
  /// In place of a codec's.
  static constexpr std::uint8_t packed_tag = 21, dense_tag = 22, values_tag = 26;

  static constexpr std::size_t packed_bytes(std::size_t values, std::size_t marked) {
    return block_header_bytes + index_words(values) * sizeof(std::uint64_t) + marked * sizeof(Lane);
  }
  static constexpr std::size_t dense_bytes(std::size_t values) {
    return block_header_bytes + values * sizeof(Lane);
  }
  static constexpr std::size_t values_bytes(std::size_t values) {
    return block_header_bytes + values * sizeof(float);
  }

  /// @param marks   of the shard's values
  /// @param marked  the values that are marked
  /// @param origin  its index is the owner
  /// Returns the number of bytes.
  static std::size_t write_packed(lhc_numbers<Lane> const& numbers,
                                  std::span<std::uint64_t const> marks,
                                  std::span<float const> marked, std::size_t values,
                                  block_origin const& origin, bool checksum, std::byte* out) {
    store(out, 0, header_of(packed_tag, values, origin));
    if (!marks.empty()) std::memcpy(out + block_header_bytes, marks.data(), marks.size_bytes());
    return finish(numbers, marked, packed_bytes(values, marked.size()), checksum, out);
  }
  static std::size_t write_dense(lhc_numbers<Lane> const& numbers, std::span<float const> values,
                                 block_origin const& origin, bool checksum, std::byte* out) {
    store(out, 0, header_of(dense_tag, values.size(), origin));
    return finish(numbers, values, dense_bytes(values.size()), checksum, out);
  }

  /// @param origin  the owner, who sends it to all others
  static std::size_t write_values(std::span<float const> values, block_origin const& origin,
                                  bool checksum, std::byte* out) {
    std::size_t const bytes = values_bytes(values.size());
    store(out, 0, header_of(values_tag, values.size(), origin));
    std::memcpy(out + block_header_bytes, values.data(), values.size_bytes());
    if (checksum) seal(serial_group{}, out, bytes);
    return bytes;
  }
  /// What is wrong with a message of `values` values as they are.
  static block_fault fault_of_values(std::span<std::byte const> message, std::size_t values,
                                     block_origin const& origin) {
    if (message.size() != values_bytes(values)) return block_fault::length;
    return fault_of(message, values_tag, values, origin);
  }
  /// Of a message without a fault.
  static void read_values(std::span<std::byte const> message, std::span<float> values) {
    std::memcpy(values.data(), message.data() + block_header_bytes, values.size_bytes());
  }

  /// sums += what the message says. After a fault sums hold anything.
  /// @param origin  that it must have
  static block_fault add(std::span<std::byte const> message, std::size_t values,
                         block_origin const& origin, Lane* sums) {
    if (message.size() < block_header_bytes) return block_fault::length;
    bool const dense = load<block_header>(message.data()).codec == dense_tag;
    if (auto const fault = fault_of(message, dense ? dense_tag : packed_tag, values, origin);
        fault != block_fault::none)
      return fault;
    return dense ? add_all(message, values, sums) : add_marked(message, values, sums);
  }

 private:
  static block_header header_of(std::uint8_t tag, std::size_t values, block_origin const& origin) {
    return make_header(tag, static_cast<int>(values & 0xffff), false, origin);
  }
  /// Of the header and the checksum; the message has a header.
  static block_fault fault_of(std::span<std::byte const> message, std::uint8_t tag,
                              std::size_t values, block_origin const& origin) {
    auto const header = load<block_header>(message.data());
    auto expected = header_of(tag, values, origin);
    expected.lowest_rank += 1;  // merge_fault compares blocks of different ranks
    if (auto const fault = merge_fault(header, expected, ~std::uint32_t{0});
        fault != block_fault::none)
      return fault;
    if (header.lowest_rank != origin.rank) return block_fault::ranks;
    if (header.weight != origin.weight) return block_fault::weight;
    return is_intact(serial_group{}, message.data(), message.size()) ? block_fault::none
                                                                     : block_fault::checksum;
  }

  /// With lanes at the end of its `bytes` bytes.
  static std::size_t finish(lhc_numbers<Lane> const& numbers, std::span<float const> values,
                            std::size_t bytes, bool checksum, std::byte* out) {
    std::byte* const lanes = out + bytes - values.size() * sizeof(Lane);
    for (std::size_t i = 0; i < values.size(); ++i) store(lanes, i, numbers.lane(values[i]));
    if (checksum) seal(serial_group{}, out, bytes);
    return bytes;
  }

  static block_fault add_all(std::span<std::byte const> message, std::size_t values, Lane* sums) {
    if (message.size() != dense_bytes(values)) return block_fault::length;
    for (std::size_t i = 0; i < values; ++i)
      sums[i] += load<Lane>(message.data() + block_header_bytes, i);
    return block_fault::none;
  }

  static block_fault add_marked(std::span<std::byte const> message, std::size_t values,
                                Lane* sums) {
    if (message.size() < packed_bytes(values, 0)) return block_fault::length;
    std::size_t const words = index_words(values),
                      lanes = (message.size() - packed_bytes(values, 0)) / sizeof(Lane);
    std::byte const* const marks = message.data() + block_header_bytes;
    std::byte const* const first = message.data() + packed_bytes(values, 0);
    std::size_t place = 0;
    for (std::size_t w = 0; w < words; ++w) {
      auto word = load<std::uint64_t>(marks, w);
      bool const too_far = w + 1 == words && values % 64 != 0 && word >> values % 64 != 0;
      if (too_far || place + static_cast<std::size_t>(ones(word)) > lanes)
        return block_fault::length;
      for (; word != 0; word &= word - 1)
        sums[w * 64 + static_cast<std::size_t>(lowest_one(word))] += load<Lane>(first, place++);
    }
    return message.size() == packed_bytes(values, place) ? block_fault::none : block_fault::length;
  }
};

}  // namespace hcomp::detail
