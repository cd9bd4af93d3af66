#pragma once
/// @file
/// Inputs for lossless_integers.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/random.hpp>
#include <limits>
#include <type_traits>
#include <vector>

namespace hcomp::testing {

inline constexpr int kinds_of_integers = 9;

/// 0 counts below 100, 1 random bits, 2 mostly zeros, 3 blocks of all kinds, 4 increasing indices,
/// 5 small ones of both signs, 6 equal, 7 extremes, 8 far from 0 and near each other.
template <class T> std::vector<T> integers_of_kind(int kind, std::size_t n, std::uint64_t seed) {
  using word = std::make_unsigned_t<T>;
  std::vector<T> x(n);
  word index = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = mix(seed * 1'000'003 + i);
    index = static_cast<word>(index + random % 50);
    auto const one = [&]() -> std::uint64_t {
      switch (kind == 3 ? static_cast<int>(mix(seed + i / 64) % kinds_of_integers) : kind) {
        case 0: return random % 100;
        case 1: return random;
        case 2: return random % 20 == 0 ? random % 3 : 0;
        case 4: return index;
        case 5: return random % 2001 - 1000;
        case 6: return seed + 7;
        case 7:
          return static_cast<std::uint64_t>(random % 2 == 0 ? std::numeric_limits<T>::min()
                                                            : std::numeric_limits<T>::max());
        case 8: return static_cast<std::uint64_t>(std::numeric_limits<T>::max()) - random % 1000;
        default: return 0;
      }
    };
    x[i] = static_cast<T>(static_cast<word>(one()));
  }
  return x;
}

/// a + b as MPI_SUM computes it: modulo 2^32 or 2^64.
template <class T> std::vector<T> wrapped_sum(std::vector<T> const& a, std::vector<T> const& b) {
  using word = std::make_unsigned_t<T>;
  std::vector<T> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    sum[i] = static_cast<T>(static_cast<word>(static_cast<word>(a[i]) + static_cast<word>(b[i])));
  return sum;
}

}  // namespace hcomp::testing
