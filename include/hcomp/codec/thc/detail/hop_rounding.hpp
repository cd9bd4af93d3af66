#pragma once
/// @file
/// Rounds sums to a fixed number of bits on the wire, with random draws that sender and receiver
/// share.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/thc/detail/lanes_16.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail::thc {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// The multiples of 2^shift that represent rounded sums of one weight in `bits` bits.
///
/// A sum S is a signed 16-bit lane. A draw of shift + 1 bits gives u = floor(draw / 2) and c = 0 or
/// 1, its lowest bit. It dithers the sum before truncation and is subtracted afterwards:
///
///     q = floor((S + margin + u) / 2^shift)        S' = q 2^shift + 2^(shift - 1) - u - c - margin
///
/// S' - S has mean 0 and variance (4^shift + 2) / 12, for every S. Rounding S' again with the same
/// draw gives S'. S' may exceed the exact range of the sum, 0 to `largest`. The margin leaves space
/// for this: clipping to the range would add a bias. A sum is clipped only when accumulated
/// roundings exceed the margin.
struct hop_grid {
  int bits = 0;
  int shift = 0;  ///< 0: no sum needs more than `bits` bits, and none is rounded
  int margin = 0;
  int most = 0;  ///< upper end of the range [-margin, most] to which a sum is clipped

  static constexpr int lane_bits = 15;  ///< without the sign
  /// Numbers reserved at each end of the 2^bits numbers.
  HCOMP_HD static constexpr int spare(int bits) { return bits <= 5 ? 0 : (1 << (bits - 5)) - 1; }
  /// Usable range in units of 2^shift.
  HCOMP_HD static constexpr int steps(int bits) { return (1 << bits) - 1 - 2 * spare(bits); }
  /// Largest sum that fits.
  HCOMP_HD static constexpr int largest_sum(int bits) { return steps(bits) << (lane_bits - bits); }

  /// Upper bound on the relative excess over the largest sum at either end, for any sequence of
  /// rounded sums. Each rounding adds at most the margin and half a step, and steps * 2^shift is
  /// less than twice the largest sum. Such a sum still fits into a lane.
  HCOMP_HD static constexpr double excess(int bits) {
    return static_cast<double>(2 * spare(bits) + 1) / steps(bits);
  }

  hop_grid() = default;
  /// @param bits     4 to 14
  /// @param largest  largest exact sum of the weight; above largest_sum(bits) it is clipped
  HCOMP_HD constexpr hop_grid(int bits, std::uint64_t largest) : bits(bits) {
    if (largest >> bits == 0) return;
    int const end = largest < static_cast<std::uint64_t>(largest_sum(bits))
                        ? static_cast<int>(largest)
                        : largest_sum(bits);
    shift = 1;
    while (steps(bits) << shift < end) ++shift;
    margin = spare(bits) << shift;
    most = end + margin;
  }
};

/// Domain in the last word of the Philox counters of these draws, below a weight of at least 2.
inline constexpr std::uint32_t domain_of_hops = 3;

/// The operation on lanes that lie in 16 rows, as in narrow_lanes.
enum class hop_step { narrow, widen, round };

/// One operation on columns of lanes: narrow_lanes or widen_lanes combined with rounding, or
/// rounding in place.
///
/// The draws of the 16 lanes of a column are XOR combinations of 5 random numbers. Any two of these
/// draws are independent, as are draws of different columns. Variances therefore add up as if all
/// draws were independent. One Philox counter per column is enough if at most 4 bits are dropped.
template <hop_step Step> struct hop_rounding {
  hop_grid grid;
  std::uint64_t key;
  std::uint32_t index, lowest_rank, weight;
  std::byte const* from;
  std::byte* to;
  std::size_t row;  ///< bytes of a row, a multiple of 8

  static constexpr int rows = 16;
  static constexpr int words = 5;  ///< random numbers that the draws combine

  /// @param header  of the block: equal ranks and place give equal draws
  HCOMP_HD hop_rounding(hop_grid const& grid, block_header const& header, std::byte const* from,
                        std::byte* to, std::size_t lanes)
      : grid(grid),
        key(header.key),
        index(header.index),
        lowest_rank(header.lowest_rank),
        weight(header.weight),
        from(from),
        to(to),
        row(lanes / 8) {}

  template <class Group> HCOMP_HD void by(Group group) const {
    for (auto i = static_cast<std::size_t>(group.worker()); i < row / 8; i += Group::workers)
      column<std::uint64_t, std::uint32_t, 1>(i);
  }

#if !defined(__CUDA_ARCH__)
  void by(simd_group) const { run_at(best_simd_level(), *this); }

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    constexpr int turns = 16 / Lanes;  // 64 bytes per iteration, fetched together
    using vector = hcomp::words<Lanes / 2>;
    std::size_t const whole = row / 64 * 8;
    for (std::size_t i = 0; i < whole; i += 8)
      column<typename simd_vector<std::uint16_t, 2 * Lanes>::type, vector, turns>(i);
    for (std::size_t i = whole; i < row / 8; ++i) column<std::uint64_t, std::uint32_t, 1>(i);
    return false;
  }
#endif

 private:
  /// Draws the random numbers that the draws of columns i, i + 1, ... combine.
  template <class Lanes, class Word, int Turns>
  [[gnu::always_inline]] HCOMP_HD void draw(Lanes (&drawn)[words][Turns], std::size_t i) const {
    int const bits = grid.shift + 1, in_lane = 16 / bits;
    Lanes mask;
    fill(mask, (1u << bits) - 1);
    for (int k = 0, counter = 0; k < words; ++counter) {
      philox_words<Word> counters[Turns];
      HCOMP_UNROLL
      for (int turn = 0; turn < Turns; ++turn) {
        auto& [c0, c1, c2, c3] = counters[turn];
        std::uint64_t const first = i + static_cast<std::size_t>(turn) * (sizeof(Lanes) / 8);
        if constexpr (is_word<Lanes>)
          c0 = static_cast<std::uint32_t>(first);
        else
          count_from(c0, first);
        c0 = c0 << 2 | static_cast<std::uint32_t>(counter);
        repeat(c1, index);
        repeat(c2, lowest_rank);
        repeat(c3, weight << 2 | domain_of_hops);
      }
      philox4x32(counters, key);
      for (int half = 0; half < 2; ++half)
        for (int at = 0; at < in_lane && k < words; ++at, ++k)
          for (int turn = 0; turn < Turns; ++turn) {
            auto const& [c0, c1, c2, c3] = counters[turn];
            Lanes lanes;
            pack(lanes, half ? c2 : c0, half ? c3 : c1);
            shift_down(lanes, at * bits);
            drawn[k][turn] = lanes & mask;
          }
    }
  }

  /// Joins two Philox words to one of 64 bits, in every lane pair.
  template <class Lanes, class Word>
  [[gnu::always_inline]] HCOMP_HD static void pack(Lanes& to, Word const& low, Word const& high) {
    if constexpr (is_word<Lanes>) {
      to = std::uint64_t{high} << 32 | low;
    } else {
      Word const both = (low & 0xffffffffu) | (high << 32);
      memcpy(&to, &both, sizeof(to));
    }
  }
  template <class Lanes>
  [[gnu::always_inline]] HCOMP_HD static void get(Lanes& a, std::byte const* bytes, std::size_t i) {
    if constexpr (is_word<Lanes>)
      a = load_aligned<std::uint64_t>(bytes, i);
    else
      memcpy(&a, bytes + i * 8, sizeof(a));
  }
  template <class Lanes>
  [[gnu::always_inline]] HCOMP_HD static void put(std::byte* bytes, std::size_t i, Lanes const& a) {
    if constexpr (is_word<Lanes>)
      store_aligned(bytes, i, a);
    else
      memcpy(bytes + i * 8, &a, sizeof(a));
  }

  /// @param i  index of the column's 64-bit word in every row
  template <class Lanes, class Word, int Turns>
  [[gnu::always_inline]] HCOMP_HD void column(std::size_t i) const {
    Lanes drawn[words][Turns], now[Turns] = {}, rest[Turns] = {};
    draw<Lanes, Word, Turns>(drawn, i);
    int const bits = grid.bits;
    int filled = 0;      // bits used of the current narrow row
    std::size_t at = 0;  // index of that row
    Lanes one, mask, margin, back;
    fill(one, 1);
    fill(mask, (1u << bits) - 1);
    fill(margin, static_cast<std::uint32_t>(grid.margin));
    fill(back, static_cast<std::uint32_t>((1 << (grid.shift - 1)) - grid.margin + 1));
#if defined(__CUDA_ARCH__)
#pragma unroll 1  // unrolling all rows needs too many registers per worker
#endif
    for (int r = 0; r < rows; ++r) {
      int which = 0;
      while (!((r + 1) >> which & 1)) ++which;
      bool const spills = filled + bits > 16, ends = filled + bits >= 16;
      HCOMP_UNROLL
      for (int turn = 0; turn < Turns; ++turn) {
        std::size_t const word = i + static_cast<std::size_t>(turn) * (sizeof(Lanes) / 8);
        std::size_t const wide = static_cast<std::size_t>(r) * (row / 8) + word,
                          narrow = at * (row / 8) + word;
        Lanes& draw = now[turn];
        draw = draw ^ drawn[which][turn];
        Lanes q;
        if constexpr (Step == hop_step::widen) {
          get(q, from, narrow);
          shift_down(q, filled);
          if (spills) {
            Lanes upper;
            get(upper, from, narrow + row / 8);
            shift_up(upper, 16 - filled);
            q = q | upper;
          }
          q = q & mask;
        } else {
          get(q, from, wide);
          clamp(q, -grid.margin, grid.most);
          Lanes u = draw;
          shift_down(u, 1);
          add(q, u);
          add(q, margin);
          shift_down(q, grid.shift);
        }
        if constexpr (Step == hop_step::narrow) {
          Lanes low = q;
          shift_up(low, filled);
          rest[turn] = rest[turn] | low;
          if (ends) {
            put(to, narrow, rest[turn]);
            rest[turn] = q;
            shift_down(rest[turn], 16 - filled);
          }
        } else {
          Lanes up = draw;
          add(up, one);
          shift_down(up, 1);
          shift_up(q, grid.shift);
          add(q, back);
          add(q, ~up);  // with the 1 in `back` this subtracts `up`
          put(to, wide, q);
        }
      }
      filled += bits;
      if (ends) filled -= 16, ++at;
    }
  }
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail::thc
