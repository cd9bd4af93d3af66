#pragma once
/// @file
/// What sums of sparse vectors do on a device, as work on runs of values: the index of
/// index_words.hpp made, counted and used, in kernels that read and write neighbouring values side
/// by side.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>

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
    for (auto r = static_cast<std::size_t>(group.worker()); r < runs; r += Group::workers)
      mine = exponents[r] > mine ? exponents[r] : mine;
    std::uint32_t const largest = largest_in(group, mine, 8);
    for (auto i = static_cast<std::size_t>(group.worker()); i < sparse::exponent_words;
         i += Group::workers)
      words[i] = i == largest / 64 ? std::uint64_t{1} << largest % 64 : 0;
    group.sync();
  }
};

/// What a run of a union of indices has.
struct run_record {
  std::uint64_t print;     ///< fingerprint of its words
  std::uint32_t marked;    ///< values
  std::uint32_t is_wrong;  ///< 1: lacks what this rank has marked, or marks what is no value
};

struct count_runs {
  std::uint64_t const* words;
  std::uint64_t const* own;
  std::size_t values;
  run_record* records;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    sparse_run const run(r, values);
    std::uint64_t marked = 0, wrong = 0;
    for (auto w = static_cast<std::size_t>(group.worker()); w < run.words; w += Group::workers) {
      std::uint64_t const all = words[run.word + w];
      int const left = run.values - static_cast<int>(w) * 64;
      wrong |= (own[run.word + w] & ~all) | (left < 64 ? all >> left : 0);
      marked += static_cast<std::uint64_t>(ones(all));
    }
    marked = group.sum(marked);
    bool const is_wrong = group.any(wrong != 0);
    auto const print = fingerprint(group, reinterpret_cast<std::byte const*>(words + run.word),
                                   run.words * sizeof(std::uint64_t));
    if (group.worker() == 0)
      records[r] = {print, static_cast<std::uint32_t>(marked), is_wrong ? 1u : 0u};
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

/// What add_up_runs finds, on a host.
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
  std::uint64_t print;
  std::uint64_t marked;
  std::int32_t exponent;    ///< the largest; -1: none
  std::uint32_t wrong_run;  ///< 1 + number of one that is wrong; 0: none
};

/// begins[r] = values marked before run r, and what all have together. One group.
struct add_up_runs {
  run_record const* records;
  std::size_t runs;
  std::uint64_t const* exponents;  ///< behind the index
  std::uint32_t* begins;
  index_summary* summary;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    constexpr auto workers = static_cast<std::size_t>(Group::workers);
    index_summary all{0, 0, -1, 0};
    std::uint64_t print = 0;
    std::uint32_t wrong_run = 0;
    for (std::size_t first = 0; first < runs; first += workers) {
      std::size_t const r = first + static_cast<std::size_t>(group.worker());
      auto const sums = group.running_sum(r < runs ? records[r].marked : 0);
      if (r < runs) {
        begins[r] = static_cast<std::uint32_t>(all.marked + sums.before);
        print += print_term(records[r].print, r);
        if (records[r].is_wrong) wrong_run = static_cast<std::uint32_t>(r) + 1;
      }
      all.marked += sums.all;
    }
    all.exponent = sparse::largest_of(exponents);
    all.print = closed_print(group.sum(print), all.exponent);
    all.wrong_run = largest_in(group, wrong_run, 32);
    if (group.worker() == 0) *summary = all;
    group.sync();
  }
};

/// marks_before[w] = values marked before word w.
struct count_before_runs {
  std::uint64_t const* words;
  std::size_t values;
  std::uint32_t const* begins;
  std::uint32_t* marks_before;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    constexpr auto workers = static_cast<std::size_t>(Group::workers);
    sparse_run const run(r, values);
    std::uint64_t before = begins[r];
    for (std::size_t first = 0; first < run.words; first += workers) {
      std::size_t const w = first + static_cast<std::size_t>(group.worker());
      auto const count = w < run.words ? ones(words[run.word + w]) : 0;
      auto const sums = group.running_sum(static_cast<std::uint64_t>(count));
      if (w < run.words)
        marks_before[run.word + w] = static_cast<std::uint32_t>(before + sums.before);
      before += sums.all;
    }
  }
};

/// Which values of a vector are marked, and where each of them is packed.
struct packed_places {
  std::uint64_t const* words;
  std::uint32_t const* marks_before;

  /// f(value, whether it is marked, its place if it is) for the values of a run.
  template <class Group, class F>
  HCOMP_HD void for_each(Group group, sparse_run const& run, F const& f) const {
    if constexpr (HasWarps<Group>) {
      for_each_of_warps(group, run, f);
      group.sync();
    } else {
      run.for_each(group, [&](std::size_t value) {
        std::size_t const w = value / 64;
        std::uint64_t const marks = words[w], mine = std::uint64_t{1} << value % 64;
        f(value, (marks & mine) != 0,
          marks_before[w] + static_cast<std::size_t>(ones(marks & (mine - 1))));
      });
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
  Convert convert;
  packed_places places;
  std::size_t values;
  typename Convert::from const* in;
  typename Convert::to* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    places.for_each(group, sparse_run(r, values),
                    [&](std::size_t i, bool is_marked, std::size_t place) {
                      if (is_marked) out[place] = convert(in[i]);
                    });
  }
};

/// And back: 0 elsewhere.
template <class Convert> struct unpack_runs {
  Convert convert;
  packed_places places;
  std::size_t values;
  typename Convert::from const* in;
  typename Convert::to* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t r) const {
    places.for_each(group, sparse_run(r, values),
                    [&](std::size_t i, bool is_marked, std::size_t place) {
                      out[i] = is_marked ? convert(in[place]) : 0;
                    });
  }
};

}  // namespace hcomp::detail
