#pragma once
/// @file
/// What word vectors are learnt with.

#include <cstdint>

namespace train {

struct skip_gram_settings {
  int dimension = 64;           ///< of a word's vector
  std::uint32_t window = 5;     ///< words to either side, at most
  std::uint32_t negatives = 5;  ///< random words per pair
  std::uint32_t drawn = 64;     ///< of which so many are drawn for all examples of a step together
};

}  // namespace train
