#pragma once
/// @file
/// What sketches of LHC do on a device, as work on runs of an index, of cells and of claims: the
/// steps of lhc_peel.hpp and lhc_sketch.hpp, each by many groups.

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

/// The sketch that is peeled, and in which words of cells a group looks for claims: few, so that
/// there are many groups.
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

/// First step of a round; how many claims there are in each part.
struct find_claims_of_parts {
  peeled_graph peeled;
  std::uint32_t* counts;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t p) const {
    auto const [first, end] = peeled.part(p);
    auto const found = group.sum(lhc::find_claims(group, peeled.layout, peeled.graph, first, end));
    if (group.worker() == 0) counts[p] = static_cast<std::uint32_t>(found);
  }
};

/// Of each part how many claims there are before its own, those of earlier rounds among them; and
/// how many after the round. One group.
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

/// Second step.
struct write_claims_of_parts {
  peeled_graph peeled;
  std::uint32_t const* begins;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t p) const {
    auto const [first, end] = peeled.part(p);
    lhc::write_claims(group, peeled.graph, first, end, begins[p]);
  }
};

/// One of equal shares of claims begin to end - 1; the last ones may have less.
struct claims_share {
  std::size_t begin, end;

  HCOMP_HD claims_share(std::size_t first, std::size_t last, std::size_t share,
                        std::size_t shares) {
    std::size_t const each = (last - first + shares - 1) / shares;
    begin = first + each * share < last ? first + each * share : last;
    end = begin + each < last ? begin + each : last;
  }
};

/// Third step.
struct take_claimed_shares {
  peeled_graph peeled;
  std::size_t round, shares;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    auto const* const after = peeled.graph.rounds + round;
    claims_share const mine(round == 0 ? 0 : after[-1], after[0], i, shares);
    lhc::take_claimed(beside_others(group), peeled.layout, peeled.graph, mine.begin, mine.end);
  }
};

// ---- What does not peel ----

/// A copy of an index, and one that marks nothing.
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

/// Zeros, of `count` lanes or values.
template <class T> struct clear_runs {
  T* out;
  std::size_t count;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run(r, count).for_each(group, [&](std::size_t i) { out[i] = 0; });
  }
};

/// Marked values into cells that are clear.
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

/// How many cells of a sketch are not zero: those that were read, and all in the end.
struct used_cells {
  std::uint64_t read, all;
};

/// One round of reading: the values of the claims to where all marked values are packed.
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
