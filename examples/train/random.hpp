#pragma once
/// @file
/// Draws that are the same with every compiler and standard library, unlike <random>'s
/// distributions.

#include <cstdint>
#include <hcomp/core/random.hpp>
#include <random>

namespace train {

using generator = std::mt19937_64;

/// Cheap to construct: for the draws of one example.
/// Source: Steele, Lea and Flood, SplitMix, OOPSLA 2014.
class fast_generator {
 public:
  explicit fast_generator(std::uint64_t seed) : state_(hcomp::mix(seed)) {}
  std::uint64_t operator()() { return hcomp::mix(state_ += 0x9e3779b97f4a7c15u); }

 private:
  std::uint64_t state_;
};

/// Uniform in [0, 1).
template <class Generator> float uniform(Generator& random) {
  return static_cast<float>(random() >> 40) * 0x1p-24f;
}

/// Uniform below `bound`; the bias is below bound / 2^32.
template <class Generator> std::uint32_t below(Generator& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>((random() >> 32) * bound >> 32);
}

}  // namespace train
