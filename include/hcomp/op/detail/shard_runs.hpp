#pragma once
/// @file
/// Device work of the owners of shards of a sparse vector, in addition to sparse_runs.hpp: adds
/// marked values of other ranks and finds values that are not finite.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>

namespace hcomp::detail {

/// The first index word of shard s, if `shards` shards split `words` words; for s = shards, the
/// end.
HCOMP_HD constexpr std::size_t first_word_of_shard(std::size_t words, std::size_t shards,
                                                   std::size_t s) {
  return words * s / shards;
}

/// begins[s] = number of values marked before shard s; begins[shards] = all marked values. One
/// group.
struct count_before_shards {
  std::uint64_t const* words;
  std::uint32_t const* marks_before;  ///< from count_shares
  std::size_t count;                  ///< number of words
  std::size_t shards;
  std::uint64_t* begins;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    for (auto s = static_cast<std::size_t>(group.worker()); s <= shards; s += Group::workers) {
      std::size_t const word = first_word_of_shard(count, shards, s);
      if (word < count)
        begins[s] = marks_before[word];
      else
        begins[s] = count == 0 ? 0
                               : marks_before[count - 1] +
                                     static_cast<std::uint64_t>(ones(words[count - 1]));
    }
    group.sync();
  }
};

/// Initialises sums to 0 and the union of marks to this rank's marks.
template <class Lane> struct begin_sums {
  std::uint64_t const* own;
  std::size_t values;
  std::uint64_t* words;
  Lane* sums;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers)
      words[run.word + w] = own[run.word + w];
    run.for_each(group, [&](std::size_t i) { sums[i] = 0; });
  }
};

/// Adds this rank's values. Unmarked values are zeros, which change no bit of a sum.
template <class Lane> struct add_own_part {
  sparse::lane_numbers<Lane> numbers;
  std::size_t values;
  float const* x;
  Lane* sums;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run(r, values).for_each(group, [&](std::size_t i) { sums[i] += numbers.lane(x[i]); });
  }
};

/// Adds the marked values of another rank.
template <class Lane> struct add_part {
  packed_places part;
  std::size_t values;
  Lane const* lanes;
  std::uint64_t* words;  ///< union of the marks of all ranks
  Lane* sums;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers)
      words[run.word + w] |= part.words[run.word + w];
    part.for_each(group, run, [&](std::size_t i, bool is_marked, std::size_t place) {
      if (is_marked) sums[i] += lanes[place];
    });
  }
};

/// Index words (64 values) that contain NaN or infinity.
struct nonfinite_words {
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

  std::uint64_t first = nowhere, count = 0;

  void merge(nonfinite_words const& other) {
    first = other.first < first ? other.first : first;
    count += other.count;
  }
};

/// Finds them in every run. Workers read adjacent values, and check words only if a value is not
/// finite.
struct find_nonfinite_runs {
  float const* x;
  std::size_t values;
  nonfinite_words* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    bool all_finite = true;
    run.for_each(group, [&](std::size_t i) { all_finite &= is_finite(x[i]); });
    nonfinite_words all;
    if (group.any(!all_finite)) {
      std::uint32_t first = 0;  // counted from the end
      std::uint64_t count = 0;
      for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers)
        if (!is_finite_word(run, w)) {
          auto const behind = static_cast<std::uint32_t>(run_words - w);
          first = behind > first ? behind : first;
          ++count;
        }
      all.first = run.word + run_words - largest_in(group, first, 8);
      all.count = group.sum(count);
    }
    if (group.worker() == 0) found[r] = all;
    group.sync();
  }

 private:
  HCOMP_HD bool is_finite_word(sparse_run const& run, std::size_t w) const {
    std::size_t const first = run.first + 64 * w,
                      end = run.first + static_cast<std::size_t>(run.values);
    bool finite = true;
    for (std::size_t i = first; i < end && i < first + 64; ++i) finite &= is_finite(x[i]);
    return finite;
  }
};

}  // namespace hcomp::detail
