#pragma once
/// @file
/// Device version of LHC sketches: the steps of lhc_peel.hpp and lhc_sketch.hpp as work on runs of
/// an index, of cells and of claims, for many groups.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/codec/sparse/detail/lhc_peel.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>

namespace hcomp::detail {

// ---- Peeling ----

/// A sketch being peeled, split into parts of its cell words. A part is small, so that many groups
/// have work.
struct peeled_graph {
  lhc::cell_layout layout;
  lhc::peel_graph graph;

  static constexpr std::size_t part_words = 32;
  HCOMP_HD std::size_t parts() const {
    return (lhc::open_words(layout) + part_words - 1) / part_words;
  }
  HCOMP_HD item_range part(std::size_t p) const {
    std::size_t const first = p * part_words, left = lhc::open_words(layout) - first;
    return {first, first + (left < part_words ? left : part_words)};
  }
};

struct open_parts {
  peeled_graph peeled;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t p) const {
    auto const [first, end] = peeled.part(p);
    lhc::open_cells(group, peeled.layout, peeled.graph, first, end);
  }
};

struct enter_runs {
  peeled_graph peeled;
  std::uint64_t const* words;
  std::size_t values;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    lhc::enter_marked(beside_others(group), peeled.layout, peeled.graph, words, run.word,
                      run.word + run.words);
  }
};

/// Step 1 of a round: counts the claims in each part.
struct find_claims_of_parts {
  peeled_graph peeled;
  std::uint32_t* counts;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t p) const {
    auto const [first, end] = peeled.part(p);
    auto const found = group.sum(lhc::find_claims(group, peeled.layout, peeled.graph, first, end));
    if (group.worker() == 0) counts[p] = static_cast<std::uint32_t>(found);
  }
};

/// Exclusive prefix sum of the counts over the parts, offset by the claims of earlier rounds;
/// stores the total of the round. One group.
struct add_up_claims {
  peeled_graph peeled;
  std::size_t round;
  std::uint32_t* counts;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    std::uint64_t before = round == 0 ? 0 : peeled.graph.rounds[round - 1];
    for (std::size_t first = 0; first < peeled.parts(); first += Group::workers) {
      std::size_t const p = first + static_cast<std::size_t>(group.worker());
      auto const sums = group.running_sum(p < peeled.parts() ? counts[p] : 0);
      if (p < peeled.parts()) counts[p] = static_cast<std::uint32_t>(before + sums.before);
      before += sums.all;
    }
    if (group.worker() == 0) peeled.graph.rounds[round] = static_cast<std::uint32_t>(before);
  }
};

/// Step 2 of a round: writes the claims of each part.
struct write_claims_of_parts {
  peeled_graph peeled;
  std::uint32_t const* begins;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t p) const {
    auto const [first, end] = peeled.part(p);
    lhc::write_claims(group, peeled.graph, first, end, begins[p]);
  }
};

/// One of `shares` equal parts of claims begin to end - 1; the last ones may be smaller.
struct claims_share {
  std::size_t begin, end;

  HCOMP_HD claims_share(std::size_t first, std::size_t last, std::size_t share,
                        std::size_t shares) {
    std::size_t const each = (last - first + shares - 1) / shares;
    begin = first + each * share < last ? first + each * share : last;
    end = begin + each < last ? begin + each : last;
  }
};

/// Step 3 of a round: removes the claimed values, one share per block.
struct take_claimed_shares {
  peeled_graph peeled;
  std::size_t round, shares;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    auto const* const after = peeled.graph.rounds + round;
    claims_share const mine(round == 0 ? 0 : after[-1], after[0], i, shares);
    lhc::take_claimed(beside_others(group), peeled.layout, peeled.graph, mine.begin, mine.end);
  }
};

// ---- Values that do not peel ----

/// Copies an index, and clears another one.
struct copy_and_clear_runs {
  std::uint64_t const* words;
  std::size_t values;
  std::uint64_t* copy;
  std::uint64_t* empty;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers) {
      copy[run.word + w] = words[run.word + w];
      empty[run.word + w] = 0;
    }
  }
};

struct move_claimed_shares {
  lhc::value_claim const* claims;
  std::size_t count, shares;
  std::uint64_t* from;
  std::uint64_t* to;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    claims_share const mine(0, count, i, shares);
    lhc::move_claimed(beside_others(group), claims, mine.begin, mine.end, from, to);
  }
};

// ---- Sketches ----

/// Writes zeros to `count` lanes or values.
template <class T> struct clear_runs {
  T* out;
  std::size_t count;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run(r, count).for_each(group, [&](std::size_t i) { out[i] = 0; });
  }
};

/// Adds marked values to the cells of a cleared sketch.
template <class Lane> struct sketch_runs {
  sparse::lane_numbers<Lane> numbers;
  lhc::cell_layout layout;
  std::uint64_t const* words;
  std::size_t values;
  float const* x;
  Lane* cells;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    lhc::add_marked(beside_others(group), layout, words, run.word, run.word + run.words, cells,
                    [&](std::uint32_t value) { return numbers.lane(x[value]); });
  }
};

/// The number of nonzero cells of a sketch: recovered so far, and in total.
struct used_cells {
  std::uint64_t read, all;
};

/// One round of recovery: copies the values of claims to their packed positions.
template <class Lane> struct recover_shares {
  sparse::lane_numbers<Lane> numbers;
  lhc::cell_layout layout;
  lhc::value_claim const* claims;
  std::size_t begin, end, shares;
  packed_places places;
  Lane* cells;
  float* packed;
  used_cells* used;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    claims_share const mine(begin, end, i, shares);
    std::uint64_t count = 0;
    lhc::recover_round(beside_others(group), layout, claims, mine.begin, mine.end, cells,
                       [&](std::size_t k, Lane lane) {
                         count += lane != 0;
                         packed[places.place_of(claims[k].value)] = numbers.value(lane);
                       });
    count = group.sum(count);
    if (group.worker() == 0) fetch_add(beside_others(group), &used->read, count);
  }
};

template <class Lane> struct count_used_runs {
  Lane const* cells;
  std::size_t count;
  used_cells* used;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    std::uint64_t mine = 0;
    sparse_run(r, count).for_each(group, [&](std::size_t c) { mine += cells[c] != 0; });
    mine = group.sum(mine);
    if (group.worker() == 0) fetch_add(beside_others(group), &used->all, mine);
  }
};

}  // namespace hcomp::detail
