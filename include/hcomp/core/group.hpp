#pragma once
/// @file
/// Who works on one block together: one lane on a CPU, a warp or a thread block on a GPU.

#include <cstdint>
#include <hcomp/core/config.hpp>

namespace hcomp {

/// One lane does a whole block alone: plain code, the reference in every test.
struct serial_group {
  static constexpr int lanes = 1;

  HCOMP_HD int lane() const { return 0; }
  HCOMP_HD void sync() const {}
  HCOMP_HD bool any(bool value) const { return value; }
  HCOMP_HD std::uint64_t sum(std::uint64_t value) const { return value; }
};

/// One CPU lane that may use SIMD instructions where a codec has a fast path for them. Same bytes.
struct simd_group : serial_group {};

}  // namespace hcomp
