#pragma once
/// @file
/// One shard of a sparse vector as a message: a rank's part for the owner, or the reduced shard
/// from the owner to all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/mark_list.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <span>

namespace hcomp::detail {

/// Calls f(value, lane) for every marked value, in order.
template <class Lane, class F>
void for_lanes(std::span<std::uint64_t const> marks, std::byte const* lanes, F const& f) {
  for (std::size_t w = 0; w < marks.size(); ++w) {
    if (marks[w] == ~std::uint64_t{0}) {
      for (std::size_t i = 0; i < 64; ++i) f(w * 64 + i, load<Lane>(lanes, i));
      lanes += 64 * sizeof(Lane);
    } else {
      for (auto word = marks[w]; word != 0; word &= word - 1, lanes += sizeof(Lane))
        f(w * 64 + static_cast<std::size_t>(lowest_one(word)), load<Lane>(lanes, 0));
    }
  }
}

/// A header like a block's, then the marks, as a bit map or a list, and the lanes of the marked
/// values; or all lanes without marks.
template <class Lane> class shard_message {
 public:
  static constexpr std::size_t lane_bytes = sizeof(Lane);
  static constexpr std::size_t packed_bytes(std::size_t values, std::size_t marked) {
    return block_header_bytes +
           std::min(sparse::mark_map_bytes(values), sparse::mark_list_bytes(values, marked)) +
           marked * sizeof(Lane);
  }
  static constexpr std::size_t dense_bytes(std::size_t values) {
    return block_header_bytes + values * sizeof(Lane);
  }
  static constexpr std::size_t most_bytes(std::size_t values) {
    return dense_bytes(values) + sparse::mark_map_bytes(values);
  }

  /// Writes header and marks of a message; returns the offset of its lanes.
  /// @param marks   of the shard's values
  /// @param marked  number of marked values
  /// @param origin  its index is the owner
  static std::size_t begin_packed(std::span<std::uint64_t const> marks, std::size_t marked,
                                  std::size_t values, block_origin const& origin, std::byte* out) {
    bool const listed = sparse::worth_listing(marks, values, marked);
    store(out, 0, header_of(listed ? codec_ids::listed : codec_ids::mapped, values, origin));
    if (listed) {
      sparse::write_mark_list(marks, values, out + block_header_bytes);
    } else if (!marks.empty()) {
      std::memcpy(out + block_header_bytes, marks.data(), marks.size_bytes());
    }
    return block_header_bytes +
           (listed ? sparse::mark_list_bytes(values, marked) : sparse::mark_map_bytes(values));
  }
  static std::size_t begin_dense(std::size_t values, block_origin const& origin, std::byte* out,
                                 std::uint8_t kind = codec_ids::dense) {
    store(out, 0, header_of(kind, values, origin));
    return block_header_bytes;
  }
  /// Completes a message whose bytes are written; returns its size.
  static std::size_t close(std::size_t bytes, std::byte* out) {
    if (load<block_header>(out).flags & block_has_checksum) seal(serial_group{}, out, bytes);
    return bytes;
  }

  /// Writes a message that only reports a fault.
  static std::size_t write_damage(block_fault why, std::size_t values, block_origin const& origin,
                                  std::byte* out) {
    auto header = header_of(codec_ids::dense, values, origin);
    header.flags |= block_is_damaged;
    header.fault = why;
    store(out, 0, header);
    return close(block_header_bytes, out);
  }

  /// A received message.
  struct content {
    block_fault fault = block_fault::none;
    std::byte const* lanes = nullptr;  ///< of the marked values
    std::size_t marked = 0;
    bool is_packed = false;  ///< unmarked values are not in it
  };
  /// @param origin  required origin
  /// @param marks   receives index_words(values) words; undefined after a fault
  static content read(std::span<std::byte const> message, std::size_t values,
                      block_origin const& origin, std::uint64_t* marks) {
    if (message.size() < block_header_bytes) return {block_fault::length};
    auto const kind = load<block_header>(message.data()).codec;
    bool const known = kind == codec_ids::listed || kind == codec_ids::dense;
    if (auto const fault = fault_of(message, known ? kind : codec_ids::mapped, values, origin);
        fault != block_fault::none)
      return {fault};
    if (auto const header = load<block_header>(message.data()); header.flags & block_is_damaged)
      return {header.fault != block_fault::none ? header.fault : block_fault::format};
    auto const body = message.subspan(block_header_bytes);
    std::size_t const words = sparse::index_words(values);
    std::size_t index = 0;
    if (kind == codec_ids::dense) {
      std::fill_n(marks, words, ~std::uint64_t{0});
      if (values % 64 != 0) marks[words - 1] >>= 64 - values % 64;
    } else if (kind == codec_ids::listed) {
      auto const bytes = sparse::read_mark_list(body, values, marks);
      if (!bytes) return {block_fault::length};
      index = *bytes;
    } else {
      index = sparse::mark_map_bytes(values);
      if (body.size() < index) return {block_fault::length};
      if (words > 0) std::memcpy(marks, body.data(), index);
      if (values % 64 != 0 && marks[words - 1] >> values % 64 != 0) return {block_fault::length};
    }
    std::size_t marked = 0;
    for (std::size_t w = 0; w < words; ++w) marked += static_cast<std::size_t>(ones(marks[w]));
    if (body.size() != index + marked * sizeof(Lane)) return {block_fault::length};
    return {block_fault::none, body.data() + index, marked, kind != codec_ids::dense};
  }

  /// The fault of a message of all values, begun by begin_dense with this kind.
  static block_fault fault_of_dense(std::span<std::byte const> message, std::size_t values,
                                    block_origin const& origin, std::uint8_t kind) {
    if (message.size() != dense_bytes(values)) return block_fault::length;
    return fault_of(message, kind, values, origin);
  }

 private:
  static block_header header_of(std::uint8_t kind, std::size_t values, block_origin const& origin) {
    return make_header(kind, static_cast<int>(values & 0xffff), false, origin);
  }
  /// Checks header and checksum; the message must have a header.
  static block_fault fault_of(std::span<std::byte const> message, std::uint8_t kind,
                              std::size_t values, block_origin const& origin) {
    auto const header = load<block_header>(message.data());
    if (auto const fault = mismatch(header, header_of(kind, values, origin));
        fault != block_fault::none)
      return fault;
    if (header.lowest_rank != origin.rank) return block_fault::ranks;
    if (header.weight != origin.weight) return block_fault::weight;
    return is_intact(serial_group{}, message.data(), message.size()) ? block_fault::none
                                                                     : block_fault::checksum;
  }
};

}  // namespace hcomp::detail
