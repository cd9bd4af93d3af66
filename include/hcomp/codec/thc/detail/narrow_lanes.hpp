#pragma once
/// @file
/// Converts lanes of 8 or 16 bits to the fewest bits that their numbers need, and back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail::thc {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Identity mapping of the numbers in lanes.
struct same_numbers {
  HCOMP_HD std::uint64_t word(std::uint64_t w) const { return w; }
  bool has_vectors() const { return true; }
  template <class Vector> [[gnu::always_inline]] void vector(Vector&) const {}
};

/// Lanes form a matrix whose number of rows equals the bits per lane; every column is one lane
/// wide. Narrowing keeps the columns and reduces the rows. The only operation shifts complete rows,
/// in 64-bit words.
///
/// One step: to = (to or 0) | (shifted row & mask). The row at `from` is mapped by `numbers` before
/// each of its lanes is shifted.
template <class Numbers = same_numbers> struct row_shift {
  std::byte* to;
  std::byte const* from;
  std::size_t bytes;   ///< of a row, a multiple of 8
  int left;            ///< shift in bits; negative: to the right
  std::uint64_t mask;  ///< applied after shifting
  bool adds;           ///< whether to combine with the content of `to`
  Numbers numbers = {};

  HCOMP_HD void word(std::size_t i) const {
    auto const w = numbers.word(load_word(from, i));
    std::uint64_t const moved = (left < 0 ? w >> -left : w << left) & mask;
    store_word(to, i, adds ? load_word(to, i) | moved : moved);
  }
  template <class Group> HCOMP_HD void by(Group group) const {
    for (auto i = static_cast<std::size_t>(group.worker()); i < bytes / 8; i += Group::workers)
      word(i);
  }

#if !defined(__CUDA_ARCH__)
  void by(simd_group) const {
    if (numbers.has_vectors())
      run_at(best_simd_level(), *this);
    else
      by(serial_group{});
  }

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vector = words<Lanes / 2>;
    std::size_t const whole = bytes / sizeof(vector) * sizeof(vector);
    if (left >= 0)
      for (std::size_t at = 0; at < whole; at += sizeof(vector)) move<vector, true>(at);
    else
      for (std::size_t at = 0; at < whole; at += sizeof(vector)) move<vector, false>(at);
    for (std::size_t i = whole / 8; i < bytes / 8; ++i) word(i);
    return false;
  }

 private:
  template <class Vector, bool Left> [[gnu::always_inline]] void move(std::size_t at) const {
    Vector w, present{};
    std::memcpy(&w, from + at, sizeof(w));
    numbers.vector(w);
    if (adds) std::memcpy(&present, to + at, sizeof(present));
    w = present | ((Left ? w << left : w >> -left) & mask);
    std::memcpy(to + at, &w, sizeof(w));
  }
#endif
};

/// Mask of the bits first to end - 1 of every lane of a word.
template <class Lane> HCOMP_HD constexpr std::uint64_t lane_bits(int first, int end) {
  std::uint64_t const one = ~std::uint64_t{0} / ((std::uint64_t{1} << 8 * sizeof(Lane)) - 1);
  return one * ((std::uint64_t{1} << end) - (std::uint64_t{1} << first));
}

// Workers in warps process one column each: all rows of a word. Each row is loaded and stored once,
// and loaded before the first one is needed.

inline constexpr int rows_at_once = 8;

/// Returns the first row and moves the remaining rows up, so that rows stay in registers with
/// constant indices.
HCOMP_HD inline std::uint64_t next_of(std::uint64_t (&rows)[rows_at_once]) {
  std::uint64_t const first = rows[0];
  HCOMP_UNROLL
  for (int k = 0; k + 1 < rows_at_once; ++k) rows[k] = rows[k + 1];
  return first;
}

template <class Lane, class Numbers, HasWarps Group>
HCOMP_HD void narrow_columns(Group group, std::byte const* lanes, std::size_t row, int bits,
                             std::byte* out, Numbers const& numbers) {
  constexpr int all = 8 * sizeof(Lane);
  for (auto i = static_cast<std::size_t>(group.worker()); i < row / 8; i += Group::workers) {
    std::uint64_t word = 0;  // of the narrow row
    for (int first = 0; first < all; first += rows_at_once) {
      std::uint64_t rows[rows_at_once];
      HCOMP_UNROLL
      for (int k = 0; k < rows_at_once; ++k)
        rows[k] = load_word(lanes + static_cast<std::size_t>(first + k) * row, i);
#if defined(__CUDA_ARCH__)
#pragma unroll 1  // unrolling all rows needs too many registers per worker
#endif
      for (int r = first; r < first + rows_at_once; ++r) {
        auto const w = numbers.word(next_of(rows));
        int const at = r * bits % all, left = all - at;
        word |= w << at & lane_bits<Lane>(at, all);
        if (bits < left) continue;
        store_word(out + static_cast<std::size_t>(r * bits / all) * row, i, word);
        word = bits > left ? w >> left & lane_bits<Lane>(0, bits - left) : 0;
      }
    }
  }
}
template <class Lane, class Numbers, HasWarps Group>
HCOMP_HD void widen_columns(Group group, std::byte const* in, std::size_t row, int bits,
                            std::byte* lanes, Numbers const& numbers) {
  constexpr int all = 8 * sizeof(Lane);
  for (auto i = static_cast<std::size_t>(group.worker()); i < row / 8; i += Group::workers) {
    std::uint64_t word = 0;  // of the wide row
    int r = 0, has = 0;      // its number, and its bits so far
    for (int first = 0; first < bits; first += rows_at_once) {
      std::uint64_t rows[rows_at_once] = {};
      HCOMP_UNROLL
      for (int k = 0; k < rows_at_once; ++k)
        if (first + k < bits)
          rows[k] = load_word(in + static_cast<std::size_t>(first + k) * row, i);
      for (int q = first; q < bits && q < first + rows_at_once; ++q) {
        std::uint64_t const narrow = next_of(rows);
        for (int at = 0, taken; at < all; at += taken) {
          taken = bits - has < all - at ? bits - has : all - at;
          word |= (narrow >> at & lane_bits<Lane>(0, taken)) << has;
          has += taken;
          if (has < bits) continue;
          store_word(lanes + static_cast<std::size_t>(r) * row, i, numbers.word(word));
          word = 0;
          has = 0;
          ++r;
        }
      }
    }
  }
}

/// Packs lanes into `bits` bits each.
/// @param count    lanes, a multiple of 64
/// @param bits     1 to the bits of a lane; higher bits of the numbers must be 0
/// @param out      count / 8 * bits bytes; must not overlap the lanes
/// @param numbers  mapping of the numbers, applied before packing
template <class Lane, class Numbers = same_numbers, class Group>
HCOMP_HD void narrow_lanes(Group group, std::byte const* lanes, std::size_t count, int bits,
                           std::byte* out, Numbers const& numbers = {}) {
  constexpr int all = 8 * sizeof(Lane);
  std::size_t const row = count / 8;
  if constexpr (HasWarps<Group>) {
    narrow_columns<Lane>(group, lanes, row, bits, out, numbers);
  } else {
    for (int r = 0; r < all; ++r) {
      std::byte const* const from = lanes + static_cast<std::size_t>(r) * row;
      std::byte* const to = out + static_cast<std::size_t>(r * bits / all) * row;
      int const at = r * bits % all, left = all - at;
      row_shift<Numbers>{to, from, row, at, lane_bits<Lane>(at, all), at > 0, numbers}.by(group);
      if (bits > left)
        row_shift<Numbers>{to + row, from,   row, -left, lane_bits<Lane>(0, bits - left),
                           false,    numbers}
            .by(group);
    }
  }
  group.sync();
}

/// The inverse of narrow_lanes.
/// @param numbers  mapping of the numbers, applied after unpacking
template <class Lane, class Numbers = same_numbers, class Group>
HCOMP_HD void widen_lanes(Group group, std::byte const* in, std::size_t count, int bits,
                          std::byte* lanes, Numbers const& numbers = {}) {
  constexpr int all = 8 * sizeof(Lane);
  [[maybe_unused]] constexpr std::uint64_t whole = ~std::uint64_t{0};
  std::size_t const row = count / 8;
  if constexpr (HasWarps<Group>) {
    widen_columns<Lane>(group, in, row, bits, lanes, numbers);
  } else {
    for (int r = 0; r < all; ++r) {
      std::byte* const to = lanes + static_cast<std::size_t>(r) * row;
      std::byte const* const from = in + static_cast<std::size_t>(r * bits / all) * row;
      int const at = r * bits % all, left = all - at;
      row_shift<>{to, from, row, -at, lane_bits<Lane>(0, bits < left ? bits : left), false}.by(
          group);
      if (bits > left)
        row_shift<>{to, from + row, row, left, lane_bits<Lane>(left, bits), true}.by(group);
      if constexpr (!std::is_same_v<Numbers, same_numbers>)
        row_shift<Numbers>{to, to, row, 0, whole, false, numbers}.by(group);
    }
  }
  group.sync();
}

#pragma GCC diagnostic pop

}  // namespace hcomp::detail::thc
