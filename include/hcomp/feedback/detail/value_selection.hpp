#pragma once
/// @file
/// Selects the largest values of a vector.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Splits vectors into their largest values and the rest. NaN and infinity count as larger than any
/// finite value.
class value_selection {
 public:
  /// The k largest by magnitude; among equal magnitudes the first. Every NaN and infinity is
  /// selected, even beyond k.
  static value_selection of_largest(std::size_t k) { return {k, 0}; }
  /// As of_largest, with k as a share of `values`, from 0 to 1: rounded, and at least one unless
  /// the share is 0.
  static value_selection of_share(double share, std::size_t values) {
    double const exact = share * static_cast<double>(values);
    auto const k = std::min(values, static_cast<std::size_t>(std::llround(exact)));
    return of_largest(k == 0 && exact > 0 ? 1 : k);
  }
  /// All values of at least this magnitude, which must be above 0.
  static value_selection of_magnitude(float least) { return {0, magnitude_bits(least)}; }

  /// Copies the selected values of `all` to `selected`, and writes 0 to the rest. Returns the
  /// number of selected values. Precondition: `all` has at least k values.
  std::size_t operator()(std::span<float const> all, std::span<float> selected) {
    auto const border = limit_ > 0 ? cut{limit_, all.size()} : find_cut(all);
    std::size_t count = 0, ties = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const size = magnitude_bits(all[i]);
      bool const keep = size > border.magnitude || (size == border.magnitude && ties < border.ties);
      ties += keep && size == border.magnitude;
      count += keep;
      selected[i] = keep ? all[i] : 0.0f;
    }
    return count;
  }

 private:
  value_selection(std::size_t k, std::uint32_t limit)
      : counts_(1u << digits.front().bits), k_(k), limit_(limit) {}

  static constexpr std::uint32_t infinity = 0x7f800000;

  /// Monotonic in the magnitude; NaN is above infinity.
  static std::uint32_t magnitude_bits(float x) { return same_bits<std::uint32_t>(x) & 0x7fffffffu; }

  /// Selected are all magnitudes above `magnitude`, and the first `ties` values equal to it.
  struct cut {
    std::uint32_t magnitude;
    std::size_t ties;
  };

  /// The radix digits of a magnitude: exponent and three bits first, then the rest in two digits.
  struct digit {
    int shift, bits;
  };
  static constexpr std::array<digit, 3> digits{{{20, 11}, {10, 10}, {0, 10}}};

  /// Finds the k-th largest magnitude by radix selection, one digit at a time.
  cut find_cut(std::span<float const> all) {
    std::uint32_t prefix = 0;
    std::size_t wanted = k_;
    for (auto const& d : digits) {
      std::fill(counts_.begin(), counts_.end(), std::size_t{0});
      std::uint32_t const mask = (1u << d.bits) - 1;
      for (float const value : all) {
        auto const size = magnitude_bits(value);
        if (std::uint64_t{size ^ prefix} >> (d.shift + d.bits) == 0)
          ++counts_[size >> d.shift & mask];
      }
      if (d.shift == digits.front().shift) {
        std::size_t nonfinite = 0;
        for (std::uint32_t i = infinity >> d.shift; i <= mask; ++i) nonfinite += counts_[i];
        if (wanted <= nonfinite) return {infinity, all.size()};
      }
      std::uint32_t found = mask;
      while (counts_[found] < wanted) wanted -= counts_[found--];
      prefix |= found << d.shift;
    }
    return {prefix, wanted};
  }

  std::vector<std::size_t> counts_;
  std::size_t k_;
  std::uint32_t limit_;  ///< smallest selected magnitude; 0: k_ decides
};

}  // namespace hcomp::detail
