#pragma once
/// @file
/// Conversion of values to lanes: floats unchanged, or multiples of a unit that all ranks share.

#include <cmath>
#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <limits>
#include <type_traits>

namespace hcomp::detail::sparse {

/// Floats in lanes of `Lane`: float, std::uint32_t or std::uint64_t.
template <class Lane> class lane_numbers {
  static_assert(std::is_same_v<Lane, float>, "lanes are float, std::uint32_t or std::uint64_t");

 public:
  static constexpr bool pass_nonfinite = true;

  lane_numbers() = default;
  /// @param exponent  the largest of all ranks, as floats store it
  /// @param parts     divisor of the sum: 1 or the number of ranks
  lane_numbers(std::uint32_t /*exponent*/, std::uint32_t /*ranks*/, std::uint32_t parts)
      : parts_(static_cast<float>(parts)) {}

  HCOMP_HD bool can_represent(float) const { return true; }
  HCOMP_HD float lane(float x) const { return x; }
  HCOMP_HD float value(float lane) const {
    return with_one_nan(parts_ == 1 ? lane : lane / parts_);
  }

 private:
  float parts_ = 1;
};

/// Fixed point: a value is rounded to the nearest multiple of a unit. The unit is a power of two,
/// chosen so that the sum of `ranks` values fits. Lanes wrap like unsigned integers, so cells of a
/// sketch may hold any number; the values read from it are exact.
template <class Lane>
  requires std::is_unsigned_v<Lane>
class lane_numbers<Lane> {
  using number = std::make_signed_t<Lane>;

 public:
  static constexpr bool pass_nonfinite = false;

  lane_numbers() = default;
  lane_numbers(std::uint32_t exponent, std::uint32_t ranks, std::uint32_t parts)
      : exponent_(exponent), parts_(parts) {
    // |x| < 2^(exponent - 126) becomes at most 2^bits, so `ranks` of them fit
    auto const most = static_cast<Lane>(std::numeric_limits<number>::max());
    int const bits = bit_length(static_cast<Lane>(most / ranks)) - 1;
    int const up = bits - (static_cast<int>(exponent) - 126);
    scale_ = std::ldexp(1.0, up);
    unit_ = std::ldexp(1.0, -up);
  }

  /// Size of a unit: the rounding error of a value is at most half of it.
  double unit() const { return unit_; }

  /// False for a value with a larger exponent than the agreed one.
  HCOMP_HD bool can_represent(float x) const {
    return (same_bits<std::uint32_t>(x) & 0x7fffffffu) >> 23 <= exponent_;
  }
  HCOMP_HD Lane lane(float x) const {
    double const units = x * scale_;  // has 24 bits, so adding half a unit is exact
    // without a branch on the sign, which would be mispredicted
    return static_cast<Lane>(static_cast<number>(units + std::copysign(0.5, units)));
  }
  HCOMP_HD float value(Lane lane) const {
    double const sum = static_cast<double>(static_cast<number>(lane)) * unit_;
    return static_cast<float>(parts_ == 1 ? sum : sum / parts_);
  }

 private:
  std::uint32_t exponent_ = 0;
  double scale_ = 1, unit_ = 1, parts_ = 1;
};

}  // namespace hcomp::detail::sparse
