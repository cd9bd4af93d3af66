#pragma once
/// @file
/// From a codec's name on the command line to the codec, and what it promises.

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/core/half.hpp>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "contender.hpp"
#include "options.hpp"
#ifdef HCOMP_PERF_ZFP
#include "zfp_codec.hpp"
#endif

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

/// Calls f(codec) with the one called `name` on the command line, not yet fitted.
/// @throws std::runtime_error, std::invalid_argument  there is none for values of type T
template <class T, class F> void with_codec(std::string const& name, F const& f) {
  if (!name.starts_with("zfp:"))
    return hcomp::builtin_codecs<T>::with(registry_name(name), [&]<class C>() { f(C{}); });
#ifdef HCOMP_PERF_ZFP
  if constexpr (std::is_floating_point_v<T>) {
    zfp_codec<T> codec;
    char const* const end = name.data() + name.size();
    auto const read = std::from_chars(name.data() + 4, end, codec.bits);
    if (read.ec != std::errc{} || read.ptr != end || codec.bits < 4 || codec.bits > 32)
      throw std::runtime_error(
          fmt::format("--codec {}: zfp takes 4 to 32 bits per value, as in zfp:8", name));
    f(codec);
  } else {
    throw std::runtime_error(fmt::format("--codec {}: zfp takes float and double only", name));
  }
#else
  throw std::runtime_error(fmt::format("--codec {}: this program was built without zfp", name));
#endif
}

}  // namespace perf
