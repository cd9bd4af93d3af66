#pragma once
/// @file
/// An index of very sparse vectors that takes less than a bit per value: a Bloom filter.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/bloom_filter.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/random.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Settings of a `bloom_index`; equal on all ranks.
struct bloom_options {
  /// Values that are not zero on some rank. More of them are summed as exactly, but more zeros are
  /// sent along. 0: a hundredth of the vector.
  std::size_t expected = 0;
  /// Share of the other values that may be marked with them. 0: what makes the filter and a sketch
  /// smallest together, 0.053 expected / (values - expected).
  double false_positive_rate = 0;
};

/// A sparse_index whose words travel as a Bloom filter: the union has all values that are not zero
/// on some rank, and a few that are zero everywhere, which then come out as 0.
///
///     hcomp::sparse_union<float, hcomp::bloom_index> sum({.ranks = ranks},
///                                                       hcomp::bloom_index({.expected = 5000}));
///
/// With sums in sketches (lhc) it takes less than a bitmap where fewer than 7.5 % of the values are
/// marked, and less than a bitmap and sparse_union below 4.5 %.
/// Size: log2(1 / rate) / ln 2 bits per expected value, and 32 bytes: 16 bits where 1 % are marked.
/// Cost: unite() takes log2(1 / rate) loads per 64 values, wherever they are; some 0.4 ns a value.
/// Source: Bloom, Comm. ACM 13 (1970); sized as by Li et al., arXiv 2402.07529.
class bloom_index : public sparse_index {
 public:
  /// @throws std::invalid_argument  a rate that is none, or above a half
  explicit bloom_index(bloom_options const& options = {}) : options_(options) {
    if (!(options.false_positive_rate >= 0 && options.false_positive_rate <= 0.5))
      throw std::invalid_argument(
          detail::error_text({"bloom_index: a false positive rate of ", options.false_positive_rate,
                              "; there can be up to 0.5 (0: by itself)"}));
  }

  /// Words of `values` values.
  std::size_t words(std::size_t values) const {
    return filter_of(values).words + detail::sparse::exponent_words;
  }

  /// This rank's words; they stay in here, where the union is to be put.
  /// @throws std::invalid_argument  2^32 values or more
  std::span<std::uint64_t> mark(std::span<float const> x) {
    auto const exact = sparse_index::mark(x);
    auto const marks = exact.first(exact.size() - detail::sparse::exponent_words);
    auto const exponents = exact.last(detail::sparse::exponent_words);
    filter_ = filter_of(x.size());
    sent_.assign(filter_.words, 0);
    for (std::size_t w = 0; w < marks.size(); ++w)
      if (marks[w] != 0) filter_.add(sent_.data(), w, marks[w]);
    sent_.insert(sent_.end(), exponents.begin(), exponents.end());
    return sent_;
  }

  /// Takes the words as those of the union, looks all values up, and counts.
  /// @throws wire_error  they are not a union
  void unite() {
    auto const all = own_words();
    auto const marks = all.first(all.size() - detail::sparse::exponent_words);
    for (std::size_t w = 0; w < marks.size(); ++w) marks[w] = filter_.find(sent_.data(), w);
    if (values() % 64 != 0) marks.back() &= ~(~std::uint64_t{0} << values() % 64);
    std::copy(sent_.end() - detail::sparse::exponent_words, sent_.end(),
              all.end() - detail::sparse::exponent_words);
    sparse_index::unite();
  }

  bloom_options const& options() const { return options_; }

  /// A number that differs where settings do: for ranks to compare.
  std::uint64_t settings() const {
    return mix(mix(options_.expected + 1) + same_bits<std::uint64_t>(options_.false_positive_rate));
  }

 private:
  detail::sparse::bloom_filter filter_of(std::size_t values) const {
    std::size_t const expected =
        std::min(options_.expected > 0 ? options_.expected : values / 100 + 1, values);
    auto const others = static_cast<double>(std::max<std::size_t>(values - expected, 1));
    double const rate = options_.false_positive_rate > 0
                            ? options_.false_positive_rate
                            : 0.053 * static_cast<double>(expected) / others;
    return detail::sparse::bloom_filter::for_rate(expected, std::clamp(rate, 0x1p-30, 0.5));
  }

  bloom_options options_;
  detail::sparse::bloom_filter filter_;
  std::vector<std::uint64_t> sent_;
};

static_assert(SparseIndex<bloom_index>);

}  // namespace hcomp
