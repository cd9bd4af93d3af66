#pragma once
/// @file
/// What is in front of the chunks of an error_bounded.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <span>
#include <string>

namespace hcomp::detail::error_bounded {

/// The first bytes of a code. Behind them, where each chunk begins, and the chunks.
struct header {
  static constexpr std::uint16_t right_magic = 0x4245;  // "EB"
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "blocks";  ///< beside values
  /// Parts of a step that `error` counts.
  static constexpr double error_parts = 4096;
  static constexpr std::uint32_t largest_error = 2049;  ///< of one rank: half a step, rounded up
  static constexpr std::size_t chunk_values = error_bounded::chunk_values;
  static constexpr std::size_t max_chunks = 250'000;
  static constexpr std::size_t max_values = max_chunks * chunk_values;
  static constexpr std::size_t slot_bytes =
      front_bytes(chunk_values) + chunk_values * sizeof(float);

  std::uint16_t magic;
  std::uint8_t version, magnitude_bits;
  std::uint32_t ranks;
  double bound;
  std::uint64_t values, bytes, float_additions;
  std::uint32_t weight, error, chunks, zero;

  error_bounded_options options() const { return {bound, ranks, magnitude_bits}; }

  static constexpr std::size_t capacity(std::size_t values) {
    std::size_t const chunks = chunks_of<header>(values);
    return first_chunk_at<header>(chunks) + chunks * sizeof(std::int32_t) + blocks_of(values) +
           values * sizeof(float);
  }

  /// What `error` says of values that are off by so many steps.
  HCOMP_HD static std::uint32_t parts_of(double steps) {
    return steps > 0 ? static_cast<std::uint32_t>(steps * error_parts) + 1 : 0;
  }

  /// Of one rank; the length is not known yet.
  static header of(error_bounded_options const& options, std::size_t values) {
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
            static_cast<std::uint32_t>(chunks_of<header>(values)),
            0};
  }
  [[noreturn]] static void refuse_ranks(std::uint32_t a, std::uint32_t b, std::uint32_t ranks) {
    refuse_damaged("sums of " + std::to_string(a) + " and " + std::to_string(b) +
                   " ranks; the bound is divided by " + std::to_string(ranks));
  }

  [[noreturn]] static void refuse(std::string const& text) { refuse_damaged(text); }
  /// @param given  bytes of what this is the header of
  /// @throws wire_error  it cannot be one, or bytes of the code are missing
  static header checked(header const& came, std::size_t given) {
    if (came.magic != right_magic || came.version != right_version)
      refuse_damaged("begins with " + std::to_string(came.magic) + ", version " +
                     std::to_string(came.version) + "; it should be " +
                     std::to_string(right_magic) + ", version " + std::to_string(right_version));
    if (!is_possible(came.options()) || came.weight < 1 || came.weight > came.ranks ||
        came.zero != 0)
      refuse_damaged(text_of(came.options()) + ", " + std::to_string(came.weight) +
                     " of the ranks summed; " + possible_options);
    if (came.error > came.weight * largest_error)
      refuse_damaged("an error of " + std::to_string(came.error) + "/4096 steps of " +
                     std::to_string(came.weight) + " ranks, which have up to " +
                     std::to_string(largest_error) + " each");
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
  /// @throws wire_error  it is not of so many values with these options
  void require(error_bounded_options const& here, std::size_t expected) const {
    if (!(options() == here)) refuse_damaged(text_of(options()) + "; here it is " + text_of(here));
    if (values != expected)
      refuse_damaged(std::to_string(values) + " values, " + std::to_string(expected) +
                     " were expected");
  }
};
static_assert(sizeof(header) == 56);

}  // namespace hcomp::detail::error_bounded
