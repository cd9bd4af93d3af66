#pragma once
/// @file
/// Blocks of error_bounded_fallback that several lanes of a warp process together.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_part.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_format.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_lanes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

/// Properties of a block that determine its mode, and the words stored before its integers.
struct fallback_facts {
  std::uint64_t zigzags;
  std::uint32_t not_zero, doubles;  ///< one bit per value

  HCOMP_HD fallback_mode mode(std::size_t n) const {
    if (doubles != 0) return {fallback_mode::doubles};
    return fallback_mode::of(zigzags, static_cast<std::size_t>(ones(not_zero)), n);
  }
};

/// The values of a block that one lane holds. Payloads are those of fallback_block.
/// @tparam Place  block_part
template <class T, class Place> struct fallback_part {
  static constexpr unsigned own = Place::own;

  fallback_number<T> number[own];  ///< 0 after the last value

  HCOMP_HD void set(fallback_grid<T> const& grid, T const (&x)[own], fallback_findings& found) {
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j)
      fallback_findings::raise(found.error, number[j].set(grid, static_cast<double>(x[j])));
  }
  HCOMP_HD void add(fallback_grid<T> const& grid, fallback_part const& other,
                    fallback_findings& found) {
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) number[j].add(grid, other.number[j], found);
  }
  /// Notes the errors of rounding the values to T. Returns false if an integer exceeds `most`
  /// steps.
  HCOMP_HD bool note_rounding(fallback_grid<T> const& grid, std::uint64_t most,
                              fallback_findings& found) const {
    constexpr std::uint64_t exact = std::uint64_t{1} << (sizeof(T) == 4 ? 24 : 53);
    std::uint64_t largest = 0;
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) {
      std::uint64_t const steps = number[j].steps();
      largest = steps > largest ? steps : largest;
      if (number[j].is_double) number[j].note_rounding_of_double(found);
    }
    fallback_roundings<T> of_integers;
    of_integers.note(largest);
    if (largest > exact) {
      HCOMP_UNROLL
      for (unsigned j = 0; j < own; ++j) of_integers.note(number[j].steps());
    }
    of_integers.note_in(grid, found);
    return largest <= most;
  }
  template <class Group> HCOMP_HD fallback_facts look(Group group, Place const& mine) const {
    fallback_facts facts{};
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) {
      facts.zigzags |= fallback_mode::zigzag(number[j].q);
      facts.not_zero |= std::uint32_t{number[j].q != 0} << mine.number(j);
      facts.doubles |= std::uint32_t{number[j].is_double} << mine.number(j);
    }
    return {mine.or_of(group, facts.zigzags), mine.or_of(group, facts.not_zero),
            mine.or_of(group, facts.doubles)};
  }

  /// Writes the payload from bit `at` of the chunk on.
  /// @param mode  facts.mode()
  template <class Group>
  HCOMP_HD void put(Group group, Place const& mine, fallback_mode mode, fallback_facts const& facts,
                    std::byte* chunk, std::uint32_t at) const {
    if (mode.bits() == 0) return;
    std::uint32_t const marked = mode.has_doubles() ? facts.doubles : facts.not_zero;
    if (mode.byte >= fallback_mode::sparse && mine.part() == 0)
      put_bits(group, chunk, at, marked, 32);
    std::uint64_t q[own];
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j)
      q[j] = mine.number(j) < mine.n ? without_sign(number[j].q, mode.bits()) : 0;
    if (mode.is_sparse()) {
      HCOMP_UNROLL
      for (unsigned j = 0; j < own; ++j)
        if (q[j] != 0)
          put_bits(group, chunk, at + sparse(mine, mode, marked, j), q[j], mode.bits());
    } else {
      put_numbers(group, mine, q, mode.width(), chunk, mode.has_doubles() ? at + 32 : at);
    }
  }
  /// Reads the payload of a valid chunk from bit `at` on.
  HCOMP_HD void take(Place const& mine, fallback_mode mode, std::byte const* chunk,
                     std::uint32_t at) {
    std::uint32_t marked = 0;
    if (mode.byte >= fallback_mode::sparse) marked = bits_of_chunk<std::uint32_t>(chunk, at, 32);
    int const bits = mode.bits();
    std::uint32_t const integers = mode.has_doubles() ? at + 32 : at;
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) {
      unsigned const i = mine.number(j);
      bool const is_marked = (marked >> i & 1) != 0;
      std::uint32_t const from = mode.is_sparse() ? at + sparse(mine, mode, marked, j)
                                                  : integers + i * static_cast<unsigned>(bits);
      number[j] = {0, mode.has_doubles() && is_marked};
      if (mode.is_sparse() ? is_marked : i < mine.n)
        number[j].q = with_sign(bits_of_chunk<std::uint64_t>(chunk, from, bits), bits);
    }
  }

 private:
  /// Bit offset of value j of the lane in a sparse payload.
  HCOMP_HD static std::uint32_t sparse(Place const& mine, fallback_mode mode,
                                       std::uint32_t not_zero, unsigned j) {
    std::uint32_t const before = not_zero & ((std::uint32_t{1} << mine.number(j)) - 1);
    return 32 + static_cast<unsigned>(ones(before)) * static_cast<unsigned>(mode.bits());
  }
};

}  // namespace hcomp::detail::error_bounded
