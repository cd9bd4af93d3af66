#pragma once
/// @file
/// The marks, lanes and sums of the shards of sparse vectors in device memory.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/collective/sparse/detail/device_index.hpp>
#include <hcomp/collective/sparse/detail/shard_lanes.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <span>
#include <type_traits>

namespace hcomp::detail {

/// shard_lanes on devices. The host writes and checks headers, marks and checksums, and does not
/// touch values. The device marks, packs, adds and unpacks values, and copies lanes from and to
/// messages. The host waits for the marks, in `wait`, and when it asks for NaN and infinity.
///
/// Memory on the device, allocated in the first call: 2 lanes and 5 bits per value, and a lane and
/// 2 bits per value of the shard.
template <class Lane, DeviceExecutor E> class shard_lanes<Lane, E> {
  using numbers_of_call = sparse::lane_numbers<Lane>;
  using copy_mark = std::array<std::uint64_t, 2>;
  using mark_type = typename E::mark;

 public:
  using message_memory = typename E::staging;

  shard_lanes(shard_layout const& layout, E& executor)
      : layout_(layout),
        executor_(&executor),
        own_(layout.words() + sparse::exponent_words + layout.ranks + 1),
        marks_of_parts_(layout.ranks * layout.mine().words.count),
        marks_(layout.mine().words.count),
        marks_of_sums_(layout.words()),
        nonfinite_(runs_of(layout.mine().count)),
        exponents_(runs_of(layout.values) * sizeof(std::uint32_t)),
        lanes_(layout.values * sizeof(Lane)),
        lanes_of_parts_((layout.ranks - 1) * layout.mine().count * sizeof(Lane)),
        sums_(layout.mine().count * sizeof(Lane)),
        index_(layout.values),
        index_of_shard_(layout.mine().count) {}

  /// Waits for copies of the last call's messages.
  void start() {
    executor_->wait(copied_);
    arrived_ = 0;
  }

  /// Reads the marks of all shards, and their counts, to the host.
  exponent_bits mark(std::span<float const> x) {
    std::size_t const runs = runs_of(layout_.values), words = layout_.words();
    std::uint64_t* const marks = own_.for_work();
    auto* const exponents = at<std::uint32_t>(exponents_);
    executor_->for_each_block(runs, mark_runs{x.data(), layout_.values, marks, marks, exponents});
    executor_->for_each_block(1, close_marks{exponents, runs, marks + words});
    count(index_, marks);
    executor_->for_each_block(
        1, count_before_shards{marks, index_.marks_before(), words, layout_.ranks,
                               marks + words + sparse::exponent_words});
    own_.fetch(*executor_, words + sparse::exponent_words + layout_.ranks + 1);
    exponent_bits found;
    std::copy_n(own_.for_host() + words, found.size(), found.begin());
    return found;
  }
  void mark_part(std::size_t /*owner*/, std::span<float const> /*x*/) {}
  marked_words own_marks(std::size_t owner) const {
    auto const s = layout_.of(owner);
    return {{own_.for_host() + s.words.first, s.words.count},
            static_cast<std::size_t>(begins()[owner + 1] - begins()[owner])};
  }

  template <class Begin>
  copy_mark write_part(std::size_t owner, std::span<float const> x, bool all,
                       numbers_of_call const& numbers, Begin const& begin) {
    auto const s = layout_.of(owner);
    Lane* const lanes = at<Lane>(lanes_) + s.first;
    if (all) {
      convert(to_lane<Lane>{numbers}, s.count, x.data() + s.first, lanes);
      return read(lanes, s.count, begin());
    }
    packed_places const places{own_.for_work() + s.words.first,
                               index_.marks_before() + s.words.first};
    // the shard is preceded by at least begins()[owner] values
    pack(to_lane<Lane>{numbers}, places, s.count, x.data() + s.first, lanes - begins()[owner]);
    return read(lanes, own_marks(owner).marked, begin());
  }
  void wait(copy_mark const& copied) {
    mark_type mark;
    std::memcpy(static_cast<void*>(&mark), &copied, sizeof(mark));
    executor_->wait(mark);
  }

  std::uint64_t* marks_of_part(std::size_t rank) {
    return marks_of_parts_.for_host() + rank * layout_.mine().words.count;
  }
  void take_part(std::size_t rank, typename shard_message<Lane>::content const& part) {
    std::size_t const words = layout_.mine().words.count;
    marks_of_parts_.send(*executor_, words, rank * words);
    copied_ = executor_->write(reinterpret_cast<std::byte*>(lanes_of_part(rank)), part.lanes,
                               part.marked * sizeof(Lane));
  }
  void add_up(std::span<float const> x, numbers_of_call const& numbers) {
    auto const s = layout_.mine();
    std::size_t const runs = runs_of(s.count);
    executor_->for_each_block(runs, begin_sums<Lane>{own_.for_work() + s.words.first, s.count,
                                                     marks_.for_work(), sums()});
    for (std::size_t r = 0; r < layout_.ranks; ++r) {
      if (r == layout_.rank) {
        executor_->for_each_block(runs,
                                  add_own_part<Lane>{numbers, s.count, x.data() + s.first, sums()});
      } else {
        std::uint64_t const* const words = marks_of_parts_.for_work() + r * s.words.count;
        count(index_of_shard_, words);
        executor_->for_each_block(runs, add_part<Lane>{{words, index_of_shard_.marks_before()},
                                                       s.count,
                                                       lanes_of_part(r),
                                                       marks_.for_work(),
                                                       sums()});
      }
    }
  }
  nonfinite_words nonfinite_sums() { return nonfinite_values({sums(), layout_.mine().count}); }
  nonfinite_words nonfinite_values(std::span<float const> values) {
    std::size_t const runs = runs_of(values.size());
    executor_->for_each_block(
        runs, find_nonfinite_runs{values.data(), values.size(), nonfinite_.for_work()});
    nonfinite_.fetch(*executor_, runs);
    nonfinite_words found;
    for (std::size_t r = 0; r < runs; ++r) found.merge(nonfinite_.for_host()[r]);
    return found;
  }

  marked_words marks_of_sums() {
    std::size_t const words = layout_.mine().words.count;
    count(index_of_shard_, marks_.for_work());
    marks_.fetch(*executor_, words);
    return {{marks_.for_host(), words},
            static_cast<std::size_t>(index_of_shard_.fetch(*executor_).marked)};
  }
  template <class Begin>
  copy_mark write_sums(bool all, numbers_of_call const& numbers, Begin const& begin) {
    std::size_t const values = layout_.mine().count;
    float* const lanes = at<float>(lanes_);
    if (all) {
      convert(to_value<Lane>{numbers}, values, sums(), lanes);
      return read(lanes, values, begin());
    }
    pack(to_value<Lane>{numbers}, {marks_.for_work(), index_of_shard_.marks_before()}, values,
         sums(), lanes);
    return read(lanes, static_cast<std::size_t>(index_of_shard_.summary().marked), begin());
  }
  void read_sums(numbers_of_call const& numbers, std::span<float> x) {
    auto const s = layout_.mine();
    convert(to_value<Lane>{numbers}, s.count, sums(), x.data() + s.first);
  }

  std::uint64_t* marks_of_sums(sparse_shard const& s) {
    return marks_of_sums_.for_host() + s.words.first;
  }
  /// The lanes of shards are contiguous: shards come in the order of their owners.
  void take_sums(sparse_shard const& s, shard_message<float>::content const& sums) {
    marks_of_sums_.send(*executor_, s.words.count, s.words.first);
    write_values(sums.lanes, sums.marked, at<float>(lanes_) + arrived_);
    arrived_ += sums.marked;
  }
  void write(std::span<std::byte const* const> /*lanes*/, std::span<float> x) {
    std::uint64_t const* const words = marks_of_sums_.for_work();
    count(index_, words);
    executor_->for_each_block(
        runs_of(layout_.values),
        unpack_runs<as_it_is>{
            {}, {words, index_.marks_before()}, layout_.values, at<float>(lanes_), x.data()});
  }

  template <class T> copy_mark read(T const* lanes, std::size_t count, std::byte* to) {
    static_assert(std::is_trivially_copyable_v<mark_type> &&
                  sizeof(mark_type) <= sizeof(copy_mark));
    auto const mark =
        executor_->read(to, reinterpret_cast<std::byte const*>(lanes), count * sizeof(T));
    copy_mark copied{};
    std::memcpy(&copied, &mark, sizeof(mark));
    return copied;
  }
  void write_values(std::byte const* values, std::size_t count, float* to) {
    copied_ = executor_->write(reinterpret_cast<std::byte*>(to), values, count * sizeof(float));
  }

 private:
  template <class T> static T* at(typename E::buffer& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  Lane* sums() { return at<Lane>(sums_); }
  Lane* lanes_of_part(std::size_t sender) {
    return at<Lane>(lanes_of_parts_) + (sender - (sender > layout_.rank)) * layout_.mine().count;
  }
  /// Number of values marked before each shard.
  std::uint64_t const* begins() const {
    return own_.for_host() + layout_.words() + sparse::exponent_words;
  }

  void count(device_index<E>& index, std::uint64_t const* words) {
    index.count(*executor_, words, words, own_.for_work() + layout_.words());
  }
  template <class Convert>
  void convert(Convert const& by, std::size_t values, typename Convert::from const* in,
               typename Convert::to* out) {
    executor_->for_each_block(runs_of(values), convert_runs<Convert>{by, values, in, out});
  }
  template <class Convert>
  void pack(Convert const& by, packed_places const& places, std::size_t values,
            typename Convert::from const* in, typename Convert::to* out) {
    executor_->for_each_block(runs_of(values), pack_runs<Convert>{by, places, values, in, out});
  }

  shard_layout layout_;
  E* executor_;
  mirror<std::uint64_t, E> own_;  ///< own marks, exponents, result of count_before_shards
  mirror<std::uint64_t, E> marks_of_parts_;  ///< of this rank's shard, by rank
  mirror<std::uint64_t, E> marks_;           ///< union of all ranks
  mirror<std::uint64_t, E> marks_of_sums_;   ///< of all shards
  mirror<nonfinite_words, E> nonfinite_;     ///< by run of this rank's shard
  typename E::buffer exponents_;
  typename E::buffer lanes_;  ///< of parts to send; then reduced lanes to send; then received ones
  typename E::buffer lanes_of_parts_;  ///< received
  typename E::buffer sums_;            ///< of this rank's shard
  device_index<E> index_, index_of_shard_;
  std::size_t arrived_ = 0;  ///< received values of reduced shards
  mark_type copied_{};       ///< the last message was copied to the device
};

}  // namespace hcomp::detail
