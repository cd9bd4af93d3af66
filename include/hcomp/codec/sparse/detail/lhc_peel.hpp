#pragma once
/// @file
/// Peeling determines the order in which, and the cells from which, the values of a sketch can be
/// read. It depends on the index alone, so ranks compute it before they send values.
///
/// Each step works on any part of a sketch, an index or the claims. A single group processes the
/// complete range, as in `peel` and `recover`. Alternatively many groups process a part each, and
/// synchronize before the next step.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::lhc {

/// A value, and the cell that holds only this value when it is read. Loaded and stored as one unit.
struct alignas(8) value_claim {
  std::uint32_t value, cell;
};

/// Maximum number of rounds; values left after them count as unpeelable. Just above the threshold,
/// a billion values take several hundred rounds.
inline constexpr std::size_t most_rounds = 1000;

/// State shared by all workers that peel.
struct peel_graph {
  std::uint64_t* cells;   ///< one per cell: the number of its values in the upper bits, their sum
                          ///< below
  std::uint64_t* open;    ///< one bit per cell: to be examined in the next round
  value_claim* claims;    ///< one per value, ordered by rounds, then by cells
  std::uint32_t* rounds;  ///< number of claims after each round; most_rounds entries
};

/// Contribution of one value to a cell's word. A cell with a single value has 1 in the bits from 40
/// on and this value below; with several values, their sum can only carry into the upper bits.
HCOMP_HD constexpr std::uint64_t one_value(std::uint32_t value) {
  return std::uint64_t{1} << 40 | value;
}
HCOMP_HD constexpr bool is_alone(std::uint64_t cell) { return cell >> 40 == 1; }

/// Number of 64-bit words with one bit per cell.
template <class Layout> HCOMP_HD std::size_t open_words(Layout const& layout) {
  return (layout.size() + 63) / 64;
}

/// Clears and opens the cells of words first to end - 1.
template <class Group, class Layout>
HCOMP_HD void open_cells(Group group, Layout const& layout, peel_graph const& graph,
                         std::size_t first, std::size_t end) {
  auto const worker = static_cast<std::size_t>(group.worker());
  std::size_t const cells = layout.size(), last = end * 64 < cells ? end * 64 : cells;
  for (std::size_t w = first + worker; w < end; w += Group::workers) {
    std::size_t const here = cells - w * 64 < 64 ? cells - w * 64 : 64;
    graph.open[w] = ~std::uint64_t{0} >> (64 - here);
  }
  for (std::size_t c = first * 64 + worker; c < last; c += Group::workers) graph.cells[c] = 0;
}

/// Adds the values that words first to end - 1 of the index mark to their cells.
template <class Group, class Layout>
HCOMP_HD void enter_marked(Group group, Layout const& layout, peel_graph const& graph,
                           std::uint64_t const* words, std::size_t first, std::size_t end) {
  for (std::size_t w = first + static_cast<std::size_t>(group.worker()); w < end;
       w += Group::workers)
    for_each_mark(layout, words, w, [&](auto const& row, std::uint32_t value) {
      for (int t = 0; t < Layout::hashes; ++t)
        fetch_add(group, graph.cells + row.cell(t, value), one_value(value));
    });
}

/// Initializes the graph with all marked values, and opens all cells.
template <class Group, class Layout>
HCOMP_HD void begin_peeling(Group group, Layout const& layout, std::uint64_t const* words,
                            std::size_t count, peel_graph const& graph) {
  open_cells(group, layout, graph, 0, open_words(layout));
  group.sync();
  enter_marked(group, layout, graph, words, 0, count);
  group.sync();
}

/// Whether `cell` is the first of the cells that hold only its value: a value is claimed once.
template <class Layout>
HCOMP_HD bool claims_its_value(Layout const& layout, peel_graph const& graph, std::uint32_t cell) {
  std::uint64_t const word = graph.cells[cell];
  if (!is_alone(word)) return false;
  auto const value = static_cast<std::uint32_t>(word);
  auto const row = layout.row_of(value);
  for (int t = 0; t < Layout::hashes; ++t) {
    std::uint32_t const other = row.cell(t, value);
    if (other == cell) return true;
    if (is_alone(graph.cells[other])) return false;
  }
  return false;
}

/// First step of a round: of the open cells of words first to end - 1, only those that claim their
/// value stay open. Returns the number of claims that this worker found.
template <class Group, class Layout>
HCOMP_HD std::uint64_t find_claims(Group group, Layout const& layout, peel_graph const& graph,
                                   std::size_t first, std::size_t end) {
  std::uint64_t found = 0;
  if constexpr (HasWarps<Group>) {
    auto* const open = reinterpret_cast<std::byte*>(graph.open + first);
    auto const claims = [&](int i) {
      std::size_t const cell = first * 64 + static_cast<std::size_t>(i);
      return (graph.open[cell / 64] >> cell % 64 & 1) != 0 &&
             claims_its_value(layout, graph, static_cast<std::uint32_t>(cell));
    };
    auto const is_claim = [](int, bool claim) { return claim; };
    auto const put = [&](int h, std::uint32_t bits) {
      store_aligned(open, static_cast<std::size_t>(h), bits);
      found += static_cast<std::uint64_t>(ones(bits));
    };
    vote_on(group, static_cast<int>((end - first) * 64), claims, is_claim, put);
  } else {
    for (std::size_t w = first + static_cast<std::size_t>(group.worker()); w < end;
         w += Group::workers) {
      std::uint64_t claims = 0;
      for (std::uint64_t open = graph.open[w]; open != 0; open &= open - 1)
        if (claims_its_value(
                layout, graph,
                static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(lowest_one(open))))
          claims |= open & (~open + 1);
      graph.open[w] = claims;
      found += static_cast<std::uint64_t>(ones(claims));
    }
  }
  return found;
}

/// Second step: writes the claims of these words in cell order, from claims[at] on, and closes the
/// cells.
template <class Group>
HCOMP_HD void write_claims(Group group, peel_graph const& graph, std::size_t first, std::size_t end,
                           std::size_t at) {
  for (std::size_t row = first; row < end; row += Group::workers) {
    std::size_t const w = row + static_cast<std::size_t>(group.worker());
    std::uint64_t open = w < end ? graph.open[w] : 0;
    auto const sums = group.running_sum(static_cast<std::uint64_t>(ones(open)));
    std::size_t place = at + sums.before;
    if (open != 0) graph.open[w] = 0;
    for (; open != 0; open &= open - 1) {
      auto const cell =
          static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(lowest_one(open));
      graph.claims[place++] = {static_cast<std::uint32_t>(graph.cells[cell]), cell};
    }
    at += sums.all;
  }
}

/// Third step: removes the values of claims begin to end - 1 from their cells, and opens cells that
/// now hold a single value.
template <class Group, class Layout>
HCOMP_HD void take_claimed(Group group, Layout const& layout, peel_graph const& graph,
                           std::size_t begin, std::size_t end) {
  for (std::size_t k = begin + static_cast<std::size_t>(group.worker()); k < end;
       k += Group::workers) {
    auto const value = graph.claims[k].value;
    auto const row = layout.row_of(value);
    for (int t = 0; t < Layout::hashes; ++t) {
      std::uint32_t const cell = row.cell(t, value);
      std::uint64_t const left =
          fetch_add(group, graph.cells + cell, ~one_value(value) + 1) - one_value(value);
      if (is_alone(left)) add_bits(group, graph.open + cell / 64, std::uint64_t{1} << cell % 64);
    }
  }
}

/// Progress of peeling.
struct peel_progress {
  std::size_t claims, rounds;
};

/// Claims values round by round until no cell holds a single value. The claims of a round and their
/// order depend only on the state before the round. They are therefore the same for any number of
/// workers and any interleaving.
/// Source: Jiang, Mitzenmacher and Thaler, Parallel peeling algorithms, SPAA 2014.
template <class Group, class Layout>
HCOMP_HD peel_progress peel(Group group, Layout const& layout, peel_graph const& graph) {
  std::size_t const words = open_words(layout);
  std::size_t claimed = 0, round = 0;
  for (; round < most_rounds; ++round) {
    std::uint64_t const more = group.sum(find_claims(group, layout, graph, 0, words));
    if (more == 0) break;
    group.sync();
    write_claims(group, graph, 0, words, claimed);
    group.sync();
    take_claimed(group, layout, graph, claimed, claimed + more);
    claimed += more;
    if (group.worker() == 0) graph.rounds[round] = static_cast<std::uint32_t>(claimed);
    group.sync();
  }
  return {claimed, round};
}

/// The table from which a claim's value is read. From the claim's round on, no other worker changes
/// its cell there.
template <class Layout> HCOMP_HD int table_of(typename Layout::row const& row, value_claim claim) {
  int table = 0;
  for (int t = 1; t < Layout::hashes; ++t)
    if (row.cell(t, claim.value) == claim.cell) table = t;
  return table;
}
/// The value read there: in the claim's round, when it is removed from its other cells, or later.
template <class Row, class Lane>
HCOMP_HD Lane read_claim(Row const& row, int table, value_claim claim, Lane const* cells) {
  return row.negative(table) ? -cells[claim.cell] : cells[claim.cell];
}

/// Calls put(k, lane) with the value's sum for every claim k of one round, and removes it from its
/// other cells.
template <class Group, class Layout, class Lane, class Put>
HCOMP_HD void recover_round(Group group, Layout const& layout, value_claim const* claims,
                            std::size_t begin, std::size_t end, Lane* cells, Put const& put) {
  cell_share<Lane, Group> const mine(group);
  for (std::size_t k = begin + mine.first; k < end; k += mine.step) {
    auto const claim = claims[k];
    auto const row = layout.row_of(claim.value);
    int const of = table_of<Layout>(row, claim);
    Lane const lane = read_claim(row, of, claim, cells);
    if (mine.table == 0) put(k, lane);
    for (int t = mine.table; t < Layout::hashes; t += mine.table_step)
      if (t != of) add_to_cell(group, cells, row.cell(t, claim.value), lane, !row.negative(t));
  }
}

/// Calls put(k, lane) for every claim k, in order. Finally `cells` holds the unclaimed rest, and
/// claimed cells hold the value that was read from them.
/// @param cells  the sum of the ranks' sketches
template <class Group, class Layout, class Lane, class Put>
HCOMP_HD void recover(Group group, Layout const& layout, value_claim const* claims,
                      std::uint32_t const* claims_after, std::size_t rounds, Lane* cells,
                      Put const& put) {
  std::size_t begin = 0;
  for (std::size_t r = 0; r < rounds; ++r) {
    recover_round(group, layout, claims, begin, claims_after[r], cells, put);
    begin = claims_after[r];
    group.sync();
  }
}

/// Moves the marks of claims begin to end - 1 from one index to the other.
template <class Group>
HCOMP_HD void move_claimed(Group group, value_claim const* claims, std::size_t begin,
                           std::size_t end, std::uint64_t* from, std::uint64_t* to) {
  for (std::size_t k = begin + static_cast<std::size_t>(group.worker()); k < end;
       k += Group::workers) {
    std::size_t const w = claims[k].value / 64;
    std::uint64_t const bit = std::uint64_t{1} << claims[k].value % 64;
    fetch_add(group, from + w, ~bit + 1);
    add_bits(group, to + w, bit);
  }
}

}  // namespace hcomp::detail::lhc
