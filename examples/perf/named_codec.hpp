#pragma once
/// @file
/// From a codec's name on the command line to the codec.

#include <fmt/core.h>

#include <charconv>
#include <hcomp/codec/registry.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "codec_promise.hpp"
#include "options.hpp"
#ifdef HCOMP_PERF_ZFP
#include "zfp_codec.hpp"
#endif

namespace perf {

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
