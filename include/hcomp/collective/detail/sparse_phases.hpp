#pragma once
/// @file
/// A sum of sparse vectors between its two phases: the index is made and read, lanes are chosen,
/// encoded and decoded.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/codec/detail/sparse_lanes.hpp>
#include <hcomp/codec/sparse_index.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/detail/mirror.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// On hosts, by sparse_sum. In this order: mark, whose words become those of the union; look;
/// unite; encode_lanes, whose lanes become their sums; decode_lanes.
template <class Lane, Executor E> class sparse_phases {
 public:
  /// @param options  with any result
  sparse_phases(std::size_t values, sparse_options const& options, sparse_ways const& ways,
                lhc_options const& sketch, E& /*executor*/)
      : values_(values),
        sums_{sum_with(options, reduction::sum, ways, sketch),
              sum_with(options, reduction::mean, ways, sketch)} {}

  std::span<std::uint64_t> mark(std::span<float const> x, reduction result) {
    is_mean_ = result == reduction::mean;
    return words_ = sum().mark(x);
  }
  /// A fingerprint of the union.
  std::uint64_t look() const { return print_of_index(words_.data(), values_); }
  void unite(std::uint64_t stream) { sum().unite(stream); }

  sparse_choice const& choice() const { return sum().choice(); }
  std::size_t lanes() const { return sum().lanes(choice().values); }
  void encode_lanes(std::span<float const> x, std::span<Lane> out, std::uint64_t stream) const {
    sum().encode_lanes(x, out, stream);
  }
  void decode_lanes(std::span<Lane const> reduced, std::span<float> x, std::uint64_t stream) const {
    sum().decode_lanes(reduced, x, stream);
  }

 private:
  static sparse_sum<Lane> sum_with(sparse_options options, reduction result,
                                   sparse_ways const& ways, lhc_options const& sketch) {
    options.result = result;
    return sparse_sum<Lane>(options, ways, sketch);
  }
  sparse_sum<Lane>& sum() { return sums_[is_mean_]; }
  sparse_sum<Lane> const& sum() const { return sums_[is_mean_]; }

  std::size_t values_;
  sparse_sum<Lane> sums_[2];
  bool is_mean_ = false;
  std::span<std::uint64_t> words_;
};

/// On devices: the same index, choice and lanes by the executor's work, but no sketches. All spans
/// are of its memory. The host waits in look() alone, for 24 bytes. After construction nothing is
/// allocated. Memory: 2 and a half bits per value.
template <class Lane, DeviceExecutor E> class sparse_phases<Lane, E> {
 public:
  /// @throws std::invalid_argument  only sketches are allowed
  sparse_phases(std::size_t values, sparse_options const& options, sparse_ways const& ways,
                lhc_options const& /*sketch*/, E& executor)
      : executor_(&executor),
        values_(values),
        options_(options),
        ways_(without_sketches(ways)),
        words_(sparse_index::words(values) * sizeof(std::uint64_t)),
        own_(index_words(values) * sizeof(std::uint64_t)),
        ranks_(index_words(values) * sizeof(std::uint32_t)),
        exponents_(runs() * sizeof(std::uint32_t)),
        begins_(runs() * sizeof(std::uint32_t)),
        records_(runs() * sizeof(run_record)),
        summary_(1) {}

  /// @param x  as many values as the constructor was told
  std::span<std::uint64_t> mark(std::span<float const> x, reduction result) {
    options_.result = result;
    executor_->for_each_block(runs(), mark_runs{x.data(), values_, words(), at<std::uint64_t>(own_),
                                                at<std::uint32_t>(exponents_)});
    executor_->for_each_block(
        1, close_marks{at<std::uint32_t>(exponents_), runs(), words() + index_words(values_)});
    return {words(), sparse_index::words(values_)};
  }

  std::uint64_t look() {
    executor_->for_each_block(
        runs(), count_runs{words(), at<std::uint64_t>(own_), values_, at<run_record>(records_)});
    executor_->for_each_block(
        1, add_up_runs{at<run_record>(records_), runs(), words() + index_words(values_),
                       at<std::uint32_t>(begins_), summary_.there()});
    executor_->for_each_block(
        runs(), rank_runs{words(), values_, at<std::uint32_t>(begins_), at<std::uint32_t>(ranks_)});
    summary_.fetch(*executor_, 1);
    return summary().print;
  }
  void unite(std::uint64_t /*stream*/) {
    if (summary().wrong_run != 0) {
      std::size_t const first = (summary().wrong_run - 1) * run_values;
      throw wire_error("sparse_plan: the index of values " + std::to_string(first) + " to " +
                       std::to_string(std::min(values_, first + run_values) - 1) +
                       " lacks some that this rank has marked, or marks what is no value; is this "
                       "a result of a bitwise OR?");
    }
    if (summary().exponent < 0)
      throw wire_error("sparse_plan: the index of " + std::to_string(values_) +
                       " values has no exponent; is this a result of a bitwise OR?");
    numbers_ = agreed_numbers<Lane>("sparse_plan", static_cast<std::uint32_t>(summary().exponent),
                                    options_);
    choice_ = choose_way(ways_, {sparse_way::dense, values_, summary().marked,
                                 sparse_index::words(values_) * sizeof(std::uint64_t),
                                 values_ * sizeof(Lane), summary().marked * sizeof(Lane), 0});
  }

  sparse_choice const& choice() const { return choice_; }
  std::size_t lanes() const {
    return choice_.way == sparse_way::packed ? choice_.marked : choice_.values;
  }

  void encode_lanes(std::span<float const> x, std::span<Lane> out, std::uint64_t /*stream*/) {
    if (choice_.way == sparse_way::packed)
      executor_->for_each_block(runs(),
                                pack_runs<Lane>{numbers_, places(), values_, x.data(), out.data()});
    else
      executor_->for_each_block(runs(),
                                lanes_of_runs<Lane>{numbers_, values_, x.data(), out.data()});
  }
  void decode_lanes(std::span<Lane const> reduced, std::span<float> x, std::uint64_t /*stream*/) {
    if (choice_.way == sparse_way::packed)
      executor_->for_each_block(
          runs(), unpack_runs<Lane>{numbers_, places(), values_, reduced.data(), x.data()});
    else
      executor_->for_each_block(runs(),
                                values_of_runs<Lane>{numbers_, values_, reduced.data(), x.data()});
  }

 private:
  static sparse_ways without_sketches(sparse_ways ways) {
    if (!ways.dense && !ways.packed)
      throw std::invalid_argument(
          "sparse_plan: of the ways only sketches, or none, are allowed; in a device's memory "
          "there "
          "are dense and sparse_union");
    ways.sketched = false;
    return ways;
  }
  std::size_t runs() const { return runs_of(values_); }
  index_summary const& summary() const { return *summary_.here(); }
  template <class T> static T* at(typename E::buffer& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  std::uint64_t* words() { return at<std::uint64_t>(words_); }
  packed_places places() { return {words(), at<std::uint32_t>(ranks_)}; }

  E* executor_;
  std::size_t values_;
  sparse_options options_;
  sparse_ways ways_;
  typename E::buffer words_, own_, ranks_, exponents_, begins_, records_;
  mirror<index_summary, E> summary_;
  lhc_numbers<Lane> numbers_;
  sparse_choice choice_;
};

}  // namespace hcomp::detail
