#pragma once
/// @file
/// Header of a vector encoded by error_bounded.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace hcomp::detail::error_bounded {

// ---- Shared by the headers of error_bounded and error_bounded_fallback

[[noreturn]] inline void refuse_ranks(std::uint32_t a, std::uint32_t b, std::uint32_t ranks) {
  refuse_damaged("sums of " + std::to_string(a) + " and " + std::to_string(b) +
                 " ranks; the bound is divided by " + std::to_string(ranks));
}
/// Validates the fields that both headers have.
/// @param given  bytes received, this header included
/// @throws wire_error  invalid header, or bytes are missing
template <class Header> void require_front(Header const& came, std::size_t given) {
  if (came.magic != Header::right_magic || came.version != Header::right_version)
    refuse_damaged("begins with " + std::to_string(came.magic) + ", version " +
                   std::to_string(came.version) + "; it should be " +
                   std::to_string(Header::right_magic) + ", version " +
                   std::to_string(Header::right_version));
  using value_type = typename Header::value_type;
  if (!is_possible<value_type>(came.options()) || came.weight < 1 || came.weight > came.ranks)
    refuse_damaged(text_of(came.options()) + ", " + std::to_string(came.weight) +
                   " of the ranks summed; " + possible_options<value_type>);
  if (came.values > Header::max_values || came.chunks != chunks_of<Header>(came.values))
    refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.chunks) +
                   " chunks of " + std::to_string(Header::chunk_values));
  if (came.bytes < first_chunk_at<Header>(came.chunks) ||
      came.bytes > Header::capacity(came.values) || came.bytes > given)
    refuse_damaged(std::to_string(came.values) + " values in " + std::to_string(came.bytes) +
                   " bytes; they take " + std::to_string(first_chunk_at<Header>(came.chunks)) +
                   " to " + std::to_string(Header::capacity(came.values)) + ", " +
                   std::to_string(given) + " are here");
}
/// Requires the options `here` and `expected` values.
/// @throws wire_error  other options, or another number of values
template <class Header>
void require_alike(Header const& front, error_bounded_options const& here, std::size_t expected) {
  if (!(front.options() == here))
    refuse_damaged(text_of(front.options()) + "; here it is " + text_of(here));
  if (front.values != expected)
    refuse_damaged(std::to_string(front.values) + " values, " + std::to_string(expected) +
                   " were expected");
}
/// Largest error of rounding numbers up to `largest` to T.
template <class T> double rounding_to(double largest) {
  if (largest == 0 || !is_finite(largest)) return largest;
  int exponent;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0, exponent - (std::is_same_v<T, float> ? 25 : 54));
}

/// First bytes of an encoded vector. The offsets of the chunks and the chunks follow.
struct header {
  using value_type = float;
  static constexpr std::uint16_t right_magic = 0x4245;  // "EB"
  static constexpr std::uint8_t right_version = 2;
  static constexpr char const* chunks_are_of = "blocks";  ///< in error texts
  /// `error` counts parts of a step: this number per step.
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
  std::uint32_t weight, error, chunks;
  /// Largest error of any value by float additions, as the upper half of a float.
  std::uint16_t float_error;
  /// Width of the largest integer in two's complement, except in blocks with floats.
  std::uint8_t largest_bits;
  std::uint8_t has_floats;  ///< 1 if a value of some rank is not an integer of the grid

  error_bounded_options options() const {
    return {.bound = bound, .ranks = ranks, .magnitude_bits = magnitude_bits};
  }

  static constexpr std::size_t capacity(std::size_t values) {
    std::size_t const chunks = chunks_of<header>(values);
    return first_chunk_at<header>(chunks) + chunks * sizeof(std::int32_t) + blocks_of(values) +
           values * sizeof(float);
  }

  /// `error` for a largest error in steps.
  HCOMP_HD static std::uint32_t parts_of(double steps) {
    return steps > 0 ? static_cast<std::uint32_t>(steps * error_parts) + 1 : 0;
  }

  /// `float_error` for these additions. The error of an addition is half a unit in the last place
  /// of the resulting float, or half a step if the result is an integer.
  HCOMP_HD static std::uint16_t float_error_of(step_grid const& grid, word_sums const& sums) {
    double most = 0;
    if (sums.largest_float != 0) {
      std::uint32_t const bits =
          sums.largest_float < infinity ? sums.largest_float : std::uint32_t{infinity};
      most = 0x1p-24 * static_cast<double>(same_bits<float>(bits));
    }
    if (sums.cancels && most < grid.step / 2) most = grid.step / 2;
    return rounded_up(most);
  }
  HCOMP_HD static double value_of(std::uint16_t float_error) {
    return same_bits<float>(std::uint32_t{float_error} << 16);
  }
  HCOMP_HD static std::uint16_t added(std::uint16_t a, std::uint16_t b) {
    return a == 0 ? b : b == 0 ? a : rounded_up(value_of(a) + value_of(b));
  }
  /// Largest possible error of a decoded value, its rounding to float included. At most the bound
  /// without floats.
  double largest_error_of(step_grid const& grid) const {
    double const off = grid.step * error / error_parts;
    if (has_floats == 0) {
      double const all = off + 0x1p-24 * largest_of(grid);
      return all < bound ? all : bound;
    }
    double const integers = grid.step * ranks * 0x1p-24 * (grid.limit + 1.0);
    return off + integers + value_of(float_error);
  }
  /// Upper bound on the magnitude of the values that are integers.
  double largest_of(step_grid const& grid) const {
    return largest_bits == 0 ? 0 : std::ldexp(grid.step, largest_bits - 1);
  }

  /// Header of one rank's vector, with `bytes` 0 because the encoded size is not known yet.
  /// @throws std::invalid_argument  the bound is relative
  static header of(error_bounded_options const& options, std::size_t values) {
    require_absolute(options);
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
            0,
            0,
            0};
  }

  [[noreturn]] static void refuse(std::string const& text) { refuse_damaged(text); }
  /// Validates a received header.
  /// @param given  bytes received, this header included
  /// @throws wire_error  invalid header, or bytes are missing
  static header checked(header const& came, std::size_t given) {
    require_front(came, given);
    if (came.largest_bits > 32 || came.has_floats > 1 || came.float_error > infinity >> 16)
      refuse_damaged("integers of " + std::to_string(came.largest_bits) +
                     " bits (at most 32), has_floats " + std::to_string(came.has_floats) +
                     " (0 or 1), float_error " + std::to_string(came.float_error) + " (at most " +
                     std::to_string(infinity >> 16) + ")");
    if (came.error > came.weight * largest_error)
      refuse_damaged("an error of " + std::to_string(came.error) + "/4096 steps of " +
                     std::to_string(came.weight) + " ranks, which have up to " +
                     std::to_string(largest_error) + " each");
    return came;
  }
  /// Requires the options `here` and `expected` values.
  /// @throws wire_error  other options, or another number of values
  void require(error_bounded_options const& here, std::size_t expected) const {
    require_alike(*this, here, expected);
  }

 private:
  static constexpr std::uint32_t infinity = 0x7f800000;  ///< bits

  HCOMP_HD static std::uint16_t rounded_up(double value) {
    if (!(value > 0)) return 0;
    std::uint32_t const bits = same_bits<std::uint32_t>(static_cast<float>(value));
    return static_cast<std::uint16_t>(bits >= infinity ? infinity >> 16 : (bits >> 16) + 1);
  }
};
static_assert(sizeof(header) == 56);

}  // namespace hcomp::detail::error_bounded
