#pragma once
/// @file
/// Options of INCEPTIONN.

#include <cstdint>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <stdexcept>
#include <string>

namespace hcomp {

/// Meaning of the 8 bits of a value below 2^-F, with F = floor(E/2) and the bound 2^-E. All
/// variants give 8 bits to the same values, so encoded sizes are equal.
enum class inceptionn_variant : std::uint8_t {
  within_bound,  ///< multiples of 2^-(F+7); every error is below 2^-E
  as_drawn,      ///< as in the paper: multiples of 2^-7; errors below max(2^-E, 2^-7)
  grace,         ///< as GRACE, for comparisons only: multiples of 2^-6 in 8 bits and of 2^-14 in
                 ///< 16 bits, 0 decodes as half a multiple; errors below max(2^-E, 2^-6)
};
enum class inceptionn_rounding : std::uint8_t {
  truncate,  ///< towards 0, as in the paper: biases sums towards 0
  nearest,   ///< to nearest, ties to even; clamped to the largest multiple
};

/// Options of INCEPTIONN; equal on all ranks.
struct inceptionn_options {
  int bound_exponent = 10;  ///< 1 to 14; values below 2^-bound_exponent become 0
  int prescale = 0;         ///< -64 to 64; encoding multiplies by 2^prescale, decoding divides
  inceptionn_variant variant = inceptionn_variant::within_bound;
  inceptionn_rounding rounding = inceptionn_rounding::truncate;
  /// If true, a plan chooses the prescale in every call from the largest value of all ranks.
  bool fitted = false;

  friend bool operator==(inceptionn_options const&, inceptionn_options const&) = default;
};

namespace detail::inceptionn {

inline std::string text_of(inceptionn_options const& o) {
  return "variant " + std::to_string(static_cast<int>(o.variant)) + ", rounding " +
         std::to_string(static_cast<int>(o.rounding)) + ", bound exponent " +
         std::to_string(o.bound_exponent) + ", prescale " + std::to_string(o.prescale);
}
inline bool is_possible(inceptionn_options const& o) {
  return o.bound_exponent >= 1 && o.bound_exponent <= 14 && o.prescale >= -64 && o.prescale <= 64 &&
         o.variant <= inceptionn_variant::grace && o.rounding <= inceptionn_rounding::nearest;
}
inline constexpr char const* possible_options = "there are 0 to 2, 0 to 1, 1 to 14, -64 to 64";

/// @throws std::invalid_argument  a setting is out of range
inline value_rule rule_of(inceptionn_options const& o) {
  if (!is_possible(o))
    throw std::invalid_argument("inceptionn: " + text_of(o) + "; " + possible_options);
  int const half = o.bound_exponent / 2;
  bool const grace = o.variant == inceptionn_variant::grace;
  bool const within_bound = o.variant == inceptionn_variant::within_bound;
  return {.prescale = o.prescale,
          .lowest = whole_exponent - o.bound_exponent,
          .middle = whole_exponent - half,
          .unit8 = within_bound ? half + 7 : 7 - grace,
          .unit16 = 15 - grace,
          .nearest = o.rounding == inceptionn_rounding::nearest,
          .grace = grace};
}

}  // namespace detail::inceptionn
}  // namespace hcomp
