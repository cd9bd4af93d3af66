#pragma once
/// @file
/// Adds the ranks' parts of one shard, without memory for values that are zero on all ranks.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/core/bits.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// The sum of every lane that a rank has marked, contiguous: they fit the cache when all values of
/// the shard do not.
template <class Lane> class packed_sums {
 public:
  /// @param words  size of each rank's marks
  packed_sums(std::size_t words, std::size_t ranks)
      : words_(words), parts_(ranks), marks_(words), marks_of_parts_(words * ranks) {
    sums_.reserve(64 * words);  // only pages that are written become memory
  }

  /// The destination of a rank's marks.
  std::span<std::uint64_t> marks_of_part(std::size_t rank) {
    return std::span(marks_of_parts_).subspan(rank * words_, words_);
  }
  /// Sets the lanes of a rank's marked values. They must stay valid until add_up.
  void set_lanes_of_part(std::size_t rank, std::byte const* lanes) { parts_[rank] = lanes; }

  /// Adds the parts in rank order.
  void add_up() {
    std::size_t marked = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t all = 0;
      for (std::size_t r = 0; r < parts_.size(); ++r) all |= marks_of_parts_[r * words_ + w];
      marks_[w] = all;
      marked += static_cast<std::size_t>(ones(all));
    }
    sums_.assign(marked, Lane{});
    for (std::size_t r = 0; r < parts_.size(); ++r) add(marks_of_part(r), parts_[r]);
  }

  /// The union of all ranks' marks, after add_up.
  std::span<std::uint64_t const> marks() const { return marks_; }
  std::span<Lane const> sums() const { return sums_; }
  /// Calls f(value, sum) for each.
  template <class F> void for_each(F const& f) const {
    for_lanes<Lane>(marks_, reinterpret_cast<std::byte const*>(sums_.data()), f);
  }

 private:
  void add(std::span<std::uint64_t const> part, std::byte const* lanes) {
    Lane* sum = sums_.data();
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t all = marks_[w];
      if (part[w] == ~std::uint64_t{0}) {
        for (std::size_t i = 0; i < 64; ++i) sum[i] += load<Lane>(lanes, i);
        lanes += 64 * sizeof(Lane);
        sum += 64;
      } else if (part[w] == 0) {
        sum += ones(all);
      } else {
        for (; all != 0; all &= all - 1, ++sum)
          if ((part[w] & all & (~all + 1)) != 0) {
            *sum += load<Lane>(lanes, 0);
            lanes += sizeof(Lane);
          }
      }
    }
  }

  std::size_t words_ = 0;
  std::vector<std::byte const*> parts_;
  std::vector<std::uint64_t> marks_, marks_of_parts_;
  std::vector<Lane> sums_;
};

}  // namespace hcomp::detail
