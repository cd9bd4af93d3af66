#pragma once
/// @file
/// Identifiers in block headers: the codec of the block, or the type of the message.

#include <cstdint>

namespace hcomp {

/// The values of block_header::codec: the `codec_id` of a codec, or a message of hcomp itself. A
/// value is never reused for another meaning. 128 to 255 are reserved for codecs outside hcomp.
struct codec_ids {
  // values unchanged, or cast
  static constexpr std::uint8_t float32 = 1, float64 = 2, float16 = 3, bfloat16 = 4;
  // lanes that are added, or combined by bitwise OR
  static constexpr std::uint8_t sum_of_32 = 5, sum_of_64 = 6, or_of_32 = 7, or_of_64 = 8;

  static constexpr std::uint8_t sign = 16, sign_count = 17;
  static constexpr std::uint8_t sampled_bits = 18;  ///< messages of algorithm sampled
  static constexpr std::uint8_t thc = 19, uniform_thc = 20;

  // messages of sparse all-reduce: marks as bits or as a list, all lanes, or lanes without marks
  static constexpr std::uint8_t mapped = 21, dense = 22, values = 26, listed = 27;
  // messages in which ranks agree on settings
  static constexpr std::uint8_t sparse_float = 23, sparse_32 = 24, sparse_64 = 25;

  static constexpr std::uint8_t error_bounded = 28;
  static constexpr std::uint8_t uncompressed = 29;  ///< values of a variable-rate codec, unencoded
  static constexpr std::uint8_t inceptionn = 30;
  static constexpr std::uint8_t error_bounded_fallback = 31;
  static constexpr std::uint8_t reproducible_float = 32, reproducible_double = 33;
  static constexpr std::uint8_t error_bounded_double = 34;
  static constexpr std::uint8_t lossless_float = 35, lossless_double = 36;
  static constexpr std::uint8_t lossless_integers_32 = 37, lossless_integers_64 = 38;
};

}  // namespace hcomp
