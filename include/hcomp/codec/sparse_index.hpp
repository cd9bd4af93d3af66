#pragma once
/// @file
/// Which values of a vector are not zero on some rank: what sums of sparse vectors agree on first.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_index_simd.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// A bit per value that is not zero, and the largest exponent of all. Made by every rank of its own
/// vector, then united by a bitwise OR of the words, in any order:
///
///     auto const words = index.mark(x);
///     MPI_Allreduce(MPI_IN_PLACE, words.data(), words.size(), MPI_UINT64_T, MPI_BOR, comm);
///     index.unite();
///
/// -0 counts as zero, NaN and infinity do not.
/// Size: 1 bit per value, rounded up to 64, and 32 bytes.
class sparse_index {
 public:
  /// Words of `values` values.
  static constexpr std::size_t words(std::size_t values) {
    return detail::index_words(values) + detail::exponent_words;
  }

  /// This rank's words; they stay in here, where the union is to be put.
  /// @throws std::invalid_argument  2^32 values or more
  std::span<std::uint64_t> mark(std::span<float const> x) {
    if (x.size() > std::numeric_limits<std::uint32_t>::max())
      throw std::invalid_argument("sparse_index: " + std::to_string(x.size()) +
                                  " values, there is room for " +
                                  std::to_string(std::numeric_limits<std::uint32_t>::max()));
    values_ = x.size();
    words_.resize(words(values_));
    detail::mark_nonzeros(simd_group{}, x.data(), x.size(), words_.data());
    return words_;
  }

  /// Takes the words as those of the union, and counts.
  /// @throws wire_error  they are not an index of so many values
  void unite() {
    if (values_ % 64 != 0 && marks().back() >> values_ % 64 != 0)
      throw wire_error("sparse_index: marks beyond its " + std::to_string(values_) +
                       " values; were words of another vector mixed in?");
    exponent_ = -1;
    for (std::size_t i = 0; i < detail::exponent_words; ++i)
      if (auto const word = words_[words_.size() - detail::exponent_words + i]; word != 0)
        exponent_ = static_cast<int>(64 * i) + std::bit_width(word) - 1;
    if (exponent_ < 0)
      throw wire_error("sparse_index: no exponent of its " + std::to_string(values_) +
                       " values; is this a result of a bitwise OR?");
    ranks_.resize(marks().size());
    std::uint64_t shared = 0;
    marked_ =
        detail::count_marks(simd_group{}, marks().data(), marks().size(), ranks_.data(), &shared);
  }

  std::size_t values() const { return values_; }
  /// Values that are not zero on some rank.
  std::size_t marked() const { return marked_; }
  /// Some rank has NaN or infinity.
  bool nonfinite() const { return exponent_ == detail::nonfinite_exponent; }
  /// The largest, as floats store it.
  std::uint32_t exponent() const { return static_cast<std::uint32_t>(exponent_); }

  std::span<std::uint64_t const> marks() const {
    return std::span(words_).first(detail::index_words(values_));
  }
  /// How many values are marked before each word.
  std::span<std::uint32_t const> ranks() const { return ranks_; }

 private:
  std::size_t values_ = 0, marked_ = 0;
  int exponent_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace hcomp
