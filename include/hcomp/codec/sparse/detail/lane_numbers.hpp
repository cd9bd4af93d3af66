#pragma once
/// @file
/// What is added up in lanes: values as they are, or whole numbers of a unit that all ranks share.

#include <cmath>
#include <cstdint>
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
  /// @param parts     what the sum is divided by: 1 or the number of ranks
  lane_numbers(std::uint32_t /*exponent*/, std::uint32_t /*ranks*/, std::uint32_t parts)
      : parts_(static_cast<float>(parts)) {}

  HCOMP_HD bool has_room_for(float) const { return true; }
  HCOMP_HD float lane(float x) const { return x; }
  HCOMP_HD float value(float lane) const { return parts_ == 1 ? lane : lane / parts_; }

 private:
  float parts_ = 1;
};

/// Fixed point: a value is rounded to the nearest multiple of a unit, a power of two so chosen that
/// sums of `ranks` values fit. Sums wrap, as those of unsigned integers do, so cells of a sketch
/// may hold anything; the sums that are read from it are exact.
template <class Lane>
  requires std::is_unsigned_v<Lane>
class lane_numbers<Lane> {
  using number = std::make_signed_t<Lane>;

 public:
  static constexpr bool pass_nonfinite = false;

  lane_numbers() = default;
  lane_numbers(std::uint32_t exponent, std::uint32_t ranks, std::uint32_t parts)
      : exponent_(exponent), parts_(parts) {
    // |x| < 2^(exponent - 126), and becomes at most 2^bits: ranks of them fit.
    auto const most = static_cast<Lane>(std::numeric_limits<number>::max());
    int const bits = bit_length(static_cast<Lane>(most / ranks)) - 1;
    int const up = bits - (static_cast<int>(exponent) - 126);
    scale_ = std::ldexp(1.0, up);
    unit_ = std::ldexp(1.0, -up);
  }

  /// Size of a unit: values are off by half of it at most.
  double unit() const { return unit_; }

  /// False for a value above those that the exponent was found of.
  HCOMP_HD bool has_room_for(float x) const {
    return (same_bits<std::uint32_t>(x) & 0x7fffffffu) >> 23 <= exponent_;
  }
  HCOMP_HD Lane lane(float x) const {
    double const units = x * scale_;  // has 24 bits, so that half a unit is added exactly
    // without a branch, which signs would mislead
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
