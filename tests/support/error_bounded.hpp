#pragma once
/// @file
/// Vectors for the tests and the benchmark of error_bounded: three kinds, each with a suitable
/// bound of one rank, and vectors whose blocks take all forms.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <string>
#include <vector>

namespace bounded_values {

/// Uniform over (0, 1), the same on every machine.
inline double draw(std::uint64_t seed, std::size_t i) {
  return (static_cast<double>(hcomp::mix(seed * 0x9e3779b97f4a7c15u + i) >> 12) + 0.5) * 0x1p-52;
}
inline double laplace(std::uint64_t seed, std::size_t i) {
  double const u = draw(seed, i) - 0.5;
  return u < 0 ? std::log1p(2 * u) : -std::log1p(-2 * u);
}

struct input {
  std::string name;
  double bound;        ///< of one rank
  double least_ratio;  ///< ratio of bytes of fZ-light, ZCCL's codec, on data of this kind
  std::vector<float> x;
};

/// A gradient: Laplace, with another scale in every 4096 values.
inline input gradient(std::size_t n, std::uint64_t seed) {
  input made{"Laplace gradient", 2.5e-5, 4.27, std::vector<float>(n)};
  double scale = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 4096 == 0) scale = std::pow(10.0, -4.1 + 1.5 * draw(seed + 1, i / 4096));
    made.x[i] = static_cast<float>(scale * laplace(seed, i));
  }
  return made;
}
/// Waves, as in a simulation.
inline input smooth(std::size_t n, std::uint64_t seed) {
  input made{"smooth", 2.6e-4, 11.3, std::vector<float>(n)};
  double const phase = 6.28 * draw(seed, 0);
  for (std::size_t i = 0; i < n; ++i) {
    double const t = static_cast<double>(i);
    made.x[i] = static_cast<float>(0.13 * std::sin(0.01 * t + phase) * std::cos(0.0037 * t));
  }
  return made;
}
/// 1 % of the values are not 0.
inline input sparse(std::size_t n, std::uint64_t seed) {
  input made{"1 % dense", 1e-6, 8.9, std::vector<float>(n)};
  for (std::size_t i = 0; i < n; ++i)
    if (draw(seed + 1, i) < 0.01) made.x[i] = static_cast<float>(4e-3 * laplace(seed, i));
  return made;
}

/// Blocks in all forms: zeros, few values, differences, integers, and on request floats.
inline std::vector<float> integer_forms(std::size_t n, std::uint64_t seed, bool with_floats) {
  auto const waves = smooth(n, seed).x, steep = gradient(n, seed).x;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const block = hcomp::mix(seed * 77 + i / 64) % 5, random = hcomp::mix(seed + i);
    if (block == 1) x[i] = random % 20 == 0 ? steep[i] : 0;
    if (block == 2) x[i] = waves[i];
    if (block == 3) x[i] = steep[i];
    if (block == 4) x[i] = with_floats && random % 9 == 0 ? 1e30f * steep[i] : 100 * waves[i];
  }
  return x;
}
/// Blocks in all forms, in runs of some and alone: zeros, few values, differences, integers; and
/// some with floats, among them NaN and infinity.
inline std::vector<float> all_forms(std::size_t n, std::uint64_t seed, double step) {
  auto const waves = smooth(n, seed).x;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const block = i / 32, random = hcomp::mix(seed * 1000 + i);
    std::uint64_t const form = hcomp::mix(seed * 77 + (block % 16 < 8 ? block / 8 : block)) % 6;
    double const peak = laplace(seed, i);
    if (form == 1) x[i] = static_cast<float>(random % 9 == 0 ? 300 * step * peak : 0);
    if (form == 2) x[i] = waves[i] * static_cast<float>(3e4 * step);
    if (form == 3) x[i] = static_cast<float>(40 * step * peak);
    if (form == 4) x[i] = static_cast<float>(1e5 * step * (1 + 1e-4 * peak));
    if (form == 5) {
      x[i] = static_cast<float>((random % 11 == 0 ? 1e9 : 1e3) * step * peak);
      if (random % 200 == 1)
        x[i] = random % 400 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                 : -std::numeric_limits<float>::infinity();
      if (random % 200 == 2) x[i] = hcomp::same_bits<float>(0xffabcdefu);
    }
  }
  return x;
}

/// Bytes of fZ-light's format on x. They show that an input is of the kind that its ratio was
/// measured on. Blocks of 32 differences take a byte; if one is not 0, they also take their signs,
/// and the magnitudes in the bits of the largest one. J. Huang et al., SC 2024.
inline double ratio_of_fz_light(std::vector<float> const& x, double bound) {
  std::size_t bytes = 0;
  long before = 0;
  for (std::size_t first = 0; first + 32 <= x.size(); first += 32) {
    long all = 0;
    for (std::size_t i = first; i < first + 32; ++i) {
      long const q = std::lrint(static_cast<double>(x[i]) / (2 * bound));
      all |= std::labs(q - before);
      before = q;
    }
    int width = 0;
    for (; all != 0; all >>= 1) ++width;
    bytes += static_cast<std::size_t>(width > 0 ? 5 + 4 * width : 1);
  }
  return static_cast<double>(x.size() * sizeof(float)) / static_cast<double>(bytes);
}

}  // namespace bounded_values
