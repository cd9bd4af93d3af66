#pragma once
/// @file
/// The schemes that THC is compared with, as scalar references in double: the vector that one
/// worker's message decodes to. They are references only: no wire format, no speed.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <support/norms.hpp>
#include <vector>

namespace baselines {

using vector = std::vector<double>;

/// Random numbers from a seed, the same with every standard library.
class randomness {
 public:
  explicit randomness(std::uint64_t seed) : bits_(seed) {}

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double sign() { return bits_() >> 63 ? 1 : -1; }
  /// From the standard normal distribution, by Box and Muller.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double const radius = std::sqrt(-2 * std::log(1 - uniform()));
    double const angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::mt19937_64 bits_;
  double spare_ = 0;
  bool has_spare_ = false;
};

// ---- Inputs

/// The distributions of the comparisons: N(0, 1); its exponential, whose vectors share the
/// direction of their mean; and N(0, 1) exp(1.5 N(0, 1)), where few values hold most of the energy.
enum class input { normal, lognormal, heavy };

inline char const* to_text(input which) {
  return which == input::normal ? "normal" : which == input::lognormal ? "lognormal" : "heavy";
}

/// One vector of `values` independent numbers for each of `workers` workers.
inline std::vector<vector> vectors(input which, int workers, std::size_t values,
                                   randomness& random) {
  std::vector<vector> all(static_cast<std::size_t>(workers), vector(values));
  for (vector& x : all)
    for (double& value : x) {
      value = random.normal();
      if (which == input::lognormal) value = std::exp(value);
      if (which == input::heavy) value *= std::exp(1.5 * random.normal());
    }
  return all;
}

// ---- Arithmetic

using hcomp::testing::energy;
using hcomp::testing::product;

inline double largest_magnitude(vector const& x) {
  double largest = 0;
  for (double const value : x) largest = std::max(largest, std::fabs(value));
  return largest;
}

inline vector mean(std::vector<vector> const& all) {
  vector sum(all.front().size());
  for (vector const& x : all)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
  for (double& value : sum) value /= static_cast<double>(all.size());
  return sum;
}

/// ||mean of the workers - estimate||^2 in units of the workers' mean ||x||^2.
inline double nmse(std::vector<vector> const& workers, vector const& estimate) {
  double const error = hcomp::testing::distance(mean(workers), estimate);
  double scale = 0;
  for (vector const& x : workers) scale += energy(x);
  return error / (scale / static_cast<double>(workers.size()));
}

/// The randomized Hadamard transform H D of vectors whose length is a power of two: D flips the
/// sign of every value with probability 1/2, H is the orthonormal Walsh-Hadamard matrix.
class rotation {
 public:
  rotation(std::size_t values, randomness& random) : signs_(values) {
    for (double& sign : signs_) sign = random.sign();
  }

  vector forward(vector x) const {
    turn(x);
    hadamard(x);
    return x;
  }
  vector back(vector x) const {
    hadamard(x);
    turn(x);
    return x;
  }

 private:
  void turn(vector& x) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= signs_[i];
  }
  static void hadamard(vector& x) {
    for (std::size_t half = 1; half < x.size(); half *= 2)
      for (std::size_t first = 0; first < x.size(); first += 2 * half)
        for (std::size_t i = first; i < first + half; ++i) {
          double const a = x[i], b = x[i + half];
          x[i] = a + b;
          x[i + half] = a - b;
        }
    double const scale = 1 / std::sqrt(static_cast<double>(x.size()));
    for (double& value : x) value *= scale;
  }

  vector signs_;
};

/// The quantizer of 2^bits levels with the least squared error D of a standard normal value.
/// Source: Lloyd, IEEE Trans. Inf. Theory 28 (1982); Max, IRE Trans. Inf. Theory 6 (1960).
struct lloyd_max {
  vector levels;
  double distortion = 0;  ///< D

  explicit lloyd_max(int bits) : levels(std::size_t{1} << bits) {
    auto const density = [](double a) {
      return std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi);
    };
    auto const below = [](double a) { return std::erfc(-a / std::numbers::sqrt2) / 2; };
    std::size_t const count = levels.size();
    for (std::size_t i = 0; i < count; ++i)
      levels[i] = 6 * ((static_cast<double>(i) + 0.5) / static_cast<double>(count) - 0.5);
    // Every level moves to the centre of its cell. Converges linearly: 16 levels take some hundreds
    // of steps.
    for (int round = 0; round < 3000; ++round) {
      double kept = 0;
      vector moved(count);
      for (std::size_t i = 0; i < count; ++i) {
        double const low = i == 0 ? -40 : (levels[i - 1] + levels[i]) / 2;
        double const high = i + 1 == count ? 40 : (levels[i] + levels[i + 1]) / 2;
        double const weight = below(high) - below(low);
        moved[i] = (density(low) - density(high)) / weight;
        kept += weight * moved[i] * moved[i];
      }
      levels = moved;
      distortion = 1 - kept;
    }
  }

  double nearest(double a) const {
    auto const above = std::lower_bound(levels.begin(), levels.end(), a);
    if (above == levels.begin()) return levels.front();
    if (above == levels.end()) return levels.back();
    return *above - a < a - *(above - 1) ? *above : *(above - 1);
  }
};

// ---- The schemes: what x decodes to

/// max |x| times -1, 0 or 1, unbiased. Source: Wen et al., TernGrad, NeurIPS 2017.
inline vector terngrad(vector x, randomness& random) {
  double const largest = largest_magnitude(x);
  for (double& value : x)
    value = random.uniform() * largest < std::fabs(value) ? std::copysign(largest, value) : 0.0;
  return x;
}

/// The share `kept` of the values with the largest magnitudes, exactly, and 0 elsewhere. Source:
/// Aji and Heafield, EMNLP 2017; Lin et al., Deep Gradient Compression, ICLR 2018.
inline vector top_k(vector x, double kept = 0.1) {
  auto const count = static_cast<std::size_t>(kept * static_cast<double>(x.size()));
  vector magnitudes(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) magnitudes[i] = std::fabs(x[i]);
  auto const last = magnitudes.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  double const threshold = *last;
  for (double& value : x)
    if (std::fabs(value) <= threshold) value = 0;
  return x;
}

/// Rotates x by a rotation of its own, rounds every value to the nearest level of `quantizer` (in
/// units of the standard deviation), and scales by ||x||^2 / <Rx, Q>, which makes it unbiased. With
/// 2^b levels: Vargaftik et al., EDEN, ICML 2022. With the two levels +1 and -1: Vargaftik et al.,
/// DRIVE, NeurIPS 2021, with its unbiased scale.
inline vector eden(vector const& x, lloyd_max const& quantizer, randomness& random) {
  rotation const rotate(x.size(), random);
  vector const rotated = rotate.forward(x);
  double const unit = std::sqrt(energy(x) / static_cast<double>(x.size()));
  vector encoded(x.size());
  if (unit == 0) return encoded;
  for (std::size_t i = 0; i < encoded.size(); ++i)
    encoded[i] = quantizer.nearest(rotated[i] / unit);
  double const scale = energy(x) / product(rotated, encoded);
  for (double& value : encoded) value *= scale;
  return rotate.back(std::move(encoded));
}

/// DRIVE: one bit per value. The Lloyd-Max levels of one bit are +-sqrt(2/pi). The scale removes
/// any common factor.
inline vector drive(vector const& x, randomness& random) {
  static lloyd_max const one_bit(1);
  return eden(x, one_bit, random);
}

/// The mean over workers that round stochastically to 2^bits equally spaced values between the
/// smallest and the largest value of any worker.
inline vector min_max_mean(std::vector<vector> const& workers, int bits, randomness& random) {
  double low = workers.front().front(), high = low;
  for (vector const& x : workers)
    for (double const value : x) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  double const step = (high - low) / static_cast<double>((1 << bits) - 1);
  std::vector<vector> decoded = workers;
  if (step > 0)
    for (vector& x : decoded)
      for (double& value : x) {
        double const place = (value - low) / step;
        value = low + step * std::floor(place + random.uniform());
      }
  return mean(decoded);
}

/// The same in a rotated domain that all workers share.
inline vector rotated_min_max_mean(std::vector<vector> workers, int bits, randomness& random) {
  rotation const rotate(workers.front().size(), random);
  for (vector& x : workers) x = rotate.forward(std::move(x));
  return rotate.back(min_max_mean(workers, bits, random));
}

// ---- Means over workers

/// Errors of an estimated mean: if the server sends it exactly, and if it compresses it again by
/// the same scheme.
struct errors {
  double one_direction = 0;
  double both_directions = 0;
};

/// `scheme(x)` is the decoded vector of x.
template <class Scheme> errors errors_of(std::vector<vector> const& workers, Scheme const& scheme) {
  std::vector<vector> decoded;
  for (vector const& x : workers) decoded.push_back(scheme(x));
  vector const estimate = mean(decoded);
  return {nmse(workers, estimate), nmse(workers, scheme(estimate))};
}

}  // namespace baselines
