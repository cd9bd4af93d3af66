#pragma once
/// @file
/// Peeling: in which order, and from which cells, the values of a sketch can be read. That depends
/// on the index alone, so it is found out before any value is sent.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/lhc_cells.hpp>
#include <hcomp/codec/detail/lhc_lanes.hpp>
#include <hcomp/codec/detail/lhc_sketch.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// A value, and the cell in which it is alone when its turn comes.
struct lhc_claim {
  std::uint32_t value, cell;
};

/// After so many rounds what is left counts as unpeelable. Just above the threshold a billion
/// values take some hundreds.
inline constexpr std::size_t lhc_most_rounds = 1000;

/// What the lanes that peel share.
struct lhc_graph {
  std::uint64_t* cells;   ///< one per cell: how many values are in it, above their sum
  std::uint64_t* open;    ///< a bit per cell: to be looked at in the next round
  std::uint64_t* shared;  ///< one per lane
  lhc_claim* claims;      ///< one per value, in the order of rounds and in these of cells
  std::uint32_t* rounds;  ///< how many claims there are after each round; lhc_most_rounds
};

/// One value's share of a cell's word. Only a cell with one value has 1 above bit 40, and below it
/// is that value: the sum of others carries upwards at most.
HCOMP_HD constexpr std::uint64_t lhc_one(std::uint32_t value) {
  return std::uint64_t{1} << 40 | value;
}
HCOMP_HD constexpr bool lhc_is_alone(std::uint64_t cell) { return cell >> 40 == 1; }

/// All marked values in the graph, all its cells open.
template <class Group, class Layout>
HCOMP_HD void begin_peeling(Group group, Layout const& layout, std::uint64_t const* words,
                            std::size_t count, lhc_graph const& graph) {
  std::size_t const cells = layout.size();
  for (auto w = static_cast<std::size_t>(group.lane()); w < (cells + 63) / 64; w += Group::lanes) {
    std::size_t const here = cells - w * 64 < 64 ? cells - w * 64 : 64;
    graph.open[w] = ~std::uint64_t{0} >> (64 - here);
    memset(graph.cells + w * 64, 0, here * sizeof(std::uint64_t));
  }
  group.sync();
  for (auto w = static_cast<std::size_t>(group.lane()); w < count; w += Group::lanes)
    for_each_mark(layout, words, w, [&](auto const& row, std::uint32_t value) {
      for (int t = 0; t < Layout::hashes; ++t)
        fetch_add(group, graph.cells + row.cell(t, value), lhc_one(value));
    });
  group.sync();
}

/// Whether `cell` is the first of those in which its value is alone: a value is claimed once.
template <class Layout>
HCOMP_HD bool lhc_claims(Layout const& layout, lhc_graph const& graph, std::uint32_t cell) {
  std::uint64_t const word = graph.cells[cell];
  if (!lhc_is_alone(word)) return false;
  auto const value = static_cast<std::uint32_t>(word);
  auto const row = layout.row_of(value);
  for (int t = 0; t < Layout::hashes; ++t) {
    std::uint32_t const other = row.cell(t, value);
    if (other == cell) return true;
    if (lhc_is_alone(graph.cells[other])) return false;
  }
  return false;
}

/// How far peeling came.
struct lhc_progress {
  std::size_t claims, rounds;
};

/// Claims values round by round, until none is alone in a cell. What is claimed in a round, and in
/// which order, depends only on what was there before it: however many lanes work, and whoever is
/// first, the claims are the same.
/// Source: Jiang, Mitzenmacher and Thaler, Parallel peeling algorithms, SPAA 2014.
template <class Group, class Layout>
HCOMP_HD lhc_progress peel(Group group, Layout const& layout, lhc_graph const& graph) {
  auto const part = part_of(group, (layout.size() + 63) / 64);
  std::size_t claimed = 0, round = 0;
  for (; round < lhc_most_rounds; ++round) {
    std::uint64_t mine = 0;
    for (std::size_t w = part.first; w < part.end; ++w) {  // of the open cells, those that claim
      std::uint64_t claims = 0;
      for (std::uint64_t open = graph.open[w]; open != 0; open &= open - 1)
        if (lhc_claims(
                layout, graph,
                static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(lowest_one(open))))
          claims |= open & (~open + 1);
      graph.open[w] = claims;
      mine += static_cast<std::uint64_t>(ones(claims));
    }
    auto const counts = count_together(group, mine, graph.shared);
    if (counts.all == 0) break;
    std::size_t at = claimed + counts.before;
    for (std::size_t w = part.first; w < part.end; ++w) {
      for (std::uint64_t open = graph.open[w]; open != 0; open &= open - 1) {
        auto const cell =
            static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(lowest_one(open));
        graph.claims[at++] = {static_cast<std::uint32_t>(graph.cells[cell]), cell};
      }
      graph.open[w] = 0;
    }
    group.sync();
    std::size_t const end = claimed + counts.all;
    for (auto k = claimed + static_cast<std::size_t>(group.lane()); k < end; k += Group::lanes) {
      auto const value = graph.claims[k].value;
      auto const row = layout.row_of(value);
      for (int t = 0; t < Layout::hashes; ++t) {
        std::uint32_t const cell = row.cell(t, value);
        std::uint64_t const left =
            fetch_add(group, graph.cells + cell, ~lhc_one(value) + 1) - lhc_one(value);
        if (lhc_is_alone(left))
          add_bits(group, graph.open + cell / 64, std::uint64_t{1} << cell % 64);
      }
    }
    claimed = end;
    if (group.lane() == 0) graph.rounds[round] = static_cast<std::uint32_t>(claimed);
    group.sync();
  }
  return {claimed, round};
}

/// put(k, lane) for every claim k, in its turn, with what its value adds up to. In the end `cells`
/// holds what stays unclaimed, and in the cells that were claimed what was read there.
/// @param cells  the sum of the ranks' sketches
template <class Group, class Layout, class Lane, class Put>
HCOMP_HD void recover(Group group, Layout const& layout, lhc_claim const* claims,
                      std::uint32_t const* claims_after, std::size_t rounds, Lane* cells,
                      Put const& put) {
  lhc_share<Lane, Group> const mine(group);
  std::size_t begin = 0;
  for (std::size_t r = 0; r < rounds; ++r) {
    std::size_t const end = claims_after[r];
    for (std::size_t k = begin + mine.first; k < end; k += mine.step) {
      auto const [value, from] = claims[k];
      auto const row = layout.row_of(value);
      int of = 0;  // the table it is read from; nobody changes that cell in this round or later
      while (row.cell(of, value) != from) ++of;
      Lane const lane = row.negative(of) ? -cells[from] : cells[from];
      if (mine.table == 0) put(k, lane);
      for (int t = mine.table; t < Layout::hashes; t += mine.table_step)
        if (t != of) add_to_cell(group, cells, row.cell(t, value), lane, !row.negative(t));
    }
    begin = end;
    group.sync();
  }
}

}  // namespace hcomp::detail
