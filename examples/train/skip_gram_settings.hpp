#pragma once
/// @file
/// Settings of skip-gram.

#include <cstdint>

namespace train {

struct skip_gram_settings {
  int dimension = 64;           ///< numbers in a word's vector
  std::uint32_t window = 5;     ///< largest distance of neighbours
  std::uint32_t negatives = 5;  ///< random words per pair
  std::uint32_t drawn = 64;     ///< number of random words that all examples of a step share
};

}  // namespace train
