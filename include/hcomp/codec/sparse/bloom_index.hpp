#pragma once
/// @file
/// A Bloom filter as index of very sparse vectors; it takes less than one bit per value.

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
  /// Expected number of values that are not zero on some rank. With more values the sum stays
  /// exact, but more zeros are sent. 0: one percent of the vector.
  std::size_t expected = 0;
  /// Fraction of the other values that may be marked by mistake. 0: the rate that minimizes filter
  /// plus sketch, 0.053 expected / (values - expected).
  double false_positive_rate = 0;
};

/// A sparse_index that travels as a Bloom filter. The union contains all values that are not zero
/// on some rank, and a few values that are zero everywhere; these decode to 0.
///
///     hcomp::sparse_union<float, hcomp::bloom_index> sum({.ranks = ranks},
///                                                       hcomp::bloom_index({.expected = 5000}));
///
/// With sketches (lhc) it takes less than a bitmap if fewer than 7.5 % of the values are marked. It
/// takes less than a bitmap with sparse_union below 4.5 %.
/// Size: log2(1 / rate) / ln 2 bits per expected value, and 32 bytes: 16 bits if 1 % are marked.
/// Cost: unite() takes log2(1 / rate) random loads per 64 values, about 0.4 ns per value.
/// Source: Bloom, Comm. ACM 13 (1970); sized as by Li et al., arXiv 2402.07529.
class bloom_index : public sparse_index {
 public:
  /// @throws std::invalid_argument  the rate is negative, not a number, or above 0.5
  explicit bloom_index(bloom_options const& options = {}) : options_(options) {
    if (!(options.false_positive_rate >= 0 && options.false_positive_rate <= 0.5))
      throw std::invalid_argument(
          detail::error_text({"bloom_index: a false positive rate of ", options.false_positive_rate,
                              "; there can be up to 0.5 (0: default)"}));
  }

  /// Number of words for `values` values.
  std::size_t words(std::size_t values) const {
    return filter_of(values).words + detail::sparse::exponent_words;
  }

  /// Marks the nonzero values of x. Returns this rank's words, stored in this object; the caller
  /// replaces them by the union.
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

  /// Reads the words as those of the union, looks up every value, and counts the marks.
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

  /// A number that differs if the settings differ; ranks compare it.
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
