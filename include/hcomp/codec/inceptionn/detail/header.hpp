#pragma once
/// @file
/// What is in front of the chunks of INCEPTIONN's stream for software.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/inceptionn_options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp::detail {

[[noreturn]] inline void inceptionn_damaged(std::string const& text) {
  throw wire_error("inceptionn: " + text);
}

/// The first bytes of a stream. Behind them, where each chunk begins, and the chunks.
struct inceptionn_header {
  static constexpr std::uint16_t right_magic = 0x4e49;  // "IN"
  static constexpr std::uint8_t right_version = 1;
  static constexpr char const* chunks_are_of = "tags";  ///< beside values
  static constexpr std::size_t chunk_values = inceptionn_chunk_values;
  static constexpr std::size_t slot_bytes = inceptionn_chunk_values * sizeof(float);
  static constexpr std::size_t max_values = 1'000'000 * inceptionn_chunk_values;

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
    return first_chunk_at<inceptionn_header>(chunks_of<inceptionn_header>(values)) +
           values * sizeof(float);
  }

  /// The length is not known yet.
  static inceptionn_header of(inceptionn_options const& options, std::size_t values) {
    return {right_magic,
            right_version,
            static_cast<std::uint8_t>(options.variant),
            static_cast<std::uint8_t>(options.rounding),
            static_cast<std::uint8_t>(options.bound_exponent),
            static_cast<std::int8_t>(options.prescale),
            0,
            values,
            0,
            static_cast<std::uint32_t>(chunks_of<inceptionn_header>(values)),
            0};
  }

  [[noreturn]] static void refuse(std::string const& text) { inceptionn_damaged(text); }
  /// @param given  bytes of what this is the header of
  /// @throws wire_error  it cannot be one, or bytes of the code are missing
  static inceptionn_header checked(inceptionn_header const& header, std::size_t given) {
    if (header.magic != right_magic || header.version != right_version)
      inceptionn_damaged("begins with " + std::to_string(header.magic) + ", version " +
                         std::to_string(header.version) + "; it should be " +
                         std::to_string(right_magic) + ", version " +
                         std::to_string(right_version));
    if (!is_possible(header.options()))
      inceptionn_damaged(text_of(header.options()) + "; " + inceptionn_possible);
    if (header.zero != 0 || header.zeros != 0)
      inceptionn_damaged("what should be 0 is " + std::to_string(header.zero) + " and " +
                         std::to_string(header.zeros));
    if (header.values > max_values || header.chunks != chunks_of<inceptionn_header>(header.values))
      inceptionn_damaged(std::to_string(header.values) + " values in " +
                         std::to_string(header.chunks) + " chunks of " +
                         std::to_string(inceptionn_chunk_values));
    if (header.bytes < first_chunk_at<inceptionn_header>(header.chunks) ||
        header.bytes > capacity(header.values))
      inceptionn_damaged(std::to_string(header.values) + " values in " +
                         std::to_string(header.bytes) + " bytes; they take " +
                         std::to_string(first_chunk_at<inceptionn_header>(header.chunks)) + " to " +
                         std::to_string(capacity(header.values)));
    if (header.bytes > given)
      inceptionn_damaged(std::to_string(given) + " of its " + std::to_string(header.bytes) +
                         " bytes");
    return header;
  }
  /// @throws wire_error  it is not of so many values with these options
  void require(inceptionn_options here, std::size_t expected) const {
    here.fitted = false;  // says nothing of a stream
    if (!(options() == here))
      inceptionn_damaged(text_of(options()) + "; here it is " + text_of(here));
    if (values != expected)
      inceptionn_damaged(std::to_string(values) + " values, " + std::to_string(expected) +
                         " were expected");
  }
};
static_assert(sizeof(inceptionn_header) == 32);

}  // namespace hcomp::detail
