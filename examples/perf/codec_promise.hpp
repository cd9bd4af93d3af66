#pragma once
/// @file
/// The accuracy that a registered codec guarantees, for --check.

#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/core/half.hpp>
#include <limits>
#include <type_traits>

#include "contender.hpp"
#include "options.hpp"

namespace perf {

/// Relative rounding error of one addition of values of type T.
template <class T> constexpr double rounding() {
  if constexpr (std::is_same_v<T, hcomp::float16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, hcomp::bfloat16>) return 0x1p-8;
  return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

template <class T>
promise promise_of(hcomp::codec_info const& codec, hcomp::codec_settings const& settings, int ranks,
                   bool mean) {
  // Encoding, every addition and decoding round once. Magnitudes grow with every addition.
  auto const rounds = [&](double wire) { return promise{(ranks + 1) * (wire + rounding<T>())}; };
  switch (codec.promise) {
    case hcomp::accuracy_class::exact: {
      // errors of fixed point and sketches are relative to the largest value or to the norm
      auto const sparse = sparse_codec::from(codec, settings);
      if (sparse && (sparse->fixed > 0 || sparse->strategies.sketched)) return {};
      return rounds(rounding<T>());
    }
    case hcomp::accuracy_class::rounded:
      return rounds(codec.rounding > 0 ? codec.rounding : rounding<T>());
    case hcomp::accuracy_class::error_bounded: {
      if (!codec.largest_error) return {};
      double const parts = mean ? ranks : 1;
      return {{}, false, [=, of_sum = codec.largest_error](hcomp::summed_value one) {
                double const by_division = mean ? 2 * rounding<T>() * one.magnitude : 0;
                one.ranks = ranks;
                one.magnitude *= parts;
                one.exact *= parts;
                return of_sum(settings, one) / parts + by_division;
              }};
    }
    case hcomp::accuracy_class::noisy: break;
  }
  return {std::nullopt, codec.has_magnitude()};
}

}  // namespace perf
