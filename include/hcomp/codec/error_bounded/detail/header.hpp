#pragma once
/// @file
/// What is in front of the chunks of an error_bounded.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/error_bounded_options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <span>
#include <string>

namespace hcomp::detail {

/// The first bytes of a stream. Behind them, where each chunk begins, and the chunks.
struct error_bounded_header {
  static constexpr std::uint16_t right_magic = 0x4245;  // "EB"
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "blocks";  ///< beside values
  /// Parts of a step that `error` counts.
  static constexpr double error_parts = 4096;
  static constexpr std::uint32_t largest_error = 2049;  ///< of one rank: half a step, rounded up
  static constexpr std::size_t chunk_values = error_bounded_chunk_values;
  static constexpr std::size_t max_chunks = 250'000;
  static constexpr std::size_t max_values = max_chunks * error_bounded_chunk_values;
  static constexpr std::size_t slot_bytes =
      error_bounded_front(error_bounded_chunk_values) + error_bounded_chunk_values * sizeof(float);

  std::uint16_t magic;
  std::uint8_t version, magnitude_bits;
  std::uint32_t ranks;
  double bound;
  std::uint64_t values, bytes, float_additions;
  std::uint32_t weight, error, chunks, zero;

  error_bounded_options options() const { return {bound, ranks, magnitude_bits}; }

  static constexpr std::size_t capacity(std::size_t values) {
    std::size_t const chunks = chunks_of<error_bounded_header>(values);
    return first_chunk_at<error_bounded_header>(chunks) + chunks * sizeof(std::int32_t) +
           error_bounded_blocks(values) + values * sizeof(float);
  }

  /// What `error` says of values that are off by so many steps.
  HCOMP_HD static std::uint32_t parts_of(double steps) {
    return steps > 0 ? static_cast<std::uint32_t>(steps * error_parts) + 1 : 0;
  }

  /// Of one rank; the length is not known yet.
  static error_bounded_header of(error_bounded_options const& options, std::size_t values) {
    return {right_magic,
            right_version,
            static_cast<std::uint8_t>(options.magnitude_bits),
            options.ranks,
            options.bound,
            values,
            0,
            0,
            1,
            0,
            static_cast<std::uint32_t>(chunks_of<error_bounded_header>(values)),
            0};
  }
  [[noreturn]] static void refuse_ranks(std::uint32_t a, std::uint32_t b, std::uint32_t ranks) {
    error_bounded_damaged("sums of " + std::to_string(a) + " and " + std::to_string(b) +
                          " ranks; the bound is divided by " + std::to_string(ranks));
  }

  [[noreturn]] static void refuse(std::string const& text) { error_bounded_damaged(text); }
  /// @param given  bytes of what this is the header of
  /// @throws wire_error  it cannot be one, or bytes of the code are missing
  static error_bounded_header checked(error_bounded_header const& header, std::size_t given) {
    if (header.magic != right_magic || header.version != right_version)
      error_bounded_damaged("begins with " + std::to_string(header.magic) + ", version " +
                            std::to_string(header.version) + "; it should be " +
                            std::to_string(right_magic) + ", version " +
                            std::to_string(right_version));
    if (!is_possible(header.options()) || header.weight < 1 || header.weight > header.ranks ||
        header.zero != 0)
      error_bounded_damaged(text_of(header.options()) + ", " + std::to_string(header.weight) +
                            " of the ranks summed; " + error_bounded_possible);
    if (header.error > header.weight * largest_error)
      error_bounded_damaged("an error of " + std::to_string(header.error) + "/4096 steps of " +
                            std::to_string(header.weight) + " ranks, which have up to " +
                            std::to_string(largest_error) + " each");
    if (header.values > max_values ||
        header.chunks != chunks_of<error_bounded_header>(header.values))
      error_bounded_damaged(std::to_string(header.values) + " values in " +
                            std::to_string(header.chunks) + " chunks of " +
                            std::to_string(error_bounded_chunk_values));
    if (header.bytes < first_chunk_at<error_bounded_header>(header.chunks) ||
        header.bytes > capacity(header.values) || header.bytes > given)
      error_bounded_damaged(std::to_string(header.values) + " values in " +
                            std::to_string(header.bytes) + " bytes; they take " +
                            std::to_string(first_chunk_at<error_bounded_header>(header.chunks)) +
                            " to " + std::to_string(capacity(header.values)) + ", " +
                            std::to_string(given) + " are here");
    return header;
  }
  /// @throws wire_error  it is not of so many values with these options
  void require(error_bounded_options const& here, std::size_t expected) const {
    if (!(options() == here))
      error_bounded_damaged(text_of(options()) + "; here it is " + text_of(here));
    if (values != expected)
      error_bounded_damaged(std::to_string(values) + " values, " + std::to_string(expected) +
                            " were expected");
  }
};
static_assert(sizeof(error_bounded_header) == 56);

}  // namespace hcomp::detail
