#pragma once
/// @file
/// Counts the marks of an index in device memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>

namespace hcomp::detail {

/// The number of marked values before each word, and a summary of all words. After construction
/// nothing is allocated. Memory: half a bit per value and 2 bytes per run.
template <DeviceExecutor E> class device_index {
 public:
  explicit device_index(std::size_t values)
      : values_(values),
        marks_before_(sparse::index_words(values) * sizeof(std::uint32_t)),
        order_(order_words() * sizeof(std::uint64_t)),
        summary_(1) {}

  /// Enqueues the counting.
  /// @param words      the index, in the executor's memory
  /// @param own        the index of this rank alone; `words` must include it
  /// @param exponents  the exponents that follow an index
  void count(E& executor, std::uint64_t const* words, std::uint64_t const* own,
             std::uint64_t const* exponents) {
    auto* const order = reinterpret_cast<std::uint64_t*>(order_.data());
    clear_words const clear{order, order_words()};
    executor.for_each_block(clear.runs(), begin_counting{clear, exponents, summary_.for_work()});
    executor.for_each_block(
        count_shares::shares(values_),
        count_shares{words, own, values_, {order}, marks_before(), summary_.for_work()});
  }
  /// Values marked before each word; for later work.
  std::uint32_t* marks_before() { return reinterpret_cast<std::uint32_t*>(marks_before_.data()); }

  /// The summary. Waits for the executor.
  index_summary const& fetch(E& executor) {
    summary_.fetch(executor, 1);
    return summary();
  }
  /// The summary that was fetched last.
  index_summary const& summary() const { return *summary_.for_host(); }

 private:
  std::size_t order_words() const { return block_order::words_for(count_shares::shares(values_)); }

  std::size_t values_;
  typename E::buffer marks_before_, order_;
  mirror<index_summary, E> summary_;
};

}  // namespace hcomp::detail
