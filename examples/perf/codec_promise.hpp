#pragma once
/// @file
/// What a codec promises, and the codec as it is timed.

#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/half.hpp>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "contender.hpp"

namespace perf {

/// A rounding error of the values that cross the wire, per addition.
template <class T> constexpr double rounding() {
  if constexpr (std::is_same_v<T, hcomp::float16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, hcomp::bfloat16>) return 0x1p-8;
  return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

/// What a codec's documentation says of a sum over so many ranks.
template <class C> promise promise_of(int ranks) {
  using T = typename C::value_type;
  std::string_view const name = C::name;
  double wire = 0;
  if (name == "identity") wire = rounding<T>();
  if (name == "float_cast:fp16") wire = 0x1p-11;
  if (name == "float_cast:bf16") wire = 0x1p-8;
  // encoding, every addition and decoding round once; magnitudes add up along the way
  if (wire > 0) return {(ranks + 1) * (wire + rounding<T>()), false};
  return {std::nullopt, name == "sign" || name == "sign_count"};
}

/// `codec` for a sum over `ranks` ranks of values of mean |x| `typical`.
template <class C> C fitted(C codec, double typical, int ranks) {
  if constexpr (requires { codec.magnitude; })
    codec.magnitude = static_cast<decltype(codec.magnitude)>(typical);
  return hcomp::fit(codec, static_cast<std::uint32_t>(ranks));
}

}  // namespace perf
