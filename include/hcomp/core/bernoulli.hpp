#pragma once
/// @file
/// Random masks: every bit of a word set independently with an exact rational probability.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp {

/// Selects one random mask: its key, its number under that key, and its probability share / whole.
struct mask_key {
  std::uint64_t philox;  ///< philox_key(draw_key)
  std::uint32_t number;  ///< distinguishes the masks of one key
  std::uint32_t share;   ///< 0 < share < whole
  std::uint32_t whole;
};

/// The binary digits of a mask's probability, the most significant digit first.
struct binary_digits {
  std::uint64_t remainder, whole;

  HCOMP_HD explicit binary_digits(mask_key const& key) : remainder(key.share), whole(key.whole) {}

  /// False if all remaining digits are 0.
  HCOMP_HD bool left() const { return remainder != 0; }
  /// The next digit, repeated in every bit of a word.
  HCOMP_HD std::uint64_t next() {
    remainder *= 2;
    if (remainder < whole) return 0;
    remainder -= whole;
    return ~std::uint64_t{0};
  }
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace detail {

/// Compares the next digit of every lane's uniforms with that of the probability. A smaller uniform
/// sets its bit, a larger one clears it, an equal one stays undecided.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void compare_digit(Word& taken, Word& undecided,
                                                          Word const& uniforms,
                                                          std::uint64_t digit) {
  taken |= undecided & ~uniforms & digit;
  undecided &= ~(uniforms ^ digit);
}

/// Compares the digits from number 2 * `call` on, two per Philox call. Call k of `Calls` uses
/// digits[2 k] and digits[2 k + 1].
template <class Word, int Vectors, int Calls>
[[gnu::always_inline]] HCOMP_HD inline void compare_digits(
    Word (&taken)[Vectors], Word (&undecided)[Vectors], Word const (&place)[Vectors],
    std::uint64_t call, std::uint64_t const (&digits)[2 * Calls], mask_key const& key) {
  using counter = std::conditional_t<std::is_same_v<Word, std::uint64_t>, std::uint32_t, Word>;
  counter mask;
  repeat(mask, key.number);
  philox_words<counter> draws[Vectors * Calls];
  HCOMP_UNROLL
  for (int i = 0; i < Vectors * Calls; ++i) {
    Word const& at = place[i / Calls];
    auto const number = call + static_cast<unsigned>(i % Calls);
    draws[i] = {(counter)at, (counter)((at >> 32) | (number << 24)), mask, counter{}};
  }
  philox4x32(draws, key.philox);
  HCOMP_UNROLL
  for (int i = 0; i < Vectors * Calls; ++i) {
    auto const& [c0, c1, c2, c3] = draws[i];
    int const v = i / Calls, k = i % Calls;
    compare_digit<Word>(taken[v], undecided[v], ((Word)c0 & 0xffffffffu) | ((Word)c1 << 32),
                        digits[2 * k]);
    compare_digit<Word>(taken[v], undecided[v], ((Word)c2 & 0xffffffffu) | ((Word)c3 << 32),
                        digits[2 * k + 1]);
  }
}

/// Makes Philox calls from number `call` on until all lanes are decided.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void continue_mask(Word& mask, Word const& undecided_lanes,
                                                          Word const& its_place, std::uint64_t call,
                                                          binary_digits expansion,
                                                          mask_key const& key) {
  Word const place[1] = {its_place};
  Word undecided[1] = {undecided_lanes}, taken[1] = {mask};
  for (; expansion.left() && any_bit(undecided[0]); ++call) {
    std::uint64_t digits[2];
    for (auto& digit : digits) digit = expansion.next();
    compare_digits<Word, 1, 1>(taken, undecided, place, call, digits, key);
  }
  mask = taken[0];
}

}  // namespace detail

/// Sets each bit of `mask` that is also set in `wanted` with probability share / whole, exactly;
/// all other bits are 0. Lane i holds word `first_word` + i of the vector. A bit's outcome depends
/// only on `key` and its position.
///
/// Compares the binary digits of 64 uniforms with those of the probability, one digit of all lanes
/// at a time, until no wanted lane is undecided. A probability with a short binary expansion needs
/// one draw per digit (1/2: one draw); any other needs about log2(bits) + 1.3 draws.
/// Source: lazy binary expansion; addressing of the draws as described in codec/sign.hpp.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void bernoulli_mask(Word& mask, Word const& wanted,
                                                           std::uint64_t first_word,
                                                           mask_key const& key) {
  Word place;
  count_from(place, first_word);
  mask = Word{};
  detail::continue_mask(mask, wanted, place, 0, binary_digits(key), key);
}

/// bernoulli_mask of `Count` words, each at its own position. Interleaves their first Philox calls,
/// which costs less per word.
template <class Word, int Count>
[[gnu::always_inline]] HCOMP_HD inline void bernoulli_mask_each(Word (&mask)[Count],
                                                                Word const (&wanted)[Count],
                                                                Word const (&place)[Count],
                                                                mask_key const& key) {
  Word undecided[Count];
  HCOMP_UNROLL
  for (int i = 0; i < Count; ++i) mask[i] = Word{}, undecided[i] = wanted[i];
  binary_digits expansion(key);
  std::uint64_t digits[2];
  for (auto& digit : digits) digit = expansion.next();
  detail::compare_digits<Word, Count, 1>(mask, undecided, place, 0, digits, key);
  HCOMP_UNROLL
  for (int i = 0; i < Count; ++i)
    detail::continue_mask(mask[i], undecided[i], place[i], 1, expansion, key);
}

/// Number of words per call of bernoulli_masks.
inline constexpr int mask_tile_words = 256;
using mask_tile = std::array<std::uint64_t, mask_tile_words>;

namespace detail {

/// A compact list of the words of a tile that still have undecided bits.
struct undecided_words {
  static constexpr int overrun = 16;  ///< entries past the end may be read; their values are never
                                      ///< used
  alignas(64) std::array<std::uint64_t, mask_tile_words + overrun> place, bits;
  int count = 0;

  [[gnu::always_inline]] inline void put(std::uint64_t its_place, std::uint64_t its_bits) {
    auto const end = static_cast<std::size_t>(count);
    place[end] = its_place;
    bits[end] = its_bits;
    count += its_bits != 0;
  }
  void close(std::uint64_t any_place) {
    for (int i = count; i < count + overrun; ++i) {
      place[static_cast<std::size_t>(i)] = any_place;
      bits[static_cast<std::size_t>(i)] = 0;
    }
  }
};

/// Makes the first `Calls` Philox calls of all words of a tile.
template <class Word, int Calls>
[[gnu::always_inline]] inline void begin_masks(mask_tile& mask, mask_tile const& wanted, int count,
                                               std::uint64_t first_word, mask_key const& key,
                                               binary_digits& expansion, undecided_words& left) {
  constexpr int lanes = word_lanes<Word>;
  std::uint64_t digits[2 * Calls];
  for (auto& digit : digits) digit = expansion.next();
  Word place[1];
  count_from(place[0], first_word);
  for (int w = 0; w < count; w += lanes) {
    Word undecided[1], taken[1] = {Word{}};
    memcpy(undecided, wanted.data() + w, sizeof(Word));
    compare_digits<Word, 1, Calls>(taken, undecided, place, 0, digits, key);
    memcpy(mask.data() + w, taken, sizeof(Word));
    if (expansion.left()) {
      std::uint64_t bits[lanes];
      memcpy(bits, undecided, sizeof(Word));
      for (int i = 0; i < lanes; ++i) left.put(first_word + static_cast<unsigned>(w + i), bits[i]);
    }
    place[0] += lanes;
  }
  left.close(first_word);
}

/// Makes one more Philox call for the words that are still undecided.
template <class Word>
[[gnu::always_inline]] inline void continue_masks(mask_tile& mask, std::uint64_t first_word,
                                                  std::uint64_t call, mask_key const& key,
                                                  binary_digits& expansion, undecided_words& left) {
  constexpr int lanes = 2 * word_lanes<Word>;
  std::uint64_t digits[2];
  for (auto& digit : digits) digit = expansion.next();
  int const before = left.count;
  left.count = 0;
  for (int w = 0; w < before; w += lanes) {
    Word place[2], undecided[2], taken[2] = {Word{}, Word{}};
    memcpy(place, left.place.data() + w, sizeof(place));
    memcpy(undecided, left.bits.data() + w, sizeof(undecided));
    compare_digits<Word, 2, 1>(taken, undecided, place, call, digits, key);
    std::uint64_t at[lanes], bits[lanes], more[lanes];
    memcpy(at, place, sizeof(at));
    memcpy(bits, undecided, sizeof(bits));
    memcpy(more, taken, sizeof(more));
    for (int i = 0; i < lanes; ++i) {
      mask[at[i] - first_word] |= more[i];
      left.put(at[i], bits[i]);
    }
  }
  left.close(first_word);
}

}  // namespace detail

/// bernoulli_mask of `count` words: the same bits, about twice as fast. The first three calls run
/// for all words; they decide six of ten words. The undecided words are then compacted, so that no
/// lane is idle.
/// @param wanted  must be 0 from `count` up to the next multiple of 8
template <class Word>
[[gnu::always_inline]] inline void bernoulli_masks(mask_tile& mask, mask_tile const& wanted,
                                                   int count, std::uint64_t first_word,
                                                   mask_key const& key) {
  binary_digits expansion(key);
  detail::undecided_words left;
  std::uint64_t calls = 0;
  for (auto ahead = expansion; ahead.left() && calls < 3; ++calls) ahead.next(), ahead.next();
  if (calls == 1)
    detail::begin_masks<Word, 1>(mask, wanted, count, first_word, key, expansion, left);
  else if (calls == 2)
    detail::begin_masks<Word, 2>(mask, wanted, count, first_word, key, expansion, left);
  else
    detail::begin_masks<Word, 3>(mask, wanted, count, first_word, key, expansion, left);
  for (; expansion.left() && left.count > 0; ++calls)
    detail::continue_masks<Word>(mask, first_word, calls, key, expansion, left);
}

#pragma GCC diagnostic pop

}  // namespace hcomp
