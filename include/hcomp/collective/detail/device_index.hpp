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
/// construction nothing is allocated. Memory: half a bit per value and 20 bytes per run.
template <DeviceExecutor E> class device_index {
 public:
  explicit device_index(std::size_t values)
      : values_(values),
        marks_before_(sparse::index_words(values) * sizeof(std::uint32_t)),
        begins_(runs_of(values) * sizeof(std::uint32_t)),
        records_(runs_of(values) * sizeof(run_record)),
        summary_(1) {}

  /// Gives the executor the work of counting.
  /// @param words      the index, in its memory
  /// @param own        the index of this rank alone, of which it must lack nothing
  /// @param exponents  what stands behind an index
  void count(E& executor, std::uint64_t const* words, std::uint64_t const* own,
             std::uint64_t const* exponents) {
    std::size_t const runs = runs_of(values_);
    auto* const records = reinterpret_cast<run_record*>(records_.data());
    auto* const begins = reinterpret_cast<std::uint32_t*>(begins_.data());
    executor.for_each_block(runs, count_runs{words, own, values_, records});
    executor.for_each_block(1, add_up_runs{records, runs, exponents, begins, summary_.for_work()});
    executor.for_each_block(runs, count_before_runs{words, values_, begins, marks_before()});
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
  std::size_t values_;
  typename E::buffer marks_before_, begins_, records_;
  mirror<index_summary, E> summary_;
};

}  // namespace hcomp::detail
