#pragma once
/// @file
/// SIMD addition of the values of all ranks.

#include <algorithm>
#include <cstddef>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <type_traits>

namespace hcomp::node {

/// A value as a summand: 16-bit floats are added in float; integers wrap around.
template <class V> [[gnu::always_inline]] inline auto summand(V value) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<std::make_unsigned_t<V>>(value);
  else
    return static_cast<accumulator_t<V>>(value);
}

/// out = (values of rank 0 + values of rank 1 + ...) / divisor, in this order. For run_at.
template <class V, class Source> struct addition {
  int ranks;  ///< at least 2
  std::size_t count;
  double divisor;        ///< must be 1 for integers
  V* out;                ///< may alias a source
  Source const& source;  ///< (rank): pointer to its values

  template <int> [[gnu::always_inline]] void run() const {
    using number = decltype(summand(V{}));
    constexpr std::size_t most = 1024;  // fits the first-level cache
    number sum[most];
    for (std::size_t first = 0; first < count; first += most) {
      std::size_t const n = std::min(most, count - first);
      V const* const a = source(0) + first;
      V const* const b = source(1) + first;
      V* const to = out + first;
      if (ranks == 2) {
        finish(
            n, to, [&](std::size_t i) __attribute__((always_inline)) {
              return static_cast<number>(summand(a[i]) + summand(b[i]));
            });
        continue;
      }
      for (std::size_t i = 0; i < n; ++i)
        sum[i] = static_cast<number>(summand(a[i]) + summand(b[i]));
      for (int r = 2; r + 1 < ranks; ++r) {
        V const* const x = source(r) + first;
        for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<number>(sum[i] + summand(x[i]));
      }
      V const* const last = source(ranks - 1) + first;
      finish(
          n, to, [&](std::size_t i) __attribute__((always_inline)) {
            return static_cast<number>(sum[i] + summand(last[i]));
          });
    }
  }

 private:
  template <class Sum>
  [[gnu::always_inline]] void finish(std::size_t n, V* to, Sum const& sum) const {
    using number = decltype(summand(V{}));
    if (divisor == 1) {
      for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<V>(sum(i));
    } else {
      auto const by = static_cast<number>(divisor);
      for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<V>(sum(i) / by);
    }
  }
};

/// @param source  (rank): pointer to its values
template <class V, class Source>
void add(int ranks, std::size_t count, double divisor, V* out, Source const& source) {
  hcomp::detail::float_environment const environment;
  run_at(best_simd_level(), addition<V, Source>{ranks, count, divisor, out, source});
}

/// x / divisor; a divisor of 1 changes nothing.
template <class V> void divide(std::span<V> x, double divisor) {
  if (divisor == 1) return;
  hcomp::detail::float_environment const environment;
  using number = decltype(summand(V{}));
  for (V& value : x) value = static_cast<V>(summand(value) / static_cast<number>(divisor));
}

}  // namespace hcomp::node
