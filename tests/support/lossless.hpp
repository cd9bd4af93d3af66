#pragma once
/// @file
/// Inputs for lossless.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <support/error_bounded.hpp>
#include <type_traits>
#include <vector>

namespace hcomp::testing {

inline constexpr int kinds_of_values = 10;

/// 0 a gradient, 1 a smooth field, 2 random bits, NaN and infinity among them, 3 zeros of either
/// sign and small integers, 4 blocks of all kinds; 5 positive, 6 negative, 7 denormal, 8 equal, 9 a
/// field that crosses 0.
template <class T> std::vector<T> values_of_kind(int kind, std::size_t n, std::uint64_t seed) {
  using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = mix(seed * 1'000'003 + i);
    double const laplace = bounded_values::laplace(seed, i), at = static_cast<double>(i);
    switch (kind == 4 ? static_cast<int>(mix(seed + i / 64) % 10) : kind) {
      case 0: x[i] = static_cast<T>(laplace); break;
      case 1: x[i] = static_cast<T>(300 + std::sin(0.01 * at)); break;
      case 2: x[i] = same_bits<T>(static_cast<word>(random)); break;
      case 3:
        x[i] = static_cast<T>(random % 4 == 0 ? static_cast<double>(random % 1000) : 0.0);
        if (random % 8 < 3) x[i] = -x[i];
        break;
      case 5: x[i] = static_cast<T>(std::fabs(laplace)); break;
      case 6: x[i] = static_cast<T>(-std::fabs(laplace)); break;
      case 7: x[i] = same_bits<T>(static_cast<word>(random % 5000)); break;
      case 8: x[i] = static_cast<T>(-0.1); break;
      case 9: x[i] = static_cast<T>(1e-3 * std::sin(0.01 * at)); break;
      default: break;
    }
  }
  return x;
}

}  // namespace hcomp::testing
