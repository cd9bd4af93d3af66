#pragma once
/// @file
/// Choice of a block's form in the SIMD kernels of lossless, and their prefetching.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::lossless {

// Notes of a block, collected by the kernels:
// - `negative`, `not_zero`: one bit per value
// - `least()`, `largest()`: smallest nonzero and largest magnitude
// - `differing()`: bits in which nonzero magnitudes differ
// - `steps()`: OR of all steps, as in value_block::look
// - `step_bits()`: its bit length is the width of the steps in two's complement, less one

/// True if differences are not shorter than the values, so the kernels need not compute them. Where
/// the sign changes, a step is at least twice the smallest magnitude:
/// - doubles: the step is 2^62 to 2^64 - 2^62 modulo 2^64; it needs 64 bits, which is too long
/// - floats: the step is at least 2^30 and needs 32 bits with its sign. No trailing bit can be left
///   out, because odd and even magnitudes occur
template <class T, class Notes> [[gnu::always_inline]] inline bool has_long_steps(Notes const& of) {
  using block = value_block<T>;
  constexpr auto enough = typename block::word{1} << (block::value_bits - 3);
  bool const is_long =
      block::value_bits == 32 ? (of.differing() & 1) != 0 : of.largest() <= 3 * enough;
  return ~of.not_zero == 0 && of.negative != 0 && ~of.negative != 0 && of.least() >= enough &&
         is_long;
}
/// Same result as value_block::look.
/// @param x  the first value
template <class T, class Notes>
[[gnu::always_inline]] inline typename value_block<T>::front front_of(Notes const& of, T x) {
  using block = value_block<T>;
  using word = typename block::word;
  word const least = of.least(), largest = of.largest(), steps = of.steps();
  typename block::findings found{least, block::ordered(x), of.negative, ~of.not_zero, {}, {}};
  // if all offsets or all steps are 0, their range of bits stays empty
  if (largest > least)
    found.offsets = {lowest_one(of.differing()), bit_length(static_cast<word>(largest - least))};
  if (steps != 0) found.steps = {lowest_one(steps), 1 + bit_length(of.step_bits())};
  return block::shortest(found, block::values);
}

// The kernels prefetch the next chunk while they process one. A chunk of floats fills a page, and
// hardware prefetchers stop at page boundaries.

/// Prefetches the block one chunk after `place`.
template <class T> [[gnu::always_inline]] inline void prefetch_block(void const* place) {
  for (std::size_t line = 0; line < block_values * sizeof(T); line += 64)
    prefetch(place, most_blocks * block_values * sizeof(T) + line);
}
/// Blocks that the kernels process together, in several loops. Each loop has results ready in time
/// for the next loop: the place of a payload depends on all earlier forms. More blocks make memory
/// accesses bursty: doubles then take 1.5 times as long.
inline constexpr std::size_t blocks_together = 4;

}  // namespace hcomp::detail::lossless
