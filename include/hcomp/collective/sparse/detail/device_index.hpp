#pragma once
/// @file
/// The marks of an index in a device's memory, counted.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>

namespace hcomp::detail {

/// How many values are marked before each word, and what all words have together. After
/// construction nothing is allocated. Memory: half a bit per value and 2 bytes per run.
template <DeviceExecutor E> class device_index {
 public:
  explicit device_index(std::size_t values)
      : values_(values),
        marks_before_(sparse::index_words(values) * sizeof(std::uint32_t)),
        order_(order_words() * sizeof(std::uint64_t)),
        summary_(1) {}

  /// Gives the executor the work of counting.
  /// @param words      the index, in its memory
  /// @param own        the index of this rank alone, of which it must lack nothing
  /// @param exponents  what stands behind an index
  void count(E& executor, std::uint64_t const* words, std::uint64_t const* own,
             std::uint64_t const* exponents) {
    auto* const order = reinterpret_cast<std::uint64_t*>(order_.data());
    clear_words const clear{order, order_words()};
    executor.for_each_block(clear.runs(), begin_counting{clear, exponents, summary_.for_work()});
    executor.for_each_block(
        count_shares::shares(values_),
        count_shares{words, own, values_, {order}, marks_before(), summary_.for_work()});
  }
  /// Marked before each word; for work that is given after that.
  std::uint32_t* marks_before() { return reinterpret_cast<std::uint32_t*>(marks_before_.data()); }

  /// What was found. Waits for the executor.
  index_summary const& fetch(E& executor) {
    summary_.fetch(executor, 1);
    return summary();
  }
  /// What was found when it was fetched last.
  index_summary const& summary() const { return *summary_.for_host(); }

 private:
  std::size_t order_words() const { return block_order::words_for(count_shares::shares(values_)); }

  std::size_t values_;
  typename E::buffer marks_before_, order_;
  mirror<index_summary, E> summary_;
};

}  // namespace hcomp::detail
