#pragma once
/// @file
/// Division with the same bits on CPUs and GPUs.

#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// Divides as CPUs do: a NaN keeps its payload and becomes quiet.
HCOMP_HD inline float divided(float value, float by) {
  auto const bits = same_bits<std::uint32_t>(value);
  bool const is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? same_bits<float>(bits | 0x400000u) : value / by;
}
HCOMP_HD inline double divided(double value, double by) {
  auto const bits = same_bits<std::uint64_t>(value);
  bool const is_nan = (bits & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff} << 52;
  return is_nan ? same_bits<double>(bits | std::uint64_t{1} << 51) : value / by;
}

}  // namespace hcomp::detail
