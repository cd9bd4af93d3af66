#pragma once
/// @file
/// The cells of an invertible Bloom lookup table, and the algorithm that reads them without an
/// index.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/core/random.hpp>
#include <span>
#include <vector>

namespace hcomp::detail::iblt {

/// Lanes of a cell. All of them wrap. If several ranks have a value, each of them adds its key and
/// check.
struct table_cell {
  std::uint32_t count;   ///< number of ranks' values in the cell
  std::uint32_t keys;    ///< sum of the positions of these values in the vector
  std::uint32_t checks;  ///< sum of a hash of each position
  std::uint32_t sum;     ///< sum of the values, in fixed point

  void subtract(table_cell const& other) {
    count -= other.count;
    keys -= other.keys;
    checks -= other.checks;
    sum -= other.sum;
  }
  friend bool operator==(table_cell const&, table_cell const&) = default;
};
inline constexpr std::size_t lanes_per_cell = 4;
static_assert(sizeof(table_cell) == lanes_per_cell * sizeof(std::uint32_t));

inline std::uint32_t check_of(std::uint64_t seed, std::uint32_t value) {
  return static_cast<std::uint32_t>(mix(~seed + (value + 1) * 0x9e3779b97f4a7c15u));
}

/// Calls f(cell) for the value's cells in all three tables.
template <class F>
void for_each_cell(lhc::cell_layout const& layout, std::uint32_t value, F const& f) {
  auto const row = layout.row_of(value);
  for (int t = 0; t < lhc::cell_layout::hashes; ++t) f(row.cell(t, value));
}

/// A value and its sum over the ranks.
struct value_claim {
  std::uint32_t value, sum;
};

/// Number of the ranks' values; a value counts once per rank on which it is not zero.
struct table_progress {
  std::uint64_t all, left;  ///< in the table, and still in it
  std::size_t strange;      ///< cells that are not empty
};

/// Reads all readable values. A cell that holds a single value, of one rank or of several, gives
/// it, and the value is then removed from its other cells. Cells are visited in a fixed order that
/// does not depend on their content, so it is the same on all ranks.
/// @tparam Checked  false: uses only counts and keys, which is occasionally wrong
/// @param values    number of values in the vector; keys are below it. values * ranks < 2^32
template <bool Checked = true>
table_progress peel(lhc::cell_layout const& layout, std::size_t values, std::uint32_t ranks,
                    std::span<table_cell> cells, std::vector<value_claim>& claims) {
  claims.clear();
  std::uint64_t all = 0;
  for (std::size_t c = 0; c < cells.size() / lhc::cell_layout::hashes; ++c) all += cells[c].count;
  std::uint64_t left = all;
  std::vector<std::uint32_t> open;
  for (std::uint32_t start = 0; start < cells.size(); ++start) {
    open.push_back(start);
    while (!open.empty()) {
      std::uint32_t const at = open.back();
      open.pop_back();
      table_cell const cell = cells[at];
      // A wrongly read value may make counts wrap. `left` decreases in each iteration, so the loop
      // ends.
      if (cell.count == 0 || cell.count > ranks || cell.count > left) continue;
      if (cell.keys % cell.count != 0) continue;
      std::uint32_t const value = cell.keys / cell.count;
      if (value >= values) continue;
      if (Checked && cell.checks != cell.count * check_of(layout.seed, value)) continue;
      bool here = false;
      for_each_cell(layout, value, [&](std::uint32_t c) { here = here || c == at; });
      if (!here) continue;
      for_each_cell(layout, value, [&](std::uint32_t c) {
        cells[c].subtract(cell);
        if (c != at) open.push_back(c);
      });
      left -= cell.count;
      claims.push_back({value, cell.sum});
    }
  }
  auto const empty = std::count(cells.begin(), cells.end(), table_cell{});
  return {all, left, cells.size() - static_cast<std::size_t>(empty)};
}

}  // namespace hcomp::detail::iblt
