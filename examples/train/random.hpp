#pragma once
/// @file
/// Draws that are the same with every compiler and standard library, unlike <random>'s
/// distributions.

#include <cstdint>
#include <random>

namespace train {

using generator = std::mt19937_64;

/// Uniform in [0, 1).
inline float uniform(generator& random) { return static_cast<float>(random() >> 40) * 0x1p-24f; }

/// Uniform below `bound`; the bias is below bound / 2^32.
inline std::uint32_t below(generator& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>((random() >> 32) * bound >> 32);
}

}  // namespace train
