#pragma once
/// @file
/// DRIVE: signs of randomly rotated values, unbiased, in two phases.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "random.hpp"
#include "two_phases.hpp"

namespace train {

/// Message format: scales and signs as in scaled_signs, of rotated values. Every message has
/// rotations of its own: randomized Hadamard transforms of windows of 4096 values, or of a power of
/// two in short vectors. The last window overlaps the one before, so that nothing is padded.
class rotated_signs {
 public:
  /// Without error feedback: the scale ||x||^2 / ||x||_1 of rotated values makes messages unbiased.
  static constexpr bool has_feedback = false;

  static std::size_t bytes(std::size_t values) { return scaled_signs::bytes(values); }
  static std::size_t bytes_sent(std::size_t values) { return scaled_signs::bytes_sent(values); }
  static void encode(std::span<float const> x, std::span<std::byte> message,
                     hcomp::encode_options const& how) {
    std::vector<float> rotated(x.begin(), x.end());
    auto const all = windows(x.size());
    for (std::size_t w = 0; w < all.size(); ++w) {
      auto const part = std::span(rotated).subspan(all[w].first, all[w].count);
      flip(part, how.key, how.rank, w);
      hadamard(part);
    }
    scaled_signs::encode(rotated, message, how, [](std::span<float const> part) {
      double squares = 0, sum = 0;
      for (float const value : part) {
        squares += double{value} * double{value};
        sum += std::abs(double{value});
      }
      return sum == 0 ? 0 : squares / sum;
    });
  }
  static void decode(std::span<std::byte const> message, std::span<float> x,
                     hcomp::decode_options const& how, int rank) {
    scaled_signs::decode(message, x, how, rank);
    auto const all = windows(x.size());
    for (std::size_t w = all.size(); w-- > 0;) {
      auto const part = x.subspan(all[w].first, all[w].count);
      hadamard(part);
      flip(part, how.key, rank, w);
    }
  }

 private:
  static std::vector<hcomp::value_range> windows(std::size_t values) {
    std::vector<hcomp::value_range> all;
    auto const size = std::min(scaled_signs::block, std::bit_floor(values));
    for (std::size_t end = 0; end < values;) {
      end = std::min(end + size, values);
      all.push_back({end - size, size});
    }
    return all;
  }
  /// Changes the sign of each value with probability 1/2.
  static void flip(std::span<float> x, hcomp::draw_key const& key, int rank, std::size_t window) {
    auto const message = key.tensor << 32 | static_cast<std::uint32_t>(rank);
    fast_generator random(hcomp::mix(key.seed ^ hcomp::mix(key.step ^ hcomp::mix(message))) +
                          window);
    for (std::size_t i = 0; i < x.size(); i += 64) {
      auto const bits = random();
      for (std::size_t k = i; k < std::min(i + 64, x.size()); ++k)
        if (bits >> (k - i) & 1) x[k] = -x[k];
    }
  }
  /// The orthonormal Walsh-Hadamard transform, its own inverse.
  static void hadamard(std::span<float> x) {
    for (std::size_t half = 1; half < x.size(); half *= 2)
      for (std::size_t first = 0; first < x.size(); first += 2 * half)
        for (std::size_t i = first; i < first + half; ++i) {
          float const a = x[i], b = x[i + half];
          x[i] = a + b;
          x[i + half] = a - b;
        }
    float const scale = 1 / std::sqrt(static_cast<float>(x.size()));
    for (float& value : x) value *= scale;
  }
};

/// Shares of the vector have owners, which send the mean in the same format.
/// Source: Vargaftik et al., DRIVE, NeurIPS 2021, with the unbiased scale.
using drive = two_phases<rotated_signs>;

}  // namespace train
