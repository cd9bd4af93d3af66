#pragma once
/// @file
/// The cost of memory: loops that only read, or move, the bytes of a kernel.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/simd.hpp>
#include <hcomp/core/simd_level.hpp>
#include <limits>
#include <vector>

#include "paired.hpp"

namespace bench {

/// Reads n values of x, and of c unless it is null.
using read_function = void (*)(float const* x, float const* c, std::size_t n);
/// Reads and writes n values of x and of c.
using move_function = void (*)(float* x, float* c, std::size_t n);

namespace detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

template <int Lanes>
[[gnu::always_inline]] inline void read_by(float const* x, float const* c, std::size_t n) {
  using vector = typename hcomp::simd_vector<std::uint32_t, Lanes>::type;
  vector seen[4] = {};
  for (std::size_t i = 0; i < n; i += 4 * Lanes)
    for (int k = 0; k < 4; ++k) {
      seen[k] |= *reinterpret_cast<vector const*>(x + i + k * Lanes);
      if (c) seen[k] |= *reinterpret_cast<vector const*>(c + i + k * Lanes);
    }
  seen[0] |= seen[1] | seen[2] | seen[3];
  std::uint32_t all = 0;
  for (int i = 0; i < Lanes; ++i) all |= seen[0][i];
  benchmark::DoNotOptimize(all);
}

template <int Lanes> [[gnu::always_inline]] inline void move_by(float* x, float* c, std::size_t n) {
  using vector = typename hcomp::simd_vector<float, Lanes>::type;
  for (std::size_t i = 0; i < n; i += Lanes) {
    auto* const at_x = reinterpret_cast<vector*>(x + i);
    auto* const at_c = reinterpret_cast<vector*>(c + i);
    vector const old = *at_x;
    *at_x = *at_c;
    *at_c = old;
  }
}

#pragma GCC diagnostic pop

inline void read_baseline(float const* x, float const* c, std::size_t n) { read_by<4>(x, c, n); }
inline void move_baseline(float* x, float* c, std::size_t n) { move_by<4>(x, c, n); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] inline void read_avx2(float const* x, float const* c, std::size_t n) {
  read_by<8>(x, c, n);
}
[[gnu::target("avx2")]] inline void move_avx2(float* x, float* c, std::size_t n) {
  move_by<8>(x, c, n);
}
[[gnu::target("avx512f")]] inline void read_avx512(float const* x, float const* c, std::size_t n) {
  read_by<16>(x, c, n);
}
[[gnu::target("avx512f")]] inline void move_avx512(float* x, float* c, std::size_t n) {
  move_by<16>(x, c, n);
}
#endif

/// Returns the fastest loop for the given arrays.
template <class F, class... Arguments>
F fastest(std::vector<F> const& candidates, Arguments... arguments) {
  F best = candidates.front();
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round)
    for (F const candidate : candidates) {
      double const start = cpu_seconds();
      candidate(arguments...);
      double const time = cpu_seconds() - start;
      if (time < least) least = time, best = candidate;
    }
  return best;
}

/// Cuts `all`, in the order of simd_level, to the levels of this processor. Ignores HCOMP_MAX_SIMD.
template <class F> std::vector<F> runnable(std::vector<F> all) {
  auto const levels = static_cast<std::size_t>(hcomp::processor_simd_level()) + 1;
  all.resize(std::min(all.size(), levels));
  return all;
}

}  // namespace detail

inline read_function fastest_read(float const* x, float const* c, std::size_t n) {
  using namespace detail;
#if defined(__x86_64__)
  return fastest(runnable<read_function>({read_baseline, read_avx2, read_avx512}), x, c, n);
#else
  return read_baseline;
#endif
}
inline move_function fastest_move(float* x, float* c, std::size_t n) {
  using namespace detail;
#if defined(__x86_64__)
  return fastest(runnable<move_function>({move_baseline, move_avx2, move_avx512}), x, c, n);
#else
  return move_baseline;
#endif
}

}  // namespace bench
