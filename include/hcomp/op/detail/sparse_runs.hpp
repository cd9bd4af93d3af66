#pragma once
/// @file
/// Device work of sparse all-reduce, as work on runs of values: builds, counts and uses the index
/// of index_words.hpp, with coalesced reads and writes.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/detail/block_order.hpp>

namespace hcomp::detail {

/// The size of a run, the work of one group.
inline constexpr std::size_t run_words = 128, run_values = 64 * run_words;

constexpr std::size_t runs_of(std::size_t values) { return (values + run_values - 1) / run_values; }

/// One run of a vector and its index.
struct sparse_run {
  std::size_t word, words;  ///< the first word, and the number of words
  std::size_t first;        ///< first value
  int values;

  HCOMP_HD sparse_run(std::size_t r, std::size_t all)
      : word(r * run_words),
        words(sparse::index_words(all) - word < run_words ? sparse::index_words(all) - word
                                                          : run_words),
        first(r * run_values),
        values(static_cast<int>(all - first < run_values ? all - first : run_values)) {}

  /// Calls f(value) for the values of the run, shared among the workers.
  template <class Group, class F> HCOMP_HD void for_each(Group group, F const& f) const {
    for (int i = group.worker(); i < values; i += Group::workers)
      f(first + static_cast<std::size_t>(i));
    group.sync();
  }
};

/// Marks nonzero values, one bit each, and stores the largest exponent of each run.
struct mark_runs {
  float const* x;
  std::size_t values;
  std::uint64_t* words;  ///< two copies: one becomes the union over the ranks
  std::uint64_t* own;
  std::uint32_t* exponents;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    float const* const here = x + run.first;
    std::uint32_t largest = 0;  // magnitude as bits
    if constexpr (HasWarps<Group>) {
      auto* const union_here = reinterpret_cast<std::byte*>(words + run.word);
      auto* const own_here = reinterpret_cast<std::byte*>(own + run.word);
      auto const look = [&](int i) { return here[i]; };
      auto const is_not_zero = [&](int, float value) {
        std::uint32_t const magnitude = same_bits<std::uint32_t>(value) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
        return magnitude != 0;
      };
      vote_on(group, run.values, look, is_not_zero, [&](int h, std::uint32_t bits) {
        store_aligned(union_here, static_cast<std::size_t>(h), bits);
        store_aligned(own_here, static_cast<std::size_t>(h), bits);
      });
    } else {
      for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers) {
        int const left = run.values - static_cast<int>(w) * 64;
        words[run.word + w] = sparse::nonzero_word(here + w * 64, left < 64 ? left : 64, largest);
        own[run.word + w] = words[run.word + w];
      }
    }
    std::uint32_t const exponent = largest_in(group, largest >> 23, 8);
    if (group.worker() == 0) exponents[r] = exponent;
    group.sync();
  }
};

/// Writes the largest exponent over all runs behind the index. One group.
struct close_marks {
  std::uint32_t const* exponents;
  std::size_t runs;
  std::uint64_t* words;  ///< exponent_words

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    std::uint32_t mine = 0;
    for_some_loaded(
        group, runs, [&](std::size_t r) { return std::uint32_t{exponents[r]}; },
        [&](std::size_t, std::uint32_t seen) { mine = seen > mine ? seen : mine; });
    std::uint32_t const largest = largest_in(group, mine, 8);
    for (auto i = static_cast<std::size_t>(group.worker()); i < sparse::exponent_words;
         i += Group::workers)
      words[i] = i == largest / 64 ? std::uint64_t{1} << largest % 64 : 0;
    group.sync();
  }
};

/// Fingerprint of an index: one term per run, computed from the run's fingerprint; the sum of the
/// terms is then closed.
HCOMP_HD inline std::uint64_t print_term(std::uint64_t print, std::size_t r) {
  return mix(print + (r + 1) * 0x9e3779b97f4a7c15u);
}
HCOMP_HD inline std::uint64_t closed_print(std::uint64_t terms, std::int32_t exponent) {
  return mix(terms + static_cast<std::uint64_t>(exponent));
}

/// index_summary::print computed on the host.
inline std::uint64_t print_of_index(std::uint64_t const* words, std::size_t values) {
  std::uint64_t terms = 0;
  for (std::size_t r = 0; r < runs_of(values); ++r) {
    sparse_run const run(r, values);
    auto const* const here = reinterpret_cast<std::byte const*>(words + run.word);
    terms += print_term(fingerprint(simd_group{}, here, run.words * sizeof(std::uint64_t)), r);
  }
  return closed_print(terms, sparse::largest_of(words + sparse::index_words(values)));
}

/// A summary over all runs.
struct index_summary {
  std::uint64_t terms;  ///< sum of the fingerprint terms
  std::uint64_t marked;
  std::int32_t exponent;    ///< the largest exponent; -1: no value is marked
  std::uint32_t wrong_run;  ///< 1 + number of an invalid run; 0: none

  std::uint64_t print() const { return closed_print(terms, exponent); }
};

/// Resets the state of count_shares.
struct begin_counting {
  clear_words order;
  std::uint64_t const* exponents;  ///< stored behind the index
  index_summary* summary;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    order(group, i);
    if (i == 0 && group.worker() == 0) *summary = {0, 0, sparse::largest_of(exponents), 0};
  }
};

/// marks_before[w] = number of values marked before word w; also computes the summary. Each group
/// takes `share_runs` runs and adds the counts of all runs before them meanwhile.
struct count_shares {
  static constexpr std::size_t share_runs = 4;

  std::uint64_t const* words;
  std::uint64_t const* own;
  std::size_t values;
  block_order order;
  std::uint32_t* marks_before;
  index_summary* summary;

  static constexpr std::size_t shares(std::size_t values) {
    return (runs_of(values) + share_runs - 1) / share_runs;
  }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t place) const {
    std::size_t const share = order.number(group, place), end = (share + 1) * share_runs;
    std::size_t marked;
    if constexpr (WorksByWarps<Group>)
      marked = count_by_warps(group, share);
    else
      marked = count_in_turn(group, share);
    if (group.worker() == 0 && end >= runs_of(values)) summary->marked = marked;
    group.sync();
  }

 private:
  /// Returns the number of values marked before the end of the share.
  template <class Group>
  HCOMP_HD std::uint64_t count_in_turn(Group group, std::size_t share) const {
    std::size_t const first = share * share_runs, all = runs_of(values);
    std::uint64_t const begin = order.sum_of_done(share);
    std::uint64_t before = begin;
    for (std::size_t r = first; r < all && r < first + share_runs; ++r) {
      sparse_run const run(r, values);
      auto const mine = own_items(group, run.words);
      std::uint64_t marked = 0, sum = 0, wrong = 0;
      for (std::size_t w = mine.first; w < mine.end; ++w) {
        std::uint64_t const word = words[run.word + w];
        wrong |= wrong_bits(run, w, word);
        marked += static_cast<std::uint64_t>(ones(word));
        sum += mixed_word(word, w);
      }
      auto const sums = group.running_sum(marked);
      std::uint64_t here = before + sums.before;
      for (std::size_t w = mine.first; w < mine.end; ++w) {
        marks_before[run.word + w] = static_cast<std::uint32_t>(here);
        here += static_cast<std::uint64_t>(ones(words[run.word + w]));
      }
      before += sums.all;
      add_findings(group, run, r, wrong, sum);
    }
    order.sum_before(group, share, before - begin);
    return before;
  }
  /// The same, one run per warp.
  template <class Group>
  HCOMP_HD std::uint64_t count_by_warps(Group group, std::size_t share) const {
    static_assert(Group::warps == share_runs);
    constexpr std::size_t rows = run_words / 32;
    auto const warp = group.own_warp(0);
    auto const lane = static_cast<std::size_t>(warp.worker());
    std::size_t const r = share * share_runs + static_cast<std::size_t>(group.warp());
    bool const has_run = r < runs_of(values);
    sparse_run const run(has_run ? r : 0, values);
    std::uint64_t marked = 0, sum = 0, wrong = 0;  // marked: 16 bits per row
    HCOMP_UNROLL
    for (std::size_t k = 0; k < rows; ++k) {
      std::size_t const w = 32 * k + lane;
      if (!has_run || w >= run.words) continue;
      std::uint64_t const word = words[run.word + w];
      wrong |= wrong_bits(run, w, word);
      marked |= static_cast<std::uint64_t>(ones(word)) << 16 * k;
      sum += mixed_word(word, w);
    }
    auto const in_rows = warp.running_sum(marked);
    std::uint64_t in_run = 0;
    HCOMP_UNROLL
    for (std::size_t k = 0; k < rows; ++k) in_run += in_rows.all >> 16 * k & 0xffffu;
    auto const in_share = group.running_sum(lane == 31 ? in_run : 0);
    std::uint64_t const before_share = order.sum_before(group, share, in_share.all);
    std::uint64_t before = before_share + in_share.before;
    HCOMP_UNROLL
    for (std::size_t k = 0; k < rows; ++k) {
      std::size_t const w = 32 * k + lane;
      if (has_run && w < run.words)
        marks_before[run.word + w] =
            static_cast<std::uint32_t>(before + (in_rows.before >> 16 * k & 0xffffu));
      before += in_rows.all >> 16 * k & 0xffffu;
    }
    if (has_run) add_findings(warp, run, r, wrong, sum);
    return before_share + in_share.all;
  }

  /// Invalid bits of word w of a run: own marks that the union lacks, and bits past the last value.
  HCOMP_HD std::uint64_t wrong_bits(sparse_run const& run, std::size_t w,
                                    std::uint64_t word) const {
    int const left = run.values - static_cast<int>(w) * 64;
    return (own[run.word + w] & ~word) | (left < 64 ? word >> left : 0);
  }
  /// Adds the findings of this worker in its words of run r.
  template <class Group>
  HCOMP_HD void add_findings(Group group, sparse_run const& run, std::size_t r, std::uint64_t wrong,
                             std::uint64_t sum) const {
    if (wrong != 0)
      raise_to(beside_others(group), &summary->wrong_run, static_cast<std::uint32_t>(r) + 1);
    std::uint64_t const print = closed_fingerprint(group, sum, run.words * sizeof(std::uint64_t));
    if (group.worker() == 0) fetch_add(beside_others(group), &summary->terms, print_term(print, r));
  }
};

/// The marked values of a vector and their packed positions.
struct packed_places {
  std::uint64_t const* words;
  std::uint32_t const* marks_before;

  HCOMP_HD bool is_marked(std::size_t value) const {
    return (words[value / 64] >> value % 64 & 1) != 0;
  }
  /// The packed position of a marked value.
  HCOMP_HD std::size_t place_of(std::size_t value) const {
    std::size_t const w = value / 64;
    std::uint64_t const below = (std::uint64_t{1} << value % 64) - 1;
    return marks_before[w] + static_cast<std::size_t>(ones(words[w] & below));
  }

  static constexpr std::size_t list_bytes = run_values * sizeof(std::uint16_t);
  /// Lists the marked values of a run in order, as offsets within the run, for all workers. Returns
  /// their packed positions.
  /// @param list  shared by the workers, list_bytes bytes
  template <class Group>
  HCOMP_HD item_range list_marked(Group group, sparse_run const& run, std::uint16_t* list) const {
    std::size_t const last = run.word + run.words - 1;
    item_range const places{marks_before[run.word],
                            marks_before[last] + static_cast<std::size_t>(ones(words[last]))};
    for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers) {
      std::uint16_t* to = list + (marks_before[run.word + w] - places.first);
      for (std::uint64_t marks = words[run.word + w]; marks != 0; marks &= marks - 1)
        *to++ = static_cast<std::uint16_t>(w * 64 + static_cast<std::size_t>(lowest_one(marks)));
    }
    group.sync();
    return places;
  }

  /// Calls f(value, is_marked, packed position if marked) for the values of a run.
  template <class Group, class F>
  HCOMP_HD void for_each(Group group, sparse_run const& run, F const& f) const {
    if constexpr (HasWarps<Group>) {
      for_each_of_warps(group, run, f);
      group.sync();
    } else {
      run.for_each(group, [&](std::size_t value) { f(value, is_marked(value), place_of(value)); });
    }
  }

 private:
  /// Each lane loads half a word for all lanes.
  template <class Group, class F>
  HCOMP_HD void for_each_of_warps(Group group, sparse_run const& run, F const& f) const {
    auto const* const marks = reinterpret_cast<std::byte const*>(words + run.word);
    int const lane = group.worker() % 32, halves = (run.values + 31) / 32;
    for (int h = group.worker() / 32 * 32; h < halves; h += Group::workers) {
      std::uint32_t mine = 0, before = 0;
      if (h + lane < halves) {
        auto const at = static_cast<std::size_t>(h + lane);
        mine = load_aligned<std::uint32_t>(marks, at);
        before = marks_before[run.word + at / 2];
      }
      std::uint32_t const lower = group.xor_shuffle(mine, 1);
      if (lane % 2 == 1) before += static_cast<std::uint32_t>(ones(lower));
      HCOMP_UNROLL
      for (int k = 0; k < 32; ++k) {
        std::uint32_t const half = group.xor_shuffle(mine, lane ^ k);
        std::uint32_t const place = group.xor_shuffle(before, lane ^ k);
        int const i = (h + k) * 32 + lane;
        std::uint32_t const below = half & ((std::uint32_t{1} << lane) - 1);
        if (i < run.values)
          f(run.first + static_cast<std::size_t>(i), (half >> lane & 1u) != 0,
            std::size_t{place} + static_cast<std::size_t>(ones(below)));
      }
    }
  }
};

// Conversions between values and lanes of a message.
template <class Lane> struct to_lane {
  using from = float;
  using to = Lane;
  sparse::lane_numbers<Lane> numbers;

  HCOMP_HD Lane operator()(float value) const { return numbers.lane(value); }
};
template <class Lane> struct to_value {
  using from = Lane;
  using to = float;
  sparse::lane_numbers<Lane> numbers;

  HCOMP_HD float operator()(Lane lane) const { return numbers.value(lane); }
};
struct as_it_is {
  using from = float;
  using to = float;

  HCOMP_HD float operator()(float value) const { return value; }
};

/// Converts all values.
/// @tparam Convert  one of the conversions above
template <class Convert> struct convert_runs {
  Convert convert;
  std::size_t values;
  typename Convert::from const* in;
  typename Convert::to* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run(r, values).for_each(group, [&](std::size_t i) { out[i] = convert(in[i]); });
  }
};

/// Packs the marked values contiguously.
template <class Convert> struct pack_runs {
  using From = typename Convert::from;

  Convert convert;
  packed_places places;
  std::size_t values;
  From const* in;
  typename Convert::to* out;

  static constexpr std::size_t scratch_bytes() { return packed_places::list_bytes; }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    if constexpr (SharesMemory<Group>)
      pack_list(group, run);
    else
      places.for_each(group, run, [&](std::size_t i, bool is_marked, std::size_t place) {
        if (is_marked) out[place] = convert(in[i]);
      });
  }

 private:
  /// Workers write adjacent positions. They load several values before the first store, to hide
  /// memory latency.
  template <class Group> HCOMP_HD void pack_list(Group group, sparse_run const& run) const {
    auto* const list = reinterpret_cast<std::uint16_t*>(group.scratch());
    auto const place = places.list_marked(group, run, list);
    for_some_loaded(
        group, place.end - place.first, [&](std::size_t j) { return in[run.first + list[j]]; },
        [&](std::size_t j, From const& value) { out[place.first + j] = convert(value); });
    group.sync();
  }
};

/// Unpacks: writes 0 to unmarked values.
template <class Convert> struct unpack_runs {
  using From = typename Convert::from;

  Convert convert;
  packed_places places;
  std::size_t values;
  From const* in;
  float* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    bool const is_whole = run.values == static_cast<int>(run_values) && is_multiple_of(16, out);
    if (is_whole)
      unpack_fours(group, run);
    else
      run.for_each(group, [&](std::size_t i) {
        out[i] = places.is_marked(i) ? convert(in[places.place_of(i)]) : 0;
      });
  }

 private:
  /// Writes four values at once. Prefetches to hide memory latency: lanes one step ahead, marks two
  /// steps ahead.
  template <class Group> HCOMP_HD void unpack_fours(Group group, sparse_run const& run) const {
    constexpr unsigned step = 4 * Group::workers, end = run_values;
    auto const load = [&](unsigned i) {
      std::size_t const w = run.word + i / 64;
      return i < end ? marked_word{places.words[w], places.marks_before[w]} : marked_word{0, 0};
    };
    unsigned const first = 4 * static_cast<unsigned>(group.worker());
    marked_word next = load(first + step);
    From found[4], later[4];
    look(load(first), first, found);
    for (unsigned i = first; i < end; i += step) {
      look(next, i + step, later);
      next = load(i + 2 * step);
      adjacent<float, 4> four;
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        four.values[j] = convert(found[j]);  // 0 converts to 0
        found[j] = later[j];
      }
      put_at_once(four, out + run.first + i);
    }
    group.sync();
  }

  struct marked_word {
    std::uint64_t marks;
    std::uint32_t before;
  };
  /// Loads the lanes of values i to i + 3 of the word: the packed lane if marked, otherwise 0.
  HCOMP_HD void look(marked_word const& word, unsigned i, From (&found)[4]) const {
    std::uint64_t const below = word.marks & ((std::uint64_t{1} << i % 64) - 1);
    From const* const here = in + word.before + ones(below);
    auto const marks = static_cast<std::uint32_t>(word.marks >> i % 64 & 15);
    HCOMP_UNROLL
    for (std::uint32_t j = 0; j < 4; ++j)
      found[j] = (marks >> j & 1u) != 0 ? here[ones(marks & ((1u << j) - 1))] : From{0};
  }
};

/// Converts the packed lanes of a subset of marked values to their positions among all marked
/// values.
template <class Lane> struct repack_runs {
  to_value<Lane> convert;
  packed_places some, all;
  std::size_t values;
  Lane const* in;
  float* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    some.for_each(group, sparse_run(r, values),
                  [&](std::size_t i, bool is_marked, std::size_t place) {
                    if (is_marked) out[all.place_of(i)] = convert(in[place]);
                  });
  }
};

}  // namespace hcomp::detail
