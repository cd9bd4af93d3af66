#pragma once
/// @file
/// Numbers by which headers say what follows them.

#include <cstdint>

namespace hcomp {

/// What block_header::codec can be: a codec's `codec_id`, or a message of hcomp's own. A number is
/// never used again for something else; 128 to 255 are for codecs that are not hcomp's.
struct codec_ids {
  // values as they are, or cast
  static constexpr std::uint8_t float32 = 1, float64 = 2, float16 = 3, bfloat16 = 4;
  // lanes that are added, or united bit by bit
  static constexpr std::uint8_t sum_of_32 = 5, sum_of_64 = 6, or_of_32 = 7, or_of_64 = 8;

  static constexpr std::uint8_t sign = 16, sign_count = 17;
  static constexpr std::uint8_t sampled_bits = 18;  ///< messages of algorithm sampled
  static constexpr std::uint8_t thc = 19, uniform_thc = 20;

  // messages of sparse sums: marks as bits or as a list, all lanes, or lanes without marks
  static constexpr std::uint8_t mapped = 21, dense = 22, values = 26, listed = 27;
  // what ranks agree on
  static constexpr std::uint8_t sparse_float = 23, sparse_32 = 24, sparse_64 = 25;

  static constexpr std::uint8_t error_bounded = 28;
  static constexpr std::uint8_t uncompressed = 29;  ///< codes of variable rate, as values
  static constexpr std::uint8_t inceptionn = 30;
  static constexpr std::uint8_t error_bounded_fallback = 31;
  static constexpr std::uint8_t reproducible_float = 32, reproducible_double = 33;
  static constexpr std::uint8_t error_bounded_double = 34;
  static constexpr std::uint8_t lossless_float = 35, lossless_double = 36;
  static constexpr std::uint8_t lossless_integers_32 = 37, lossless_integers_64 = 38;
};

}  // namespace hcomp
