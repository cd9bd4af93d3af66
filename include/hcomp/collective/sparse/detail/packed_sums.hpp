#pragma once
/// @file
/// Adds up what ranks have of one shard, without room for what is zero on all of them.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/core/bits.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Sums of the lanes that any of some ranks has marked, one behind the other: they stay in the
/// cache where all values of the shard would not.
template <class Lane> class packed_sums {
 public:
  packed_sums() = default;
  /// @param words  of each rank's marks
  packed_sums(std::size_t words, std::size_t ranks)
      : words_(words), parts_(ranks), marks_(words), marks_of_parts_(words * ranks) {}

  /// Where a rank's marks belong.
  std::span<std::uint64_t> marks_of_part(std::size_t rank) {
    return std::span(marks_of_parts_).subspan(rank * words_, words_);
  }
  /// The lanes of what that rank has marked; they must stay where they are until add_up.
  void set_lanes_of_part(std::size_t rank, std::byte const* lanes) { parts_[rank] = lanes; }

  /// In the order of the ranks.
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

  /// Of what some rank has marked, after add_up.
  std::span<std::uint64_t const> marks() const { return marks_; }
  std::span<Lane const> sums() const { return sums_; }
  /// f(value, sum) for each of them.
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
