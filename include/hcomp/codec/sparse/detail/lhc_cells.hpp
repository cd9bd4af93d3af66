#pragma once
/// @file
/// Where a count sketch keeps a value: three cells, one in each of three tables.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>
#include <type_traits>

namespace hcomp::detail::lhc {

/// Values are hashed in rows of 32 neighbours, which lie in neighbouring cells, so that one hash
/// and one cache line or two serve them all. Each row is turned by a draw of its own in each table:
/// otherwise the 32 columns would be 32 small sketches, the smaller the likelier to fail.
///
///     row = value / 32, column = value % 32
///     cell = (table * rows + hash mod rows) * 32 + (column + turn) % 32
///
/// Source: Li et al., arXiv 2402.07529, where tables are not apart and rows not turned.
struct cell_layout {
  /// Per value, and as many tables. With three, fewest cells are needed: 1.2218 per value.
  /// Source: Dietzfelbinger and Walzer, Dense peelable random uniform hypergraphs, ESA 2019.
  static constexpr int hashes = 3;
  static constexpr std::uint32_t width = 32;  ///< values of a row

  std::uint64_t seed = 0;
  std::uint32_t rows = 1;  ///< of cells, in one table

  HCOMP_HD constexpr std::size_t size() const { return std::size_t{hashes} * rows * width; }

  /// The places of the values of one row.
  struct row {
    std::uint32_t first[hashes];
    std::uint32_t draws;  ///< 5 bits for the turn in each table, 1 for the sign in each

    HCOMP_HD std::uint32_t cell(int table, std::uint32_t value) const {
      return first[table] + ((value + (draws >> (5 * table))) % width);
    }
    HCOMP_HD bool negative(int table) const { return (draws >> (15 + table) & 1) != 0; }
  };
  HCOMP_HD row make_codec_entry(std::uint32_t value) const {
    std::uint64_t const a = mix(seed + (value / width + 1) * 0x9e3779b97f4a7c15u);
    std::uint64_t const b = mix(a + 0x9e3779b97f4a7c15u);
    auto const start = [this](std::uint64_t hash, std::uint32_t table) {
      auto const at = static_cast<std::uint32_t>((hash & 0xffffffffu) * rows >> 32);
      return (table * rows + at) * width;
    };
    return {{start(a, 0), start(a >> 32, 1), start(b >> 32, 2)}, static_cast<std::uint32_t>(b)};
  }
};

/// Whether no cell overflows. Integers wrap, and what is read from them is right. A float that
/// becomes infinite is lost, and so is what shares its cells. Below 2^70 a cell could hold all of
/// 2^32 values of 2^24 ranks.
/// @param exponent  the largest of all ranks, as floats store it
template <class Lane> constexpr bool cells_hold(std::uint32_t exponent) {
  return std::is_integral_v<Lane> || exponent <= 126 + 70;
}

}  // namespace hcomp::detail::lhc
