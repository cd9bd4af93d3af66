#pragma once
/// @file
/// Header of lossless encoded vectors whose chunks consist of blocks of values.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/core/error.hpp>
#include <string>

namespace hcomp::detail {

/// Options of a codec without options.
struct no_options {};

/// The first bytes of an encoded vector. A table of chunk offsets and the chunks follow. A chunk
/// has the forms of all blocks and then the blocks, which are independent of each other.
/// @tparam Format  the codec's `name`, the `magic` of its encoded vectors, its `value_type`, and
///                 its `block` as in block_chunks; no block is longer than its values
template <class Format> struct blocks_header {
  using value_type = typename Format::value_type;
  using block = typename Format::block;
  static constexpr std::uint16_t right_magic = Format::magic;
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "blocks";
  static constexpr std::size_t chunk_values = 1024;
  static constexpr std::size_t max_values = 500'000 * chunk_values;
  /// Upper bound on the encoded bytes of `values` values, forms included.
  static constexpr std::size_t bytes_of_blocks(std::size_t values) {
    return blocks_of<block::values>(values) * sizeof(typename block::mode) +
           values * sizeof(value_type);
  }
  static constexpr std::size_t slot_bytes = bytes_of_blocks(chunk_values);

  std::uint16_t magic;
  std::uint8_t version, zero;
  std::uint32_t chunks;
  std::uint64_t values, bytes;

  static constexpr std::size_t capacity(std::size_t values) {
    return first_chunk_at<blocks_header>(chunks_of<blocks_header>(values)) +
           bytes_of_blocks(values);
  }
  /// A header for `values` values; its length is set later.
  static blocks_header of(no_options, std::size_t values) {
    return {right_magic, right_version,
            0,           static_cast<std::uint32_t>(chunks_of<blocks_header>(values)),
            values,      0};
  }

  [[noreturn]] static void refuse(std::string const& text) {
    throw wire_error(std::string(Format::name) + ": " + text);
  }
  /// Validates a received header.
  /// @param given  bytes available, header included
  /// @throws wire_error  not a valid header, or bytes of the encoded vector are missing
  static blocks_header checked(blocks_header const& came, std::size_t given) {
    if (came.magic != right_magic || came.version != right_version || came.zero != 0)
      refuse("begins with " + std::to_string(came.magic) + ", version " +
             std::to_string(came.version) + ", " + std::to_string(came.zero) + "; it should be " +
             std::to_string(right_magic) + ", version " + std::to_string(right_version) + ", 0");
    if (came.values > max_values || came.chunks != chunks_of<blocks_header>(came.values))
      refuse(std::to_string(came.values) + " values in " + std::to_string(came.chunks) +
             " chunks of " + std::to_string(chunk_values));
    std::size_t const front = first_chunk_at<blocks_header>(came.chunks);
    if (came.bytes < front || came.bytes > capacity(came.values) || came.bytes > given)
      refuse(std::to_string(came.values) + " values in " + std::to_string(came.bytes) +
             " bytes; they take " + std::to_string(front) + " to " +
             std::to_string(capacity(came.values)) + ", " + std::to_string(given) + " are here");
    return came;
  }
  /// @throws wire_error  the number of values is not `expected`
  void require(no_options, std::size_t expected) const {
    if (values != expected)
      refuse(std::to_string(values) + " values, " + std::to_string(expected) + " were expected");
  }
};

}  // namespace hcomp::detail
