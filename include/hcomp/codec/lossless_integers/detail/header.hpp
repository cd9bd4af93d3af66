#pragma once
/// @file
/// What is in front of the chunks of a lossless_integers.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/lossless_integers/detail/blocks.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <string>

namespace hcomp::detail::lossless_integers {

[[noreturn]] inline void refuse_damaged(std::string const& text) {
  throw wire_error("lossless_integers: " + text);
}

/// There are none.
struct options {};

/// The first bytes of a code. Behind them, where each chunk begins, and the chunks: the forms of all
/// blocks of 64 values, and the blocks, of which none depends on another.
template <class T> struct header {
  using value_type = T;
  static constexpr std::uint16_t right_magic = sizeof(T) == 4 ? 0x344c : 0x384c;  // "L4", "L8"
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "blocks";
  static constexpr std::size_t chunk_values = 1024;
  static constexpr std::size_t max_values = 500'000 * chunk_values;
  static constexpr std::size_t slot_bytes =
      blocks_of<block_values>(chunk_values) * sizeof(block_form<T>) + chunk_values * sizeof(T);

  std::uint16_t magic;
  std::uint8_t version, zero;
  std::uint32_t chunks;
  std::uint64_t values, bytes;

  static constexpr std::size_t capacity(std::size_t values) {
    return first_chunk_at<header>(chunks_of<header>(values)) +
           blocks_of<block_values>(values) * sizeof(block_form<T>) + values * sizeof(T);
  }
  /// The length is not known yet.
  static header of(options, std::size_t values) {
    return {right_magic, right_version,
            0,           static_cast<std::uint32_t>(chunks_of<header>(values)),
            values,      0};
  }

  [[noreturn]] static void refuse(std::string const& text) { refuse_damaged(text); }
  /// @param given  bytes of what this is the header of
  /// @throws wire_error  it cannot be one, or bytes of the code are missing
  static header checked(header const& came, std::size_t given) {
    if (came.magic != right_magic || came.version != right_version || came.zero != 0)
      refuse_damaged("begins with " + std::to_string(came.magic) + ", version " +
                     std::to_string(came.version) + ", " + std::to_string(came.zero) +
                     "; it should be " + std::to_string(right_magic) + ", version " +
                     std::to_string(right_version) + ", 0");
    if (came.values > max_values || came.chunks != chunks_of<header>(came.values))
      refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.chunks) +
                     " chunks of " + std::to_string(chunk_values));
    if (came.bytes < first_chunk_at<header>(came.chunks) || came.bytes > capacity(came.values) ||
        came.bytes > given)
      refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.bytes) +
                     " bytes; they take " + std::to_string(first_chunk_at<header>(came.chunks)) +
                     " to " + std::to_string(capacity(came.values)) + ", " + std::to_string(given) +
                     " are here");
    return came;
  }
  /// @throws wire_error  it is not of so many values
  void require(options, std::size_t expected) const {
    if (values != expected)
      refuse_damaged(std::to_string(values) + " values, " + std::to_string(expected) +
                     " were expected");
  }
};
static_assert(sizeof(header<std::int32_t>) == 24);

}  // namespace hcomp::detail::lossless_integers
