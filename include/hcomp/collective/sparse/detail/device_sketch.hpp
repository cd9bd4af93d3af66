#pragma once
/// @file
/// The sketch of a sparse reduction in device memory: choice, encoding and decoding.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/codec/sparse/detail/lhc_peel.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/collective/sparse/detail/device_index.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/sketch_runs.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <optional>
#include <type_traits>

namespace hcomp::detail {

/// Memory of an executor that grows when a request exceeds all earlier ones.
template <class T, Executor E> class growing_memory {
 public:
  /// Memory for `count` items. If it grows, its content is lost, and no pending work may use it.
  T* reserve(std::size_t count) {
    if (!memory_ || memory_->size() < count * sizeof(T))
      memory_.emplace((count + count / 8) * sizeof(T));
    return data();
  }
  /// Null before the first call of reserve.
  T* data() const { return memory_ ? reinterpret_cast<T*>(memory_->data()) : nullptr; }

 private:
  std::optional<typename E::buffer> memory_;
};

/// lhc on an executor: the same sketch, lanes and values. Only for integers, since sums of floats
/// would depend on the order of the threads. All pointers are to the executor's memory.
///
/// Order of calls: choose, whenever the index has changed; encode; decode. The host waits in
/// choose, mostly once per attempted sketch, and once in decode.
///
/// Memory: 8 bytes and a bit per cell and 8 bytes per marked value, allocated when their number
/// reaches a new maximum; 2.5 bits per value when values are first sent beside a sketch.
template <class Lane, DeviceExecutor E> class device_sketch {
  static_assert(std::is_unsigned_v<Lane>);

 public:
  /// @param values  per vector
  /// @throws std::invalid_argument  as lhc
  device_sketch(std::size_t values, lhc_options const& options, E& executor)
      : executor_(&executor),
        values_(values),
        options_(options),
        rounds_(lhc::most_rounds),
        used_(1) {
    require_possible(options);
  }

  /// Finds the sketch of an index. No work of this object may be pending.
  /// @param index   with exponents; must be unchanged until values are decoded
  /// @param marked  number of values it marks
  /// @throws std::invalid_argument  more cells than 31 bits can count
  void choose(packed_places const& index, std::size_t marked, std::uint64_t key) {
    index_ = index;
    marked_ = marked;
    chosen_ = lhc::sketch_plan::choose(
        marked, lhc::sketch_plan::cells_per_value(marked, options_.cells_per_value),
        options_.attempts, key,
        [&](lhc::cell_layout const& cells) { return peel_cells(cells, index.words, marked); });
    beside_ = marked - chosen_.progress.claims;
    sketched_ = index.words;
    if (beside_ > 0) separate(index.words);
  }

  std::size_t cells() const { return chosen_.cells.size(); }
  /// Values sent beside the sketch.
  std::size_t beside() const { return beside_; }
  std::size_t lanes() const { return cells() + beside(); }
  int attempts() const { return chosen_.attempts; }
  std::size_t rounds() const { return chosen_.progress.rounds; }
  /// In order of the claims, in the executor's memory.
  lhc::value_claim const* claims() const { return claims_.data(); }

  void encode(sparse::lane_numbers<Lane> const& numbers, float const* x, Lane* out) {
    executor_->for_each_block(runs_of(cells()), clear_runs<Lane>{out, cells()});
    if (cells() > 0)
      executor_->for_each_block(
          runs_of(values_), sketch_runs<Lane>{numbers, chosen_.cells, sketched_, values_, x, out});
    if (beside_ > 0)
      executor_->for_each_block(
          runs_of(values_), pack_runs<to_lane<Lane>>{{numbers}, left(), values_, x, out + cells()});
  }

  /// @param lanes  the reduced lanes; the sketch is overwritten
  /// @throws wire_error  cells hold more values than the index marks; x is unchanged
  void decode(sparse::lane_numbers<Lane> const& numbers, Lane* lanes, float* x) {
    float* const packed = recover(numbers, lanes);
    if (beside_ > 0)
      executor_->for_each_block(
          runs_of(values_),
          repack_runs<Lane>{{numbers}, left(), index_, values_, lanes + cells(), packed});
    executor_->for_each_block(runs_of(values_),
                              unpack_runs<as_it_is>{{}, index_, values_, packed, x});
  }

 private:
  /// Rounds enqueued before the host checks progress: most sketches take fewer, and rounds without
  /// claims take little time.
  static constexpr std::size_t rounds_at_once = 24;

  /// The number of shares for `claims` claims, or for those of one round: a SIMD lane each, up to
  /// twice the number that a large device runs at once.
  static std::size_t shares_of(std::size_t claims) {
    return std::min<std::size_t>((claims + 127) / 128, 4096);
  }

  lhc::peel_progress peel_cells(lhc::cell_layout const& cells, std::uint64_t const* words,
                                std::size_t marked) {
    if (marked == 0) return {0, 0};
    peeled_graph const peeled{cells,
                              {graph_.reserve(cells.size()), open_.reserve(lhc::open_words(cells)),
                               claims_.reserve(marked), rounds_.for_work()}};
    std::size_t const parts = peeled.parts(), shares = shares_of(marked);
    auto* const counts = counts_.reserve(parts);
    executor_->for_each_block(parts, open_parts{peeled});
    executor_->for_each_block(runs_of(values_), enter_runs{peeled, words, values_});
    for (std::size_t given = 0;;) {
      std::size_t const end = std::min(given + rounds_at_once, lhc::most_rounds);
      for (; given < end; ++given) {
        executor_->for_each_block(parts, find_claims_of_parts{peeled, counts});
        executor_->for_each_block(1, add_up_claims{peeled, given, counts});
        executor_->for_each_block(parts, write_claims_of_parts{peeled, counts});
        executor_->for_each_block(shares, take_claimed_shares{peeled, given, shares});
      }
      rounds_.fetch(*executor_, given);
      std::uint32_t const* const after = rounds_.for_host();
      std::size_t rounds = 0;
      while (rounds < given && after[rounds] > (rounds == 0 ? 0 : after[rounds - 1])) ++rounds;
      std::size_t const claims = rounds == 0 ? 0 : after[rounds - 1];
      if (rounds < given || claims == marked || given == lhc::most_rounds) return {claims, rounds};
    }
  }

  /// Separates the marked values into those in the sketch and those beside it.
  void separate(std::uint64_t const* words) {
    if (!left_) left_.emplace(values_);
    std::size_t const claims = chosen_.progress.claims, shares = shares_of(claims);
    executor_->for_each_block(
        runs_of(values_), copy_and_clear_runs{words, values_, left_->marks(), left_->sketched()});
    executor_->for_each_block(shares, move_claimed_shares{claims_.data(), claims, shares,
                                                          left_->marks(), left_->sketched()});
    left_->index.count(*executor_, left_->marks(), left_->marks(),
                       words + sparse::index_words(values_));
    sketched_ = left_->sketched();
  }
  packed_places left() { return {left_->marks(), left_->index.marks_before()}; }

  /// Reads the claims, each in its round from its cell. Returns their values, in the order of all
  /// marked values, in memory that peeling no longer uses.
  float* recover(sparse::lane_numbers<Lane> const& numbers, Lane* cells_of_sum) {
    auto* const packed = reinterpret_cast<float*>(graph_.reserve(marked_));
    *used_.for_host() = {0, 0};
    used_.send(*executor_, 1);
    std::size_t begin = 0;
    for (std::size_t r = 0; r < rounds(); ++r) {
      std::size_t const end = rounds_.for_host()[r], shares = shares_of(end - begin);
      executor_->for_each_block(
          shares, recover_shares<Lane>{numbers, chosen_.cells, claims_.data(), begin, end, shares,
                                       index_, cells_of_sum, packed, used_.for_work()});
      begin = end;
    }
    executor_->for_each_block(runs_of(cells()),
                              count_used_runs<Lane>{cells_of_sum, cells(), used_.for_work()});
    used_.fetch(*executor_, 1);
    lhc::require_empty(hcomp::lhc<Lane>::name, used_.for_host()->all - used_.for_host()->read,
                       cells());
    return packed;
  }

  /// The values sent beside the sketch.
  struct left_values {
    explicit left_values(std::size_t values)
        : memory(2 * sparse::index_words(values) * sizeof(std::uint64_t)),
          words(sparse::index_words(values)),
          index(values) {}
    std::uint64_t* marks() { return reinterpret_cast<std::uint64_t*>(memory.data()); }
    std::uint64_t* sketched() { return marks() + words; }

    typename E::buffer memory;
    std::size_t words;
    device_index<E> index;
  };

  E* executor_;
  std::size_t values_;
  lhc_options options_;
  growing_memory<std::uint64_t, E> graph_, open_;
  growing_memory<lhc::value_claim, E> claims_;
  growing_memory<std::uint32_t, E> counts_;
  mirror<std::uint32_t, E> rounds_;  ///< number of claims after each round
  mirror<used_cells, E> used_;
  std::optional<left_values> left_;
  lhc::sketch_choice chosen_{{0, 0}, {0, 0}, 0};
  packed_places index_{nullptr, nullptr};
  std::size_t marked_ = 0, beside_ = 0;
  std::uint64_t const* sketched_ = nullptr;  ///< the part of the index that is in the sketch
};

}  // namespace hcomp::detail
