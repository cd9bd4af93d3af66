#pragma once
/// @file
/// The two phases of a sparse reduction: make and read the index; choose, encode and decode lanes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/sparse/detail/device_index.hpp>
#include <hcomp/collective/sparse/detail/device_sketch.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace hcomp::detail {

/// On hosts, with sparse_sum. Order of calls: mark, whose words are then united over all ranks;
/// look; unite; encode_lanes, whose lanes are then reduced; decode_lanes.
template <Sparse C, Executor E> class sparse_phases {
  using Lane = typename C::lane_type;

 public:
  /// @param options  with any op
  /// @throws std::invalid_argument  as sparse_sum
  sparse_phases(C const& codec, std::size_t values, sparse_options const& options, E& /*executor*/)
      : values_(values),
        sums_{sum_with(codec, options, reduce_op::sum), sum_with(codec, options, reduce_op::mean)} {
  }

  std::span<std::uint64_t> mark(std::span<float const> x, reduce_op op) {
    is_mean_ = op == reduce_op::mean;
    return words_ = sum().mark(x);
  }
  /// A fingerprint of the united index.
  std::uint64_t look() const { return print_of_index(words_.data(), values_); }
  void unite(std::uint64_t key) { sum().unite(key); }

  sparse_choice const& choice() const { return sum().choice(); }
  std::size_t lanes() const { return sum().lanes(choice().values); }
  void encode_lanes(std::span<float const> x, std::span<Lane> out, std::uint64_t key) const {
    sum().encode_lanes(x, out, key);
  }
  void decode_lanes(std::span<Lane const> reduced, std::span<float> x, std::uint64_t key) const {
    sum().decode_lanes(reduced, x, key);
  }

 private:
  static sparse_sum<Lane> sum_with(C const& codec, sparse_options options, reduce_op op) {
    options.op = op;
    return sparse_sum<Lane>(options, codec.strategies, codec.sketch);
  }
  sparse_sum<Lane>& sum() { return sums_[is_mean_]; }
  sparse_sum<Lane> const& sum() const { return sums_[is_mean_]; }

  std::size_t values_;
  sparse_sum<Lane> sums_[2];
  bool is_mean_ = false;
  std::span<std::uint64_t> words_;
};

/// On devices: the same index, choice and lanes. All spans are in the executor's memory. The host
/// waits for 24 bytes in look(). If a sketch is chosen, which requires integer lanes, the host also
/// waits like device_sketch; only the sketch allocates memory after construction. Additional
/// memory: 2.5 bits per value.
template <Sparse C, DeviceExecutor E> class sparse_phases<C, E> {
  using Lane = typename C::lane_type;

 public:
  /// @throws std::invalid_argument  no strategy is allowed, or sketches of floats, or as lhc
  sparse_phases(C const& codec, std::size_t values, sparse_options const& options, E& executor)
      : executor_(&executor),
        values_(values),
        options_(options),
        strategies_(possible(codec.strategies)),
        cells_per_value_(codec.sketch.cells_per_value),
        words_(sparse_index::words(values) * sizeof(std::uint64_t)),
        own_(sparse::index_words(values) * sizeof(std::uint64_t)),
        exponents_(runs() * sizeof(std::uint32_t)),
        index_(values),
        sketch_(values, codec.sketch, executor) {}

  /// @param x  with the number of values of the constructor
  std::span<std::uint64_t> mark(std::span<float const> x, reduce_op op) {
    options_.op = op;
    executor_->for_each_block(runs(), mark_runs{x.data(), values_, words(), at<std::uint64_t>(own_),
                                                at<std::uint32_t>(exponents_)});
    executor_->for_each_block(1, close_marks{at<std::uint32_t>(exponents_), runs(),
                                             words() + sparse::index_words(values_)});
    return {words(), sparse_index::words(values_)};
  }

  std::uint64_t look() {
    index_.count(*executor_, words(), at<std::uint64_t>(own_),
                 words() + sparse::index_words(values_));
    return index_.fetch(*executor_).print();
  }
  void unite(std::uint64_t key) {
    auto const& found = index_.summary();
    if (found.wrong_run != 0) {
      std::size_t const first = (found.wrong_run - 1) * run_values;
      throw wire_error(name() + ": the index of values " + std::to_string(first) + " to " +
                       std::to_string(std::min(values_, first + run_values) - 1) +
                       " lacks some that this rank has marked, or marks what is no value; is this "
                       "a result of a bitwise OR?");
    }
    if (found.exponent < 0)
      throw wire_error(name() + ": the index of " + std::to_string(values_) +
                       " values has no exponent; is this a result of a bitwise OR?");
    numbers_ =
        sparse::agreed_numbers<Lane>(C::name, static_cast<std::uint32_t>(found.exponent), options_);
    choice_ = choose_strategy(
        strategies_,
        {sparse_strategy::dense, values_, found.marked,
         sparse_index::words(values_) * sizeof(std::uint64_t), values_ * sizeof(Lane),
         found.marked * sizeof(Lane),
         lhc::sketch_plan::likely_cells(found.marked, cells_per_value_) * sizeof(Lane)});
    if constexpr (has_sketches)
      if (choice_.strategy == sparse_strategy::sketched) {
        sketch_.choose(places(), found.marked, key);
        choice_.sketched_bytes = sketch_.lanes() * sizeof(Lane);
      }
  }

  sparse_choice const& choice() const { return choice_; }
  std::size_t lanes() const {
    if constexpr (has_sketches)
      if (choice_.strategy == sparse_strategy::sketched) return sketch_.lanes();
    return choice_.strategy == sparse_strategy::packed ? choice_.marked : choice_.values;
  }

  void encode_lanes(std::span<float const> x, std::span<Lane> out, std::uint64_t /*key*/) {
    if constexpr (has_sketches)
      if (choice_.strategy == sparse_strategy::sketched)
        return sketch_.encode(numbers_, x.data(), out.data());
    if (choice_.strategy == sparse_strategy::packed)
      executor_->for_each_block(
          runs(), pack_runs<to_lane<Lane>>{{numbers_}, places(), values_, x.data(), out.data()});
    else
      executor_->for_each_block(
          runs(), convert_runs<to_lane<Lane>>{{numbers_}, values_, x.data(), out.data()});
  }
  /// @param reduced  overwritten if it is a sketch
  void decode_lanes(std::span<Lane> reduced, std::span<float> x, std::uint64_t /*key*/) {
    if constexpr (has_sketches)
      if (choice_.strategy == sparse_strategy::sketched)
        return sketch_.decode(numbers_, reduced.data(), x.data());
    if (choice_.strategy == sparse_strategy::packed)
      executor_->for_each_block(
          runs(),
          unpack_runs<to_value<Lane>>{{numbers_}, places(), values_, reduced.data(), x.data()});
    else
      executor_->for_each_block(
          runs(), convert_runs<to_value<Lane>>{{numbers_}, values_, reduced.data(), x.data()});
  }

 private:
  static std::string name() { return C::name; }
  static constexpr bool has_sketches = std::is_integral_v<Lane>;
  struct no_sketches {
    no_sketches(std::size_t, lhc_options const& sketch, E&) { require_possible(sketch); }
  };

  /// If packing is allowed, no sketch is chosen: it never takes fewer lanes.
  static sparse_strategies possible(sparse_strategies const& strategies) {
    if (!strategies.dense && !strategies.packed && !strategies.sketched)
      throw std::invalid_argument(name() +
                                  ": no strategy is allowed; enable dense, sparse_union or lhc");
    if (!has_sketches && strategies.sketched && !strategies.packed)
      throw std::invalid_argument(
          name() +
          ": lhc is allowed and sparse_union is not, but in a device's memory there are "
          "no sketches of floats; lanes of std::uint32_t or std::uint64_t have them");
    return strategies;
  }
  std::size_t runs() const { return runs_of(values_); }
  template <class T> static T* at(typename E::buffer& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  std::uint64_t* words() { return at<std::uint64_t>(words_); }
  packed_places places() { return {words(), index_.marks_before()}; }

  E* executor_;
  std::size_t values_;
  sparse_options options_;
  sparse_strategies strategies_;
  double cells_per_value_;
  typename E::buffer words_, own_, exponents_;
  device_index<E> index_;
  std::conditional_t<has_sketches, device_sketch<Lane, E>, no_sketches> sketch_;
  sparse::lane_numbers<Lane> numbers_;
  sparse_choice choice_;
};

}  // namespace hcomp::detail
