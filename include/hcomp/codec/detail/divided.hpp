#pragma once
/// @file
/// Division with the same bits on CPUs and GPUs.

#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// Divides as CPUs do: a NaN keeps its sign and payload and becomes quiet. GPUs would replace it.
HCOMP_HD inline float divided(float value, float by) {
#if defined(__CUDA_ARCH__)
  if (is_nan(value)) return same_bits<float>(same_bits<std::uint32_t>(value) | 0x400000u);
#endif
  return value / by;
}
HCOMP_HD inline double divided(double value, double by) {
#if defined(__CUDA_ARCH__)
  if (is_nan(value))
    return same_bits<double>(same_bits<std::uint64_t>(value) | std::uint64_t{1} << 51);
#endif
  return value / by;
}

}  // namespace hcomp::detail
