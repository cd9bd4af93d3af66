#pragma once
/// @file
/// Canonicalizes NaN, so that a result depends neither on the order of two NaNs nor on the
/// processor: GPUs return another NaN than CPUs.

#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Tests the bits, so that -ffast-math cannot remove the check.
HCOMP_HD inline bool is_nan(float value) {
  return (same_bits<std::uint32_t>(value) & 0x7fffffffu) > 0x7f800000u;
}
HCOMP_HD inline bool is_nan(double value) {
  return (same_bits<std::uint64_t>(value) & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff0}
                                                                             << 48;
}

/// The NaN of every result: positive, quiet, without payload.
template <class T> HCOMP_HD T one_nan() {
  if constexpr (std::is_same_v<T, double>)
    return same_bits<double>(std::uint64_t{0x7ff8} << 48);
  else  // 16-bit floats convert NaN themselves, with the same bits everywhere
    return static_cast<T>(same_bits<float>(std::uint32_t{0x7fc00000}));
}

template <class T> HCOMP_HD T with_one_nan(T sum) { return is_nan(sum) ? one_nan<T>() : sum; }

/// Converts a value without NaN or with one_nan, which becomes that of the other type. CPUs convert
/// it so; GPUs choose another one between float and double.
template <class To, class From> HCOMP_HD To converted(From value) {
  if constexpr (sizeof(From) == 2) {
    return converted<To>(static_cast<float>(value));
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<To, double> != std::is_same_v<From, double>)
      if (is_nan(value)) return one_nan<To>();
#endif
    return static_cast<To>(value);
  }
}

}  // namespace hcomp::detail
