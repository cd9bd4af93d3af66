#pragma once
/// @file
/// What vectors find out about blocks of lossless, and what follows from it.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::lossless {

// Notes of a block are
// - `negative`, `not_zero`: bits of values
// - `least()`, of the magnitudes that are not 0, and `largest()`
// - `differing()`: bits in which some magnitudes that are not 0 differ
// - `steps()`: bits that a step has, of all that look() of value_block has
// - `step_bits()`: those that tell how many bits steps need, as two's complements, less one

/// Whether steps need not be looked at, as they are no shorter than values. Somewhere the sign
/// changes, and that step is no less than twice the least magnitude:
/// - of doubles from 2^62 to 2^64 - 2^62, modulo 2^64: 64 bits, which are too many
/// - of floats 2^30 or more, which takes 32 bits with its sign, and none of them is left out,
///   since some magnitudes are odd and others even
template <class T, class Notes> [[gnu::always_inline]] inline bool has_long_steps(Notes const& of) {
  using block = value_block<T>;
  constexpr auto enough = typename block::word{1} << (block::value_bits - 3);
  bool const is_long =
      block::value_bits == 32 ? (of.differing() & 1) != 0 : of.largest() <= 3 * enough;
  return ~of.not_zero == 0 && of.negative != 0 && ~of.negative != 0 && of.least() >= enough &&
         is_long;
}
/// As value_block::look returns it.
/// @param x  the first value
template <class T, class Notes>
[[gnu::always_inline]] inline typename value_block<T>::front front_of(Notes const& of, T x) {
  using block = value_block<T>;
  using word = typename block::word;
  word const least = of.least(), largest = of.largest(), steps = of.steps();
  typename block::findings found{least, block::ordered(x), of.negative, ~of.not_zero, {}, {}};
  // of no offsets, and no steps, there are no bits
  if (largest > least)
    found.offsets = {lowest_one(of.differing()), bit_length(static_cast<word>(largest - least))};
  if (steps != 0) found.steps = {lowest_one(steps), 1 + bit_length(of.step_bits())};
  return block::shortest(found, block::values);
}

// Vectors work on a chunk at a time. While they do, memory is asked for the next one: by themselves
// processors look ahead within a page, which is what a chunk of floats is.

/// Asks memory for as many bytes as the values of a block, one chunk behind them.
template <class T> [[gnu::always_inline]] inline void prefetch_block(void const* place) {
  for (std::size_t line = 0; line < block_values * sizeof(T); line += 64)
    prefetch(place, most_blocks * block_values * sizeof(T) + line);
}
/// Blocks that wait for each other. Every loop over them has in time what the next one depends on:
/// where a payload goes is known when all forms before it are. Of more blocks at a time, memory is
/// asked for much at once, and then for nothing: of doubles 1.5 times as long.
inline constexpr std::size_t blocks_together = 4;

}  // namespace hcomp::detail::lossless
