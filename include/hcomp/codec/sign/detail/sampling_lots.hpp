#pragma once
/// @file
/// Selects the rank whose sign survives, without communication: one random draw per value. The time
/// is independent of the number of ranks, whereas the masks of sampling_tree.hpp take time per
/// rank.

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

/// Largest number of ranks for which masks are used: with more ranks, draws take less time.
inline constexpr std::size_t most_by_masks = 10;

/// A cell of Walker's alias table: rank `number` owns it below `kept`, rank `other` owns the rest.
struct alias_cell {
  std::uint32_t kept, other;
};

/// Draws a rank of `ranks` with 32 random bits u. floor(u ranks / 2^32) selects a cell; the
/// fraction of the product decides within the cell. Probabilities equal weight / total weight to
/// within ranks / 2^32.
/// Source: A. J. Walker, ACM Trans. Math. Softw. 3 (1977) 253-256.
struct lots {
  alias_cell const*
      cells;  ///< one per rank; null if all weights are equal: the cell number is then the rank
  std::uint32_t ranks;

  HCOMP_HD std::uint32_t owner_of(std::uint32_t random) const {
    std::uint64_t const product = std::uint64_t{random} * ranks;
    auto const number = static_cast<std::uint32_t>(product >> 32);
    if (!cells) return number;
    alias_cell const cell = cells[number];
    return static_cast<std::uint32_t>(product) < cell.kept ? number : cell.other;
  }
};

/// Returns the alias table for ranks of these weights, or none if all weights are equal. Integer
/// arithmetic gives the same table on all ranks.
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
  std::vector<std::uint64_t> left;            // weight left per rank; a cell holds `whole`
  std::vector<std::uint32_t> little, enough;  // ranks with less than a cell, and with at least one
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
/// @param cells  the table of `ranks` ranks, or none
inline lots lots_of(std::span<alias_cell const> cells, std::size_t ranks) {
  return {cells.empty() ? nullptr : cells.data(), static_cast<std::uint32_t>(ranks)};
}

/// Draws the owners of the 64 values of word `place` of the complete vector. The last counter word
/// is 1; that of the masks is 0.
HCOMP_HD inline void draw_owners_of_word(lots const& of, std::uint64_t place, std::uint64_t key,
                                         std::uint16_t* owners) {
  for (std::uint32_t call = 0; call < 16; ++call) {  // each call gives the bits of four values
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

/// Draws the owners of the values of `count` words from `first_word` on.
inline void draw_owners(serial_group, lots const& of, std::uint64_t first_word, int count,
                        std::uint64_t key, std::uint16_t* owners) {
  for (int w = 0; w < count; ++w)
    draw_owners_of_word(of, first_word + static_cast<unsigned>(w), key, owners + w * 64);
}

#if !defined(__CUDA_ARCH__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// The same for run_at, on 64-bit lanes; each lane makes one call.
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
      repeat(low, place);  // only the lower half of each lane counts
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
  /// The 64 bits of a lane in memory are the four owners of its call.
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

/// @param level  at most best_simd_level(); every level gives the same owners
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
