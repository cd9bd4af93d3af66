#pragma once
/// @file
/// The three cells of a value in a count sketch, one in each of three tables.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>
#include <type_traits>

namespace hcomp::detail::lhc {

/// Values are hashed in rows of 32 neighbours that occupy neighbouring cells, so one hash and one
/// or two cache lines serve a row. A random draw rotates each row in each table. Without rotation,
/// the 32 columns would be 32 small sketches, and small sketches fail more often.
///
///     row = value / 32, column = value % 32
///     cell = (table * rows + hash mod rows) * 32 + (column + turn) % 32
///
/// Source: Li et al., arXiv 2402.07529, without separate tables and rotation.
struct cell_layout {
  /// Hashes per value, and number of tables. Three need the fewest cells: 1.2218 per value.
  /// Source: Dietzfelbinger and Walzer, Dense peelable random uniform hypergraphs, ESA 2019.
  static constexpr int hashes = 3;
  static constexpr std::uint32_t width = 32;  ///< values per row

  std::uint64_t seed = 0;
  std::uint32_t rows = 1;  ///< rows of cells in one table

  HCOMP_HD constexpr std::size_t size() const { return std::size_t{hashes} * rows * width; }

  /// The cells of the values of one row.
  struct row {
    std::uint32_t first[hashes];
    std::uint32_t draws;  ///< 5 bits per table for the rotation, 1 bit per table for the sign

    HCOMP_HD std::uint32_t cell(int table, std::uint32_t value) const {
      return first[table] + ((value + (draws >> (5 * table))) % width);
    }
    HCOMP_HD bool negative(int table) const { return (draws >> (15 + table) & 1) != 0; }
  };
  HCOMP_HD row row_of(std::uint32_t value) const {
    std::uint64_t const a = mix(seed + (value / width + 1) * 0x9e3779b97f4a7c15u);
    std::uint64_t const b = mix(a + 0x9e3779b97f4a7c15u);
    auto const start = [this](std::uint64_t hash, std::uint32_t table) {
      auto const at = static_cast<std::uint32_t>((hash & 0xffffffffu) * rows >> 32);
      return (table * rows + at) * width;
    };
    return {{start(a, 0), start(a >> 32, 1), start(b >> 32, 2)}, static_cast<std::uint32_t>(b)};
  }
};

/// Whether no cell overflows. Integers wrap, and their sums are read correctly. A float that
/// becomes infinite is lost, together with all values in its cells. Below 2^70 a cell can hold all
/// of 2^32 values of 2^24 ranks.
/// @param exponent  the largest of all ranks, as floats store it
template <class Lane> constexpr bool cells_hold(std::uint32_t exponent) {
  return std::is_integral_v<Lane> || exponent <= 126 + 70;
}

}  // namespace hcomp::detail::lhc
