#pragma once
/// @file
/// Sums in a fixed number of bits on their way: rounded at random, by draws that sender and
/// receiver share.

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

/// Which multiples of 2^shift stand for the sums of one weight, so that `bits` bits are enough.
///
/// A sum S has a lane of 16 bits as a number with a sign. A draw of shift + 1 bits, half of which
/// is u, rounded down, and with c = 0 or 1 rounded up, moves it before it is cut off and back
/// after:
///
///     q = floor((S + margin + u) / 2^shift)        S' = q 2^shift + 2^(shift - 1) - u - c - margin
///
/// S' - S is 0 on average and has the variance (4^shift + 2) / 12, whatever S is. Rounding S' again
/// by the same draw gives S'. That S' may be beyond the ends of what weights times levels can give,
/// 0 and `largest`, is what the margin is for: nothing is moved back to them, which would be a
/// bias, unless roundings have added up to more than the margin.
struct hop_grid {
  int bits = 0;
  int shift = 0;  ///< 0: sums have no more bits, and stay as they are
  int margin = 0;
  int most = 0;  ///< sums beyond -margin and most are moved there

  static constexpr int lane_bits = 15;  ///< and a sign
  /// Of the 2^bits numbers, how many are kept free at either end.
  HCOMP_HD static constexpr int spare(int bits) { return bits <= 5 ? 0 : (1 << (bits - 5)) - 1; }
  /// In units of 2^shift.
  HCOMP_HD static constexpr int steps(int bits) { return (1 << bits) - 1 - 2 * spare(bits); }
  /// No larger sum fits.
  HCOMP_HD static constexpr int room(int bits) { return steps(bits) << (lane_bits - bits); }

  /// By how much of itself the largest sum is exceeded at most, at either end, however sums of
  /// rounded sums came about: of each the margin and half a step, and steps * 2^shift is less than
  /// twice its largest. Such sums still fit into lanes.
  HCOMP_HD static constexpr double excess(int bits) {
    return static_cast<double>(2 * spare(bits) + 1) / steps(bits);
  }

  hop_grid() = default;
  /// @param bits     4 to 14
  /// @param largest  of all sums of the weight; what is beyond room(bits) does no harm
  HCOMP_HD constexpr hop_grid(int bits, std::uint64_t largest) : bits(bits) {
    if (largest >> bits == 0) return;
    int const end =
        largest < static_cast<std::uint64_t>(room(bits)) ? static_cast<int>(largest) : room(bits);
    shift = 1;
    while (steps(bits) << shift < end) ++shift;
    margin = spare(bits) << shift;
    most = end + margin;
  }
};

/// In the last word of the Philox counters of these draws, below a weight of at least 2.
inline constexpr std::uint32_t domain_of_hops = 3;

/// What is done with lanes that lie in 16 rows, as in narrow_lanes.
enum class hop_step { narrow, widen, round };

/// A step with columns of lanes: narrow_lanes and widen_lanes with rounding in between, or rounding
/// where the lanes are.
///
/// The draws of the 16 lanes of a column are 5 random numbers, exclusive or, in 16 combinations: any
/// two of them are independent, as all draws of different columns are, so variances add up as if
/// all were. For that one counter of Philox per column is enough where up to 4 bits are dropped.
template <hop_step Step> struct hop_rounding {
  hop_grid grid;
  std::uint64_t key;
  std::uint32_t index, lowest_rank, weight;
  std::byte const* from;
  std::byte* to;
  std::size_t row;  ///< bytes, a multiple of 8

  static constexpr int rows = 16;
  static constexpr int words = 5;  ///< that draws are combinations of

  /// @param header  of the block: the same ranks and place, the same draws
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
    constexpr int turns = 16 / Lanes;  // of 64 bytes, which are fetched together
    using vector = hcomp::words<Lanes / 2>;
    std::size_t const whole = row / 64 * 8;
    for (std::size_t i = 0; i < whole; i += 8)
      column<typename simd_vector<std::uint16_t, 2 * Lanes>::type, vector, turns>(i);
    for (std::size_t i = whole; i < row / 8; ++i) column<std::uint64_t, std::uint32_t, 1>(i);
    return false;
  }
#endif

 private:
  /// What the draws of columns i, i + 1, ... are combined of.
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

  /// Two words of Philox as one of 64 bits, side by side.
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

  /// @param i  the first word of 64 bits of every row
  template <class Lanes, class Word, int Turns>
  [[gnu::always_inline]] HCOMP_HD void column(std::size_t i) const {
    Lanes drawn[words][Turns], now[Turns] = {}, rest[Turns] = {};
    draw<Lanes, Word, Turns>(drawn, i);
    int const bits = grid.bits;
    int filled = 0;      // bits of the narrow row at hand that are used
    std::size_t at = 0;  // of that row
    Lanes one, mask, margin, back;
    fill(one, 1);
    fill(mask, (1u << bits) - 1);
    fill(margin, static_cast<std::uint32_t>(grid.margin));
    fill(back, static_cast<std::uint32_t>((1 << (grid.shift - 1)) - grid.margin + 1));
#if defined(__CUDA_ARCH__)
#pragma unroll 1  // all rows at once take more registers than a worker should
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
          add(q, ~up);  // with the 1 in `back` that is -up
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
