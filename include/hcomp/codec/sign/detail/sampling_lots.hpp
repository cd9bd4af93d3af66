#pragma once
/// @file
/// Which rank's sign survives where ranks are many, drawn without any message: one lot for each value.
/// Takes the same time for any number of ranks, where the masks of sampling_tree.hpp take it for each.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <vector>

namespace hcomp::detail::sampling {

/// Up to so many ranks are chosen among by masks: with more, lots take less time.
inline constexpr std::size_t most_by_masks = 10;

/// A cell of Walker's table: which rank has it, up to where, and which has the rest.
struct alias_cell {
  std::uint32_t kept, other;
};

/// Draws a rank of `ranks` by 32 random bits u: floor(u ranks / 2^32) is a cell, and what is left of the
/// product decides within it. Probabilities are weight / whole to within ranks / 2^32.
/// Source: A. J. Walker, ACM Trans. Math. Softw. 3 (1977) 253-256.
struct lots {
  alias_cell const*
      cells;  ///< one for each rank; null: weights are the same, and cells are the ranks
  std::uint32_t ranks;

  HCOMP_HD std::uint32_t owner_of(std::uint32_t random) const {
    std::uint64_t const product = std::uint64_t{random} * ranks;
    auto const number = static_cast<std::uint32_t>(product >> 32);
    if (!cells) return number;
    alias_cell const cell = cells[number];
    return static_cast<std::uint32_t>(product) < cell.kept ? number : cell.other;
  }
};

/// The cells for ranks of these weights; none where all are the same. In whole numbers, so that all ranks
/// have the same.
/// @param weights  their sum is below 2^32
inline std::vector<alias_cell> cells_of(std::span<std::uint32_t const> weights) {
  std::uint64_t whole = 0;
  bool equal = true;
  for (auto const weight : weights) {
    whole += weight;
    equal &= weight == weights.front();
  }
  if (equal) return {};
  std::vector<alias_cell> cells(weights.size());
  std::vector<std::uint64_t> left;            // of each rank; a cell holds `whole`
  std::vector<std::uint32_t> little, enough;  // ranks that have less than a cell, and others
  for (std::uint32_t r = 0; r < weights.size(); ++r) {
    left.push_back(std::uint64_t{weights[r]} * weights.size());
    (left[r] < whole ? little : enough).push_back(r);
    cells[r] = {~std::uint32_t{0}, r};
  }
  while (!little.empty() && !enough.empty()) {
    std::uint32_t const small = little.back(), large = enough.back();
    little.pop_back();
    cells[small] = {static_cast<std::uint32_t>((left[small] << 32) / whole), large};
    left[large] -= whole - left[small];
    if (left[large] < whole) {
      enough.pop_back();
      little.push_back(large);
    }
  }
  return cells;
}
/// @param cells  of so many ranks, or none
inline lots lots_of(std::span<alias_cell const> cells, std::size_t ranks) {
  return {cells.empty() ? nullptr : cells.data(), static_cast<std::uint32_t>(ranks)};
}

/// The owners of the 64 values of word `place` of the whole vector. The masks' counters end with 0.
HCOMP_HD inline void draw_owners_of_word(lots const& of, std::uint64_t place, std::uint64_t key,
                                         std::uint16_t* owners) {
  for (std::uint32_t call = 0; call < 16; ++call) {  // which has the bits of four values
    auto const low = static_cast<std::uint32_t>(place),
               high = static_cast<std::uint32_t>(place >> 32);
    philox_words<std::uint32_t> random[1] = {{low, high | call << 24, 0, 1}};
    philox4x32(random, key);
    auto const& [u0, u1, u2, u3] = random[0];
    owners[4 * call] = static_cast<std::uint16_t>(of.owner_of(u0));
    owners[4 * call + 1] = static_cast<std::uint16_t>(of.owner_of(u1));
    owners[4 * call + 2] = static_cast<std::uint16_t>(of.owner_of(u2));
    owners[4 * call + 3] = static_cast<std::uint16_t>(of.owner_of(u3));
  }
}

/// The owners of the values of `count` words from `first_word` on.
inline void draw_owners(serial_group, lots const& of, std::uint64_t first_word, int count,
                        std::uint64_t key, std::uint16_t* owners) {
  for (int w = 0; w < count; ++w)
    draw_owners_of_word(of, first_word + static_cast<unsigned>(w), key, owners + w * 64);
}

#if !defined(__CUDA_ARCH__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// For run_at: the same on 64-bit lanes, each of which makes a call.
struct draw_owners_work {
  lots of;
  std::uint64_t first_word;
  int count;
  std::uint64_t key;
  std::uint16_t* owners;

  template <int HalfLanes> [[gnu::always_inline]] void run() const { draw<words<HalfLanes / 2>>(); }

 private:
  template <class Word> [[gnu::always_inline]] void draw() const {
    constexpr int lanes = word_lanes<Word>, together = 2;
    Word numbers, one, high;
    count_from(numbers, 0);
    repeat(one, 1);
    for (int w = 0; w < count; ++w) {
      std::uint64_t const place = first_word + static_cast<unsigned>(w);
      Word low;
      repeat(low, place);  // of its upper halves nobody takes notice
      repeat(high, place >> 32);
      for (int call = 0; call < 16; call += together * lanes) {
        philox_words<Word> random[together];
        for (int v = 0; v < together; ++v) {
          Word first;
          repeat(first, static_cast<std::uint64_t>(call + v * lanes));
          random[v] = {low, high | (numbers + first) << 24, Word{}, one};
        }
        philox4x32(random, key);
        for (int v = 0; v < together; ++v) {
          auto* const out = owners + w * 64 + (call + v * lanes) * 4;
          of.cells ? look_up(random[v], out) : multiply(random[v], out);
        }
      }
    }
  }
  /// The four owners of a call are its lane's 64 bits in memory.
  template <class Word>
  [[gnu::always_inline]] void multiply(philox_words<Word> const& random, std::uint16_t* out) const {
    Word owner, four, product;
    multiply_low_halves(four, product, random.c0, of.ranks);
    multiply_low_halves(owner, product, random.c1, of.ranks);
    four |= owner << 16;
    multiply_low_halves(owner, product, random.c2, of.ranks);
    four |= owner << 32;
    multiply_low_halves(owner, product, random.c3, of.ranks);
    four |= owner << 48;
    memcpy(out, &four, sizeof four);
  }
  template <class Word>
  [[gnu::always_inline]] void look_up(philox_words<Word> const& random, std::uint16_t* out) const {
    constexpr int lanes = word_lanes<Word>;
    std::uint64_t bits[4][lanes];
    memcpy(bits[0], &random.c0, sizeof(Word));
    memcpy(bits[1], &random.c1, sizeof(Word));
    memcpy(bits[2], &random.c2, sizeof(Word));
    memcpy(bits[3], &random.c3, sizeof(Word));
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i)
        out[lane * 4 + i] =
            static_cast<std::uint16_t>(of.owner_of(static_cast<std::uint32_t>(bits[i][lane])));
  }
};
#pragma GCC diagnostic pop

/// @param level  not above best_simd_level(); every level gives the same owners
inline void draw_owners(lots const& of, std::uint64_t first_word, int count, std::uint64_t key,
                        std::uint16_t* owners, simd_level level) {
  run_at(level, draw_owners_work{of, first_word, count, key, owners});
}
inline void draw_owners(simd_group, lots const& of, std::uint64_t first_word, int count,
                        std::uint64_t key, std::uint16_t* owners) {
  draw_owners(of, first_word, count, key, owners, best_simd_level());
}
#endif

}  // namespace hcomp::detail::sampling
