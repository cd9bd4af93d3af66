#pragma once
/// @file
/// Quotients that are the same bits on CPUs and GPUs.

#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// As CPUs divide: a NaN keeps its bits and becomes quiet.
HCOMP_HD inline float divided(float value, float by) {
  auto const bits = same_bits<std::uint32_t>(value);
  bool const is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? same_bits<float>(bits | 0x400000u) : value / by;
}

}  // namespace hcomp::detail
