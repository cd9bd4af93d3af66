#pragma once
/// @file
/// INCEPTIONN as a codec of collectives.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/inceptionn_stream.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/simd.hpp>
#include <span>

namespace hcomp {

/// inceptionn_stream, and what ranks agree on before they send each other such streams: its
/// settings, and if wanted a prescale that suits all ranks' values.
class inceptionn : public inceptionn_stream {
 public:
  static constexpr char const* name = "inceptionn";
  static constexpr std::uint8_t tag = 30;

  /// As inceptionn_stream.
  explicit inceptionn(inceptionn_options const& options = {}, simd_level level = best_simd_level())
      : inceptionn_stream(options, level), level_(level) {}

  /// Bound exponent, prescale, and 2 variant + rounding.
  std::array<double, 3> parameters() const {
    auto const& o = options();
    return {static_cast<double>(o.bound_exponent), static_cast<double>(o.prescale),
            static_cast<double>(2 * static_cast<int>(o.variant) + static_cast<int>(o.rounding))};
  }

  /// The exponent, as floats store it, of the largest value that is finite.
  static std::uint32_t measure(std::span<float const> x) {
    std::uint32_t largest = 0;
    for (float const value : x) {
      std::uint32_t const exponent = same_bits<std::uint32_t>(value) >> 23 & 255u;
      largest = std::max(largest, exponent == 255 ? 0 : exponent);
    }
    return largest;
  }

  /// With the prescale that brings the largest value, times the square root of the ranks, to
  /// between 1/4 and 1: as sums of independent values grow. The bound 2^-E is then a share of that.
  /// @param largest  of all ranks' measure(x); 0 leaves the prescale as it is
  inceptionn fitted(std::uint32_t largest, int ranks) const {
    if (largest == 0) return *this;
    int const doublings = std::bit_width(static_cast<unsigned>(ranks) - 1);  // rounded up
    auto settings = options();
    settings.prescale = std::clamp(126 - static_cast<int>(largest) - (doublings + 1) / 2, -64, 64);
    return inceptionn(settings, level_);
  }

 private:
  simd_level level_;
};
static_assert(FittedVariableRate<inceptionn>);

}  // namespace hcomp
