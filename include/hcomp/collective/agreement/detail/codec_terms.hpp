#pragma once
/// @file
/// A codec as data: what an engine compares between ranks, checks and reports.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/half.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace hcomp::detail {

/// Properties of a codec that ranks must agree on, without its type.
struct codec_terms {
  std::string_view name;
  std::uint8_t codec_id = 0;
  std::uint32_t value_bytes = 0;
  std::array<double, 4> parameters{};
  std::uint32_t max_summands = 0;
  bool has_means = true;     ///< false for integers
  bool is_lossless = false;  ///< results are those of an uncompressed all-reduce
  double magnitude = 0;      ///< upper bound of every decoded mean; 0: the codec has no magnitude
  double largest_value = 0;  ///< of the type that a magnitude is decoded to
  std::string feedback_refusal = {};  ///< see RefusesFeedback
};

/// @param value_bytes   size of a value
/// @param max_summands  largest total weight
/// @throws std::invalid_argument  a parameter is not finite
template <class C>
codec_terms terms_of(C const& codec, std::size_t value_bytes, std::uint32_t max_summands) {
  codec_terms terms;
  terms.name = C::name;
  terms.codec_id = C::codec_id;
  terms.value_bytes = static_cast<std::uint32_t>(value_bytes);
  terms.max_summands = max_summands;
  terms.has_means = !std::is_integral_v<typename C::value_type>;
  terms.feedback_refusal = feedback_refusal_of(codec);
  if constexpr (requires { codec.is_lossless(); }) terms.is_lossless = codec.is_lossless();
  auto const parameters = codec.parameters();
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(parameters)>> <= 4,
                "a codec has at most four parameters");
  std::copy(parameters.begin(), parameters.end(), terms.parameters.begin());
  if constexpr (requires { codec.magnitude; }) {
    terms.magnitude = static_cast<double>(codec.magnitude);
    terms.largest_value = largest_v<typename C::value_type>;
  }
  for (double const parameter : parameters)
    if (!std::isfinite(parameter))
      throw std::invalid_argument(
          error_text({"plan: codec '", terms.name, "' has a parameter ", parameter}));
  return terms;
}

}  // namespace hcomp::detail
