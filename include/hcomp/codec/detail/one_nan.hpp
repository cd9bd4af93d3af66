#pragma once
/// @file
/// Canonicalizes NaN, so that the result does not depend on the order of two NaNs.

#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

HCOMP_HD inline float with_one_nan(float sum) {
  bool const is_nan = (same_bits<std::uint32_t>(sum) & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? same_bits<float>(std::uint32_t{0x7fc00000}) : sum;
}
HCOMP_HD inline double with_one_nan(double sum) {
  auto const bits = same_bits<std::uint64_t>(sum);
  bool const is_nan = (bits & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff0} << 48;
  return is_nan ? same_bits<double>(std::uint64_t{0x7ff8} << 48) : sum;
}

}  // namespace hcomp::detail
