#pragma once
/// @file
/// The index of the values that are not zero on some rank. Ranks agree on it before a sparse
/// all-reduce.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/index_words_simd.hpp>
#include <hcomp/codec/sparse/detail/own_values.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// One bit per nonzero value, and the largest exponent. Every rank builds the index of its own
/// vector; a bitwise OR of the words, in any order, unites them:
///
///     auto const words = index.mark(x);
///     MPI_Allreduce(MPI_IN_PLACE, words.data(), words.size(), MPI_UINT64_T, MPI_BOR, comm);
///     index.unite();
///
/// -0 counts as zero; NaN and infinity do not. The index keeps a copy of the nonzero values for
/// encoders. It is movable, not copyable.
/// Size: 1 bit per value, rounded up to 64, and 32 bytes. Additional memory: 1 bit and 4 bytes per
/// 64 values, and 4 bytes per nonzero value of this rank.
class sparse_index {
 public:
  /// Number of words for `values` values.
  static constexpr std::size_t words(std::size_t values) {
    return detail::sparse::index_words(values) + detail::sparse::exponent_words;
  }

  /// Marks the nonzero values of x. Returns this rank's words, stored in this object; the caller
  /// replaces them by the union.
  /// @throws std::invalid_argument  2^32 values or more
  std::span<std::uint64_t> mark(std::span<float const> x) {
    if (x.size() > std::numeric_limits<std::uint32_t>::max())
      throw std::invalid_argument(
          detail::error_text({"sparse_index: ", x.size(), " values, there is room for ",
                              std::numeric_limits<std::uint32_t>::max()}));
    values_ = x.size();
    words_.resize(words(values_));
    own_.mark(x, words_.data());
    return words_;
  }

  /// Reads the words as those of the union, and counts the marks.
  /// @throws wire_error  they are not an index of values() values
  void unite() {
    if (values_ % 64 != 0 && marks().back() >> values_ % 64 != 0)
      throw wire_error(detail::error_text({"sparse_index: marks beyond its ", values_,
                                           " values; were words of another vector mixed in?"}));
    for (std::size_t w = 0; w < marks().size(); ++w)
      if ((own_.marks()[w] & ~marks()[w]) != 0)
        throw wire_error(detail::error_text(
            {"sparse_index: of values ", 64 * w, " to ", std::min(values_, 64 * w + 64) - 1,
             " some that this rank has marked are not; is this a result of a bitwise "
             "OR?"}));
    exponent_ = detail::sparse::largest_of(words_.data() + marks().size());
    if (exponent_ < 0)
      throw wire_error(detail::error_text({"sparse_index: no exponent of its ", values_,
                                           " values; is this a result of a bitwise OR?"}));
    marks_before_.resize(marks().size());
    std::uint64_t shared = 0;
    marked_ = detail::sparse::count_marks(simd_group{}, marks().data(), marks().size(),
                                          marks_before_.data(), &shared);
  }

  std::size_t values() const { return values_; }
  /// Number of values that are not zero on some rank.
  std::size_t marked() const { return marked_; }
  /// Whether some rank has NaN or infinity.
  bool nonfinite() const { return exponent_ == detail::sparse::nonfinite_exponent; }
  /// The largest exponent, as floats store it.
  std::uint32_t exponent() const { return static_cast<std::uint32_t>(exponent_); }

  std::span<std::uint64_t const> marks() const {
    return std::span(words_).first(detail::sparse::index_words(values_));
  }
  /// This rank's marks and nonzero values.
  detail::sparse::own_values const& own() const { return own_; }
  /// Number of marks before each word.
  std::span<std::uint32_t const> marks_before() const { return marks_before_; }

  /// A number that differs if the settings differ; ranks compare it.
  std::uint64_t settings() const { return 0; }

 protected:
  /// For indices with another wire format: the words that mark() returned, to be overwritten before
  /// unite().
  std::span<std::uint64_t> own_words() { return words_; }

 private:
  std::size_t values_ = 0, marked_ = 0;
  int exponent_ = 0;
  detail::sparse::own_values own_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> marks_before_;
};

/// A sparse_index, or a class derived from it that uses another wire format and restores the index
/// in unite().
template <class I>
concept SparseIndex = std::derived_from<I, sparse_index> &&
    requires(I index, I const united, std::span<float const> x) {
  { index.mark(x) } -> std::same_as<std::span<std::uint64_t>>;
  { index.unite() } -> std::same_as<void>;
  { united.settings() } -> std::same_as<std::uint64_t>;
};

}  // namespace hcomp
