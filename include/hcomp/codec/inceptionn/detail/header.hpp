#pragma once
/// @file
/// Header of a vector encoded by inceptionn.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp::detail::inceptionn {

[[noreturn]] inline void refuse_damaged(std::string const& text) {
  throw wire_error("inceptionn: " + text);
}

/// First bytes of an encoded vector. The offsets of the chunks and the chunks follow.
struct header {
  static constexpr std::uint16_t right_magic = 0x4e49;  // "IN"
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "tags";  ///< in error texts
  static constexpr std::size_t chunk_values = inceptionn::chunk_values;
  static constexpr std::size_t slot_bytes = chunk_values * sizeof(float);
  static constexpr std::size_t max_values = 1'000'000 * chunk_values;

  std::uint16_t magic;
  std::uint8_t version, variant, rounding, bound_exponent;
  std::int8_t prescale;
  std::uint8_t zero;
  std::uint64_t values, bytes;
  std::uint32_t chunks, zeros;

  inceptionn_options options() const {
    return {.bound_exponent = bound_exponent,
            .prescale = prescale,
            .variant = static_cast<inceptionn_variant>(variant),
            .rounding = static_cast<inceptionn_rounding>(rounding)};
  }

  static constexpr std::size_t capacity(std::size_t values) {
    return first_chunk_at<header>(chunks_of<header>(values)) + values * sizeof(float);
  }

  /// Header with `bytes` 0, because the encoded size is not known yet.
  static header of(inceptionn_options const& options, std::size_t values) {
    return {right_magic,
            right_version,
            static_cast<std::uint8_t>(options.variant),
            static_cast<std::uint8_t>(options.rounding),
            static_cast<std::uint8_t>(options.bound_exponent),
            static_cast<std::int8_t>(options.prescale),
            0,
            values,
            0,
            static_cast<std::uint32_t>(chunks_of<header>(values)),
            0};
  }

  [[noreturn]] static void refuse(std::string const& text) { refuse_damaged(text); }
  /// Validates a received header.
  /// @param given  bytes received, this header included
  /// @throws wire_error  invalid header, or bytes are missing
  static header checked(header const& came, std::size_t given) {
    if (came.magic != right_magic || came.version != right_version)
      refuse_damaged("begins with " + std::to_string(came.magic) + ", version " +
                     std::to_string(came.version) + "; it should be " +
                     std::to_string(right_magic) + ", version " + std::to_string(right_version));
    if (!is_possible(came.options()))
      refuse_damaged(text_of(came.options()) + "; " + possible_options);
    if (came.zero != 0 || came.zeros != 0)
      refuse_damaged("reserved fields must be 0, but are " + std::to_string(came.zero) + " and " +
                     std::to_string(came.zeros));
    if (came.values > max_values || came.chunks != chunks_of<header>(came.values))
      refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.chunks) +
                     " chunks of " + std::to_string(chunk_values));
    if (came.bytes < first_chunk_at<header>(came.chunks) || came.bytes > capacity(came.values))
      refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.bytes) +
                     " bytes; they take " + std::to_string(first_chunk_at<header>(came.chunks)) +
                     " to " + std::to_string(capacity(came.values)));
    if (came.bytes > given)
      refuse_damaged(std::to_string(given) + " of its " + std::to_string(came.bytes) + " bytes");
    return came;
  }
  /// Requires these options and `expected` values.
  /// @throws wire_error  other options, or another number of values
  void require(inceptionn_options here, std::size_t expected) const {
    here.fitted = false;  // not stored in the header
    if (!(options() == here)) refuse_damaged(text_of(options()) + "; here it is " + text_of(here));
    if (values != expected)
      refuse_damaged(std::to_string(values) + " values, " + std::to_string(expected) +
                     " were expected");
  }
};
static_assert(sizeof(header) == 32);

}  // namespace hcomp::detail::inceptionn
