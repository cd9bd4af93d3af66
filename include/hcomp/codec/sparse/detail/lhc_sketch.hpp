#pragma once
/// @file
/// The count sketch of LHC. Every marked value is added to three cells, so sketches of several
/// ranks can be added cell by cell.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail::lhc {

/// Distribution of cell updates over workers. Integers may be added in any order, so each worker
/// processes some of the values. Float sums depend on the order, so each worker processes all
/// values, but only its own tables. The order in each cell then equals that of a single worker.
template <class Lane, class Group> struct cell_share {
  static constexpr bool by_values = std::is_integral_v<Lane> || Group::workers == 1;

  std::size_t first, step;
  int table, table_step;

  HCOMP_HD explicit cell_share(Group group)
      : first(by_values ? static_cast<std::size_t>(group.worker()) : 0),
        step(by_values ? Group::workers : 1),
        table(by_values ? 0 : group.worker()),
        table_step(by_values ? 1 : Group::workers) {}
};

/// cells[at] += value, or cells[at] -= value if `negative`.
template <class Group, class Lane>
HCOMP_HD void add_to_cell(Group group, Lane* cells, std::uint32_t at, Lane value, bool negative) {
  Lane const change = negative ? -value : value;
  if constexpr (std::is_integral_v<Lane>)
    fetch_add(group, cells + at, change);
  else
    cells[at] += change;
}

/// Calls f(row, value) for the values that word w of the index marks.
template <class Layout, class F>
HCOMP_HD void for_each_mark(Layout const& layout, std::uint64_t const* words, std::size_t w,
                            F const& f) {
  for (std::uint32_t half = 0; half < 64; half += 32) {
    auto marks = static_cast<std::uint32_t>(words[w] >> half);
    if (marks == 0) continue;
    auto const start = static_cast<std::uint32_t>(w * 64 + half);
    auto const row = layout.row_of(start);
    for (; marks != 0; marks &= marks - 1)
      f(row, start + static_cast<std::uint32_t>(lowest_one(marks)));
  }
}

/// Adds the values that words first to end - 1 mark to the cells of a sketch.
/// @param layout  cell_layout, or a type with the same members
/// @param get     get(value) returns the summand: a float, or an unsigned integer, which wraps
template <class Group, class Layout, class Lane, class Get>
HCOMP_HD void add_marked(Group group, Layout const& layout, std::uint64_t const* words,
                         std::size_t first, std::size_t end, Lane* cells, Get const& get) {
  cell_share<Lane, Group> const mine(group);
  for (std::size_t w = first + mine.first; w < end; w += mine.step)
    for_each_mark(layout, words, w, [&](auto const& row, std::uint32_t value) {
      Lane const lane = get(value);
      if (lane == 0) return;  // marked only by other ranks
      for (int t = mine.table; t < Layout::hashes; t += mine.table_step)
        add_to_cell(group, cells, row.cell(t, value), lane, row.negative(t));
    });
}

/// cells = the sketch of the marked values.
template <class Group, class Layout, class Lane, class Get>
HCOMP_HD void sketch_marked(Group group, Layout const& layout, std::uint64_t const* words,
                            std::size_t count, Lane* cells, Get const& get) {
  for (auto c = static_cast<std::size_t>(group.worker()); c < layout.size(); c += Group::workers)
    cells[c] = 0;
  group.sync();
  add_marked(group, layout, words, 0, count, cells, get);
  group.sync();
}

}  // namespace hcomp::detail::lhc
