#pragma once
/// @file
/// Random masks: every bit of a word set independently with an exact rational probability.

#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp {

/// Which random mask: its stream, which of the stream's masks, and the probability share / whole.
struct mask_key {
  std::uint64_t stream;  ///< stream_of(stream_key)
  std::uint32_t tag;     ///< tells the masks of one stream apart
  std::uint32_t share;   ///< 0 < share < whole
  std::uint32_t whole;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Set each bit of `mask` that is also set in `wanted` with probability share / whole, exactly;
/// the other bits are 0. Lane i belongs to the word number `first_word` + i of the whole vector,
/// and a bit's outcome depends on `key` and its place only.
///
/// Compares the binary digits of 64 uniforms with those of the probability, one digit of all lanes
/// at a time, until no wanted lane is undecided. A probability with a short binary expansion needs
/// that many draws (1/2: one); others about log2(bits) + 1.3.
/// Source: lazy binary expansion; addressing of the draws as described in codec/sign.hpp.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void bernoulli_mask(Word& mask, Word const& wanted,
                                                           std::uint64_t first_word,
                                                           mask_key const& key) {
  Word place;
  count_from(place, first_word);
  Word undecided = wanted;
  Word taken = Word{};
  std::uint64_t remainder = key.share;
  auto const compare_digit = [&](Word const& digit) __attribute__((always_inline)) {
    remainder *= 2;
    if (remainder >= key.whole) {  // this digit of the probability is 1
      remainder -= key.whole;
      taken |= undecided & ~digit;
      undecided &= digit;
    } else {
      undecided &= ~digit;
    }
  };
  for (std::uint64_t call = 0; remainder != 0 && any_bit(undecided); ++call) {
    Word c0 = place, c1 = (place >> 32) | (call << 24), c2 = Word{} + key.tag, c3 = Word{};
    philox4x32(c0, c1, c2, c3, key.stream);
    compare_digit((c0 & 0xffffffffu) | (c1 << 32));
    compare_digit((c2 & 0xffffffffu) | (c3 << 32));
  }
  mask = taken;
}

#pragma GCC diagnostic pop

}  // namespace hcomp
