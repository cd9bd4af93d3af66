#pragma once
/// @file
/// What sums of sparse vectors do on a device, as work on runs of values: the index of
/// index_words.hpp made, counted and used, in kernels that read and write neighbouring values side
/// by side.

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

/// What one group works on.
inline constexpr std::size_t run_words = 128, run_values = 64 * run_words;

constexpr std::size_t runs_of(std::size_t values) { return (values + run_values - 1) / run_values; }

/// A run of a vector and its index.
struct sparse_run {
  std::size_t word, words;  ///< the first one, and how many
  std::size_t first;        ///< value
  int values;

  HCOMP_HD sparse_run(std::size_t r, std::size_t all)
      : word(r * run_words),
        words(sparse::index_words(all) - word < run_words ? sparse::index_words(all) - word
                                                          : run_words),
        first(r * run_values),
        values(static_cast<int>(all - first < run_values ? all - first : run_values)) {}

  /// f(value) for its values, shared out among the workers.
  template <class Group, class F> HCOMP_HD void for_each(Group group, F const& f) const {
    for (int i = group.worker(); i < values; i += Group::workers)
      f(first + static_cast<std::size_t>(i));
    group.sync();
  }
};

/// Bit by bit which values are not zero, and the largest exponent of each run, as it is stored.
struct mark_runs {
  float const* x;
  std::size_t values;
  std::uint64_t* words;  ///< twice: one is for the union
  std::uint64_t* own;
  std::uint32_t* exponents;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    float const* const here = x + run.first;
    std::uint32_t largest = 0;  // magnitude, as bits
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

/// The largest exponent of all runs as what stands behind an index. One group.
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

/// The fingerprint of an index is made of those of its runs: a term per run, and their sum closed.
HCOMP_HD inline std::uint64_t print_term(std::uint64_t print, std::size_t r) {
  return mix(print + (r + 1) * 0x9e3779b97f4a7c15u);
}
HCOMP_HD inline std::uint64_t closed_print(std::uint64_t terms, std::int32_t exponent) {
  return mix(terms + static_cast<std::uint64_t>(exponent));
}

/// What index_summary::print gives, on a host.
inline std::uint64_t print_of_index(std::uint64_t const* words, std::size_t values) {
  std::uint64_t terms = 0;
  for (std::size_t r = 0; r < runs_of(values); ++r) {
    sparse_run const run(r, values);
    auto const* const here = reinterpret_cast<std::byte const*>(words + run.word);
    terms += print_term(fingerprint(simd_group{}, here, run.words * sizeof(std::uint64_t)), r);
  }
  return closed_print(terms, sparse::largest_of(words + sparse::index_words(values)));
}

/// What all runs have together.
struct index_summary {
  std::uint64_t terms;  ///< of the fingerprint
  std::uint64_t marked;
  std::int32_t exponent;    ///< the largest; -1: none
  std::uint32_t wrong_run;  ///< 1 + number of one that is wrong; 0: none

  std::uint64_t print() const { return closed_print(terms, exponent); }
};

/// Before count_shares.
struct begin_counting {
  clear_words order;
  std::uint64_t const* exponents;  ///< behind the index
  index_summary* summary;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    order(group, i);
    if (i == 0 && group.worker() == 0) *summary = {0, 0, sparse::largest_of(exponents), 0};
  }
};

/// marks_before[w] = values marked before word w, and what all runs have together. A group takes
/// some runs, and adds up what those before them have while they work.
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
  /// Returns how many values are marked before the end of the share.
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
  /// The same by warps, each of a run.
  template <class Group>
  HCOMP_HD std::uint64_t count_by_warps(Group group, std::size_t share) const {
    static_assert(Group::warps == share_runs);
    constexpr std::size_t rows = run_words / 32;
    auto const warp = group.own_warp(0);
    auto const lane = static_cast<std::size_t>(warp.worker());
    std::size_t const r = share * share_runs + static_cast<std::size_t>(group.warp());
    bool const is_there = r < runs_of(values);
    sparse_run const run(is_there ? r : 0, values);
    std::uint64_t marked = 0, sum = 0, wrong = 0;  // marked: 16 bits for each row
    HCOMP_UNROLL
    for (std::size_t k = 0; k < rows; ++k) {
      std::size_t const w = 32 * k + lane;
      if (!is_there || w >= run.words) continue;
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
      if (is_there && w < run.words)
        marks_before[run.word + w] =
            static_cast<std::uint32_t>(before + (in_rows.before >> 16 * k & 0xffffu));
      before += in_rows.all >> 16 * k & 0xffffu;
    }
    if (is_there) add_findings(warp, run, r, wrong, sum);
    return before_share + in_share.all;
  }

  /// Bits of word w of a run that should not be as they are.
  HCOMP_HD std::uint64_t wrong_bits(sparse_run const& run, std::size_t w,
                                    std::uint64_t word) const {
    int const left = run.values - static_cast<int>(w) * 64;
    return (own[run.word + w] & ~word) | (left < 64 ? word >> left : 0);
  }
  /// What this worker has found in its words of run r.
  template <class Group>
  HCOMP_HD void add_findings(Group group, sparse_run const& run, std::size_t r, std::uint64_t wrong,
                             std::uint64_t sum) const {
    if (wrong != 0)
      raise_to(beside_others(group), &summary->wrong_run, static_cast<std::uint32_t>(r) + 1);
    std::uint64_t const print = closed_fingerprint(group, sum, run.words * sizeof(std::uint64_t));
    if (group.worker() == 0) fetch_add(beside_others(group), &summary->terms, print_term(print, r));
  }
};

/// Which values of a vector are marked, and where each of them is packed.
struct packed_places {
  std::uint64_t const* words;
  std::uint32_t const* marks_before;

  HCOMP_HD bool is_marked(std::size_t value) const {
    return (words[value / 64] >> value % 64 & 1) != 0;
  }
  /// The place of a value that is marked.
  HCOMP_HD std::size_t place_of(std::size_t value) const {
    std::size_t const w = value / 64;
    std::uint64_t const below = (std::uint64_t{1} << value % 64) - 1;
    return marks_before[w] + static_cast<std::size_t>(ones(words[w] & below));
  }

  static constexpr std::size_t list_bytes = run_values * sizeof(std::uint16_t);
  /// Numbers within a run of its marked values, in their order, for all workers; returns where they
  /// are packed.
  /// @param list  that the workers share, of list_bytes
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

  /// f(value, whether it is marked, its place if it is) for the values of a run.
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
  /// A lane loads half a word for all lanes.
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

// Conversions of values on their way between a vector and a message.
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

/// All values.
/// @tparam Convert  one of those above
template <class Convert> struct convert_runs {
  Convert convert;
  std::size_t values;
  typename Convert::from const* in;
  typename Convert::to* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run(r, values).for_each(group, [&](std::size_t i) { out[i] = convert(in[i]); });
  }
};

/// The marked values, one behind the other.
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
  /// Workers write neighbouring places. Since values are far away, they load several before they
  /// write the first.
  template <class Group> HCOMP_HD void pack_list(Group group, sparse_run const& run) const {
    auto* const list = reinterpret_cast<std::uint16_t*>(group.scratch());
    auto const place = places.list_marked(group, run, list);
    for_some_loaded(
        group, place.end - place.first, [&](std::size_t j) { return in[run.first + list[j]]; },
        [&](std::size_t j, From const& value) { out[place.first + j] = convert(value); });
    group.sync();
  }
};

/// And back: 0 elsewhere.
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
  /// Four values are written at once. Since marks and lanes are far away, both are loaded long before
  /// they are used: lanes of the next four, and marks of the next but one.
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
        four.values[j] = convert(found[j]);  // of 0 that is 0
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
  /// Of the word's value i and the three behind it what is in their places, and 0 where none is.
  HCOMP_HD void look(marked_word const& word, unsigned i, From (&found)[4]) const {
    std::uint64_t const below = word.marks & ((std::uint64_t{1} << i % 64) - 1);
    From const* const here = in + word.before + ones(below);
    auto const marks = static_cast<std::uint32_t>(word.marks >> i % 64 & 15);
    HCOMP_UNROLL
    for (std::uint32_t j = 0; j < 4; ++j)
      found[j] = (marks >> j & 1u) != 0 ? here[ones(marks & ((1u << j) - 1))] : From{0};
  }
};

/// The lanes of some of the marked values, as values, to where those of all are packed.
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
