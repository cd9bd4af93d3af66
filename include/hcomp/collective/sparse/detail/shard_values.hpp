#pragma once
/// @file
/// Work on the shards of sparse vectors: one definition for hosts and devices, with the arrays of
/// shard_lanes.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/device_shard_lanes.hpp>
#include <hcomp/collective/sparse/detail/shard_lanes.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/exec/executor.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::detail {

template <Sparse C, Executor E> class shard_values final : public shard_work {
  using Lane = typename C::lane_type;
  using part_message = shard_message<Lane>;  ///< to owners
  static constexpr bool lanes_are_floats = std::is_same_v<Lane, float>;

 public:
  shard_values(C const& codec, shard_layout const& layout, plan_options const& options, E& executor)
      : layout_(layout),
        mine_(layout.mine()),
        strategies_(codec.strategies),
        refuses_nonfinite_(options.nonfinite == nonfinite_policy::throw_error),
        executor_(&executor) {}

  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename shard_lanes<Lane, E>::message_memory>, bytes};
  }

  std::optional<exponent_bits> start(operation what, std::span<float> x, reduce_op op) override {
    what_ = what;
    x_ = x;
    op_ = op;
    missing_ = what == operation::all_gather ? 1 : layout_.ranks;
    decoded_.resize(layout_.ranks);
    if (!lanes_) lanes_.emplace(layout_, *executor_);
    lanes_->start();
    if (what == operation::all_gather) return {};
    auto const exponents = lanes_->mark(x);
    if (lanes_are_floats) return {};
    return exponents;
  }

  encoded_shard encode_part(std::size_t owner, std::uint32_t unit, block_origin const& origin,
                            std::byte* out) override {
    auto const s = layout_.of(owner);
    lanes_->mark_part(owner, x_);
    return encode<part_message>(lanes_->own_marks(owner), s.count, origin, out,
                                [&](bool all, auto const& begin) {
                                  return lanes_->write_part(owner, x_, all, numbers(unit), begin);
                                });
  }
  void wait(encoded_shard const& message) override { lanes_->wait(message.copied); }

  encoded_findings add_part(std::size_t rank, std::uint32_t unit,
                            std::span<std::byte const> message,
                            block_origin const& origin) override {
    bool const is_sum = what_ != operation::all_gather;
    encoded_findings found;
    if (rank != layout_.rank) {
      auto const came =
          part_message::read(message, mine_.count, origin, lanes_->marks_of_part(rank));
      if (came.fault != block_fault::none) {
        found.damaged = mine_.words.first;
        found.fault = static_cast<std::uint64_t>(came.fault);
        return found;
      }
      lanes_->take_part(rank, came);
    } else if (is_sum) {
      lanes_->mark_part(rank, x_);
    }
    if (--missing_ > 0) return found;
    if (is_sum) lanes_->add_up(x_, numbers(unit));
    if (!refuses_nonfinite_) return found;
    nonfinite_words words;
    if (!is_sum)
      words = lanes_->nonfinite_values(x_.subspan(mine_.first, mine_.count));
    else if constexpr (lanes_are_floats)  // integers have finite inputs
      words = lanes_->nonfinite_sums();
    found.nonfinite_blocks = words.count;
    if (words.count > 0) found.nonfinite = mine_.words.first + words.first;
    return found;
  }

  encoded_shard encode_sums(std::uint32_t unit, block_origin const& origin,
                            std::byte* out) override {
    if (what_ == operation::all_gather) {
      std::size_t const at = sum_message::begin_dense(mine_.count, origin, out, codec_ids::values);
      return {sum_message::dense_bytes(mine_.count),
              lanes_->read(x_.data() + mine_.first, mine_.count, out + at)};
    }
    return encode<sum_message>(
        lanes_->marks_of_sums(), mine_.count, origin, out,
        [&](bool all, auto const& begin) { return lanes_->write_sums(all, numbers(unit), begin); });
  }
  sum_message::content decode_sums(std::size_t owner, std::span<std::byte const> message,
                                   block_origin const& origin) override {
    auto const s = layout_.of(owner);
    if (what_ == operation::all_gather) {
      decoded_[owner] = message.data() + block_header_bytes;
      return {sum_message::fault_of_dense(message, s.count, origin, codec_ids::values)};
    }
    std::span const marks(lanes_->marks_of_sums(s), s.words.count);
    auto const came = sum_message::read(message, s.count, origin, marks.data());
    if (came.fault != block_fault::none) return came;
    if (!contains(marks, lanes_->own_marks(owner).words)) return {block_fault::ranks};
    decoded_[owner] = came.lanes;
    lanes_->take_sums(s, came);
    return came;
  }
  void write(std::uint32_t unit) override {
    if (what_ == operation::all_reduce) return lanes_->write(decoded_, x_);
    if (what_ == operation::reduce_scatter) {
      if (mine_.count > 0) lanes_->read_sums(numbers(unit), x_);
      return;
    }
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      auto const s = layout_.of(owner);
      if (owner != layout_.rank && s.count > 0)
        lanes_->write_values(decoded_[owner], s.count, x_.data() + s.first);
    }
  }

 private:
  sparse::lane_numbers<Lane> numbers(std::uint32_t unit) const {
    auto const ranks = static_cast<std::uint32_t>(layout_.ranks);
    return {unit, ranks, op_ == reduce_op::mean ? ranks : 1};
  }
  /// Whether a message contains all values of a shard.
  template <class Message> bool sends_all(std::size_t values, std::size_t marked) const {
    if (!strategies_.dense || !(strategies_.packed || strategies_.sketched))
      return strategies_.dense;
    return static_cast<double>(Message::packed_bytes(values, marked)) >=
           strategies_.worthwhile * static_cast<double>(Message::dense_bytes(values));
  }
  /// Whether `all` includes all marks of `some`.
  static bool contains(std::span<std::uint64_t const> all, std::span<std::uint64_t const> some) {
    std::uint64_t missing = 0;
    for (std::size_t w = 0; w < some.size(); ++w) missing |= some[w] & ~all[w];
    return missing == 0;
  }
  /// Writes a message.
  /// @param write  (whether all values are sent, begin): writes the lanes; see shard_lanes
  template <class Message, class Write>
  encoded_shard encode(marked_words const& marks, std::size_t values, block_origin const& origin,
                       std::byte* out, Write const& write) const {
    bool const all = sends_all<Message>(values, marks.marked);
    encoded_shard message;
    message.copied = write(all, [&] {
      message.bytes = all ? Message::begin_dense(values, origin, out)
                          : Message::begin_packed(marks.words, marks.marked, values, origin, out);
      return out + message.bytes;
    });
    message.bytes += (all ? values : marks.marked) * Message::lane_bytes;
    return message;
  }

  shard_layout layout_;
  sparse_shard mine_;
  sparse_strategies strategies_;
  bool refuses_nonfinite_;
  E* executor_;
  std::optional<shard_lanes<Lane, E>> lanes_;  ///< made in the first call
  // of one call
  operation what_ = operation::all_reduce;
  reduce_op op_ = reduce_op::sum;
  std::span<float> x_;
  std::size_t missing_ = 0;                ///< parts that are not added yet
  std::vector<std::byte const*> decoded_;  ///< by owner
};

}  // namespace hcomp::detail
