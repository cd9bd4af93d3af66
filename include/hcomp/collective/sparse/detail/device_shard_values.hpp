#pragma once
/// @file
/// Work on the shards of sparse vectors in device memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/device_index.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/detail/shard_values.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// shard_values on devices. The host writes and checks headers, marks and checksums, and does not
/// touch values. The device marks, packs, adds and unpacks values, and copies lanes from and to
/// messages. The host waits for the marks, for the return values of write_part, write_sums and
/// write_values, and when it asks for NaN and infinity.
///
/// Memory on the device, allocated in the first call: 2 lanes and 5 bits per value, and a lane and
/// 2 bits per value of the shard.
template <Sparse C, DeviceExecutor E> class shard_values<C, E> final : public codec_shards<C> {
  using base = codec_shards<C>;
  using base::lanes_are_floats;
  using base::layout;
  using base::numbers;
  using base::strategies;
  using typename base::part_message;
  using typename base::sum_message;
  using Lane = typename C::lane_type;

 public:
  shard_values(C const& codec, shard_layout const& layout, plan_options const& options, E& executor)
      : base(codec, layout, options), executor_(&executor) {}

  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename E::staging>, bytes};
  }

  void start() override {
    if (!memory_) {
      memory_ = std::make_unique<device_memory>(layout());
      leaving_.resize(layout().ranks);
    }
    executor_->wait(copied_);
    arrived_ = 0;
  }

  exponent_bits mark(std::span<float const> x) override {
    find(x);
    exponent_bits found;
    std::copy_n(own().for_host() + layout().words(), found.size(), found.begin());
    return found;
  }

  void begin_parts(std::span<float const> x) override {
    if constexpr (lanes_are_floats) find(x);
  }
  /// Enqueues the work, so that one part is packed and copied while other parts are written.
  void prepare_part(std::size_t owner, std::span<float const> x, block_origin const& origin,
                    std::byte* out) override {
    auto const s = layout().of(owner);
    std::uint64_t const begin = begins()[owner];
    auto const marked = static_cast<std::size_t>(begins()[owner + 1] - begin);
    bool const all = sends_all<part_message>(strategies(), s.count, marked);
    Lane* const lanes = at<Lane>(memory_->lanes) + s.first;
    if (all)
      executor_->for_each_block(
          runs_of(s.count),
          convert_runs<to_lane<Lane>>{{numbers()}, s.count, x.data() + s.first, lanes});
    else  // the shard is preceded by at least `begin` values
      executor_->for_each_block(
          runs_of(s.count),
          pack_runs<to_lane<Lane>>{
              {numbers()},
              {own().for_work() + s.words.first, memory_->index.marks_before() + s.words.first},
              s.count,
              x.data() + s.first,
              lanes - begin});
    leaving_[owner] =
        all ? read_lanes(lanes, s.count, part_message::begin_dense(s.count, origin, out), out)
            : read_lanes(lanes, marked,
                         part_message::begin_packed(own_marks(s), marked, s.count, origin, out),
                         out);
  }
  std::size_t write_part(std::size_t owner, std::span<float const>, block_origin const&,
                         std::byte* out) override {
    return finish<part_message>(leaving_[owner], out);
  }
  void end_parts(std::span<float const>) override {}

  block_fault take_part(std::size_t sender, std::span<std::byte const> message,
                        block_origin const& origin) override {
    auto const s = layout().mine();
    auto& marks = memory_->marks_of_parts;
    std::size_t const first = sender * s.words.count;
    auto const came = part_message::read(message, s.count, origin, marks.for_host() + first);
    if (came.fault != block_fault::none) return came.fault;
    marks.send(*executor_, s.words.count, first);
    copied_ = executor_->write(reinterpret_cast<std::byte*>(lanes_of_part(sender)), came.lanes,
                               came.marked * sizeof(Lane));
    return came.fault;
  }
  void add_up(std::span<float const> x) override {
    auto const s = layout().mine();
    std::size_t const runs = runs_of(s.count);
    executor_->for_each_block(runs, begin_sums<Lane>{own().for_work() + s.words.first, s.count,
                                                     memory_->marks.for_work(), sums()});
    for (std::size_t r = 0; r < layout().ranks; ++r) {
      if (r == layout().rank) {
        executor_->for_each_block(
            runs, add_own_part<Lane>{numbers(), s.count, x.data() + s.first, sums()});
      } else {
        std::uint64_t const* const words = memory_->marks_of_parts.for_work() + r * s.words.count;
        count(memory_->index_of_shard, words);
        executor_->for_each_block(runs,
                                  add_part<Lane>{{words, memory_->index_of_shard.marks_before()},
                                                 s.count,
                                                 lanes_of_part(r),
                                                 memory_->marks.for_work(),
                                                 sums()});
      }
    }
  }
  nonfinite_words nonfinite_sums() override {
    if constexpr (lanes_are_floats) return nonfinite_in(sums());
    return {};
  }
  void read_sums(std::span<float> x) override {
    auto const s = layout().mine();
    executor_->for_each_block(
        runs_of(s.count),
        convert_runs<to_value<Lane>>{{numbers()}, s.count, sums(), x.data() + s.first});
  }

  std::size_t write_sums(block_origin const& origin, std::byte* out) override {
    auto const s = layout().mine();
    auto& index = memory_->index_of_shard;
    auto& marks = memory_->marks;
    count(index, marks.for_work());
    marks.fetch(*executor_, s.words.count);
    auto const marked = static_cast<std::size_t>(index.fetch(*executor_).marked);
    float* const values = at<float>(memory_->lanes);
    if (sends_all<sum_message>(strategies(), s.count, marked)) {
      executor_->for_each_block(runs_of(s.count),
                                convert_runs<to_value<Lane>>{{numbers()}, s.count, sums(), values});
      return finish<sum_message>(
          read_lanes(values, s.count, sum_message::begin_dense(s.count, origin, out), out), out);
    }
    executor_->for_each_block(
        runs_of(s.count),
        pack_runs<to_value<Lane>>{
            {numbers()}, {marks.for_work(), index.marks_before()}, s.count, sums(), values});
    std::span<std::uint64_t const> const all(marks.for_host(), s.words.count);
    return finish<sum_message>(
        read_lanes(values, marked, sum_message::begin_packed(all, marked, s.count, origin, out),
                   out),
        out);
  }
  typename sum_message::content take_sums(std::size_t owner, std::span<std::byte const> message,
                                          block_origin const& origin) override {
    auto const s = layout().of(owner);
    auto& marks = memory_->marks_of_sums;
    std::uint64_t* const here = marks.for_host() + s.words.first;
    auto const came = sum_message::read(message, s.count, origin, here);
    if (came.fault != block_fault::none) return came;
    if (!contains({here, s.words.count}, own_marks(s))) return {block_fault::ranks};
    marks.send(*executor_, s.words.count, s.words.first);
    float* const values = at<float>(memory_->lanes) + arrived_;  // shards are contiguous
    copied_ = executor_->write(reinterpret_cast<std::byte*>(values), came.lanes,
                               came.marked * sizeof(float));
    arrived_ += came.marked;
    return came;
  }
  void write(std::span<float> x) override {
    std::uint64_t const* const words = memory_->marks_of_sums.for_work();
    count(memory_->index, words);
    executor_->for_each_block(runs_of(layout().values),
                              unpack_runs<as_it_is>{{},
                                                    {words, memory_->index.marks_before()},
                                                    layout().values,
                                                    at<float>(memory_->lanes),
                                                    x.data()});
  }

  std::size_t write_values(std::span<float const> x, block_origin const& origin,
                           std::byte* out) override {
    auto const s = layout().mine();
    return finish<sum_message>(
        read_lanes(x.data() + s.first, s.count,
                   sum_message::begin_dense(s.count, origin, out, codec_ids::values), out),
        out);
  }
  nonfinite_words nonfinite_values(std::span<float const> x) override {
    return nonfinite_in(x.data() + layout().mine().first);
  }
  void read_values(std::size_t owner, std::byte const* message, std::span<float> x) override {
    auto const s = layout().of(owner);
    copied_ = executor_->write(reinterpret_cast<std::byte*>(x.data() + s.first),
                               message + block_header_bytes, s.count * sizeof(float));
  }

 private:
  struct device_memory {
    /// Own marks, exponents, and the result of count_before_shards.
    mirror<std::uint64_t, E> own;
    mirror<std::uint64_t, E> marks_of_parts;  ///< of this rank's shard, by rank
    mirror<std::uint64_t, E> marks;           ///< union of all ranks
    mirror<std::uint64_t, E> marks_of_sums;   ///< of all shards
    mirror<nonfinite_words, E> nonfinite;     ///< by run of this rank's shard
    typename E::buffer exponents;
    typename E::buffer lanes;  ///< of parts to send; then reduced lanes to send; then received ones
    typename E::buffer lanes_of_parts;  ///< received
    typename E::buffer sums;            ///< of this rank's shard
    device_index<E> index, index_of_shard;

    explicit device_memory(shard_layout const& layout)
        : own(layout.words() + sparse::exponent_words + layout.ranks + 1),
          marks_of_parts(layout.ranks * layout.mine().words.count),
          marks(layout.mine().words.count),
          marks_of_sums(layout.words()),
          nonfinite(runs_of(layout.mine().count)),
          exponents(runs_of(layout.values) * sizeof(std::uint32_t)),
          lanes(layout.values * sizeof(Lane)),
          lanes_of_parts((layout.ranks - 1) * layout.mine().count * sizeof(Lane)),
          sums(layout.mine().count * sizeof(Lane)),
          index(layout.values),
          index_of_shard(layout.mine().count) {}
  };

  template <class T> static T* at(typename E::buffer& memory) {
    return reinterpret_cast<T*>(memory.data());
  }
  Lane* sums() { return at<Lane>(memory_->sums); }
  Lane* lanes_of_part(std::size_t sender) {
    return at<Lane>(memory_->lanes_of_parts) +
           (sender - (sender > layout().rank)) * layout().mine().count;
  }
  mirror<std::uint64_t, E>& own() { return memory_->own; }
  std::span<std::uint64_t const> own_marks(sparse_shard const& s) {
    return {own().for_host() + s.words.first, s.words.count};
  }
  std::uint64_t const* begins() {
    return own().for_host() + layout().words() + sparse::exponent_words;
  }

  void count(device_index<E>& index, std::uint64_t const* words) {
    index.count(*executor_, words, words, own().for_work() + layout().words());
  }
  /// Reads the marks of all shards, and their counts, to the host.
  void find(std::span<float const> x) {
    std::size_t const runs = runs_of(layout().values), words = layout().words();
    std::uint64_t* const marks = own().for_work();
    auto* const exponents = at<std::uint32_t>(memory_->exponents);
    executor_->for_each_block(runs, mark_runs{x.data(), layout().values, marks, marks, exponents});
    executor_->for_each_block(1, close_marks{exponents, runs, marks + words});
    count(memory_->index, marks);
    executor_->for_each_block(
        1, count_before_shards{marks, memory_->index.marks_before(), words, layout().ranks,
                               marks + words + sparse::exponent_words});
    own().fetch(*executor_, words + sparse::exponent_words + layout().ranks + 1);
  }

  /// A message whose lanes are being copied.
  struct unfinished {
    typename E::mark copied{};
    std::size_t bytes = 0;
  };
  /// Enqueues a copy of lanes to their position in a message.
  template <class T>
  unfinished read_lanes(T const* lanes, std::size_t count, std::size_t begin, std::byte* message) {
    std::size_t const bytes = count * sizeof(T);
    return {executor_->read(message + begin, reinterpret_cast<std::byte const*>(lanes), bytes),
            begin + bytes};
  }
  template <class Message> std::size_t finish(unfinished const& one, std::byte* message) {
    executor_->wait(one.copied);
    return Message::close(one.bytes, message);
  }

  nonfinite_words nonfinite_in(float const* x) {
    auto const s = layout().mine();
    std::size_t const runs = runs_of(s.count);
    executor_->for_each_block(runs, find_nonfinite_runs{x, s.count, memory_->nonfinite.for_work()});
    memory_->nonfinite.fetch(*executor_, runs);
    nonfinite_words found;
    for (std::size_t r = 0; r < runs; ++r) found.merge(memory_->nonfinite.for_host()[r]);
    return found;
  }

  E* executor_;
  std::unique_ptr<device_memory> memory_;
  std::vector<unfinished> leaving_;  ///< by owner
  std::size_t arrived_ = 0;          ///< received values of reduced shards
  typename E::mark copied_{};        ///< the last message was copied to the device
};

}  // namespace hcomp::detail
