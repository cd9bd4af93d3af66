#pragma once
/// @file
/// Work on the shards of sparse vectors in host memory: values are marked, written into messages,
/// added and unpacked. For devices: device_shard_values.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/own_values.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/packed_sums.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Whether a message contains all values of a shard.
template <class Message>
bool sends_all(sparse_strategies const& strategies, std::size_t values, std::size_t marked) {
  if (!strategies.dense || !(strategies.packed || strategies.sketched)) return strategies.dense;
  return static_cast<double>(Message::packed_bytes(values, marked)) >=
         strategies.worthwhile * static_cast<double>(Message::dense_bytes(values));
}

/// Whether `all` includes all marks of `some`.
inline bool contains(std::span<std::uint64_t const> all, std::span<std::uint64_t const> some) {
  std::uint64_t missing = 0;
  for (std::size_t w = 0; w < some.size(); ++w) missing |= some[w] & ~all[w];
  return missing == 0;
}

/// Common to hosts and devices.
template <Sparse C> class codec_shards : public shard_work {
 public:
  using lane_type = typename C::lane_type;
  using part_message = shard_message<lane_type>;  ///< to owners
  static constexpr bool lanes_are_floats = std::is_same_v<lane_type, float>;

  codec_shards(C const& codec, shard_layout const& layout, plan_options const& options)
      : layout_(layout), strategies_(codec.strategies), nonfinite_(options.nonfinite) {}

  std::size_t most_bytes_of_part(std::size_t values) const final {
    return part_message::most_bytes(values);
  }
  bool needs_units() const final { return !lanes_are_floats; }
  void set_units(exponent_bits const& exponents, reduce_op op) final {
    auto const largest = lanes_are_floats ? 0 : sparse::largest_of(exponents.data());
    numbers_ = sparse::agreed_numbers<lane_type>(
        C::name, static_cast<std::uint32_t>(largest),
        {static_cast<std::uint32_t>(layout_.ranks), op, nonfinite_});
  }

 protected:
  shard_layout const& layout() const { return layout_; }
  sparse_strategies const& strategies() const { return strategies_; }
  /// The meaning of lanes in this call.
  sparse::lane_numbers<lane_type> const& numbers() const { return numbers_; }

 private:
  shard_layout layout_;
  sparse_strategies strategies_;
  nonfinite_policy nonfinite_;
  sparse::lane_numbers<lane_type> numbers_;
};

/// shard_values on hosts.
template <Sparse C, Executor E> class shard_values final : public codec_shards<C> {
  using base = codec_shards<C>;
  using base::lanes_are_floats;
  using base::layout;
  using base::numbers;
  using base::strategies;
  using typename base::part_message;
  using typename base::sum_message;
  using Lane = typename C::lane_type;

 public:
  shard_values(C const& codec, shard_layout const& layout, plan_options const& options,
               E& /*executor*/)
      : base(codec, layout, options) {}

  any_buffer allocate(std::size_t bytes) override {
    return {std::in_place_type<typename E::buffer>, bytes};
  }

  void start() override {
    if (!own_.empty()) return;
    own_.resize(layout().ranks);
    lanes_of_sums_.resize(layout().ranks);
    words_.resize(layout().words() + sparse::exponent_words);
    packed_ = packed_sums<Lane>(layout().mine().words.count, layout().ranks);
    own_lanes_.reserve(layout().mine().count);
    values_to_send_.reserve(layout().mine().count);
  }

  exponent_bits mark(std::span<float const> x) override {
    exponent_bits all{};
    for (std::size_t owner = 0; owner < layout().ranks; ++owner) {
      mark_shard(owner, x);
      auto const* const found = words_.data() + layout().of(owner).words.count;
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= found[i];
    }
    return all;
  }

  void begin_parts(std::span<float const>) override {}
  void prepare_part(std::size_t, std::span<float const>, block_origin const&, std::byte*) override {
  }
  /// Floats need no common unit. They are marked here, so that some shards travel while other
  /// shards are marked.
  std::size_t write_part(std::size_t owner, std::span<float const> x, block_origin const& origin,
                         std::byte* out) override {
    auto const s = layout().of(owner);
    if constexpr (lanes_are_floats) mark_shard(owner, x);
    auto const values = own_[owner].values();
    if (sends_all<part_message>(strategies(), s.count, values.size()))
      return part_message::write_dense(numbers(), x.subspan(s.first, s.count), origin, out);
    return part_message::write_packed(numbers(), own_[owner].marks(), values, s.count, origin, out);
  }
  void end_parts(std::span<float const> x) override {
    if constexpr (lanes_are_floats) mark_shard(layout().rank, x);
  }

  block_fault take_part(std::size_t sender, std::span<std::byte const> message,
                        block_origin const& origin) override {
    auto const part = part_message::read(message, layout().mine().count, origin,
                                         packed_.marks_of_part(sender).data());
    packed_.set_lanes_of_part(sender, part.lanes);
    return part.fault;
  }
  void add_up(std::span<float const> /*x*/) override {
    auto const own = own_[layout().rank].values();
    own_lanes_.resize(own.size());
    std::transform(own.begin(), own.end(), own_lanes_.begin(),
                   [numbers = this->numbers()](float value) { return numbers.lane(value); });
    packed_.set_lanes_of_part(layout().rank, reinterpret_cast<std::byte const*>(own_lanes_.data()));
    auto const marks = own_[layout().rank].marks();
    std::copy(marks.begin(), marks.end(), packed_.marks_of_part(layout().rank).begin());
    packed_.add_up();
  }
  nonfinite_words nonfinite_sums() override {
    nonfinite_words found;
    if constexpr (lanes_are_floats) find_nonfinite(packed_.sums(), found);
    return found;
  }
  void read_sums(std::span<float> x) override {
    auto const s = layout().mine();
    float* const out = x.data() + s.first;
    std::fill_n(out, s.count, 0.0f);
    packed_.for_each(
        [out, numbers = this->numbers()](std::size_t i, Lane sum) { out[i] = numbers.value(sum); });
  }

  std::size_t write_sums(block_origin const& origin, std::byte* out) override {
    auto const numbers = this->numbers();  // a copy shows the compiler that no store changes it
    std::size_t const count = layout().mine().count;
    auto const sums = packed_.sums();
    if (sends_all<sum_message>(strategies(), count, sums.size())) {
      values_to_send_.assign(count, 0.0f);
      packed_.for_each([&](std::size_t i, Lane sum) { values_to_send_[i] = numbers.value(sum); });
      return sum_message::write_dense({}, values_to_send_, origin, out);
    }
    values_to_send_.resize(sums.size());
    std::transform(sums.begin(), sums.end(), values_to_send_.begin(),
                   [&](Lane sum) { return numbers.value(sum); });
    return sum_message::write_packed({}, packed_.marks(), values_to_send_, count, origin, out);
  }
  typename sum_message::content take_sums(std::size_t owner, std::span<std::byte const> message,
                                          block_origin const& origin) override {
    auto const s = layout().of(owner);
    auto const marks = marks_of(s);
    auto const came = sum_message::read(message, s.count, origin, marks.data());
    if (came.fault != block_fault::none) return came;
    if (!contains(marks, own_[owner].marks())) return {block_fault::ranks};
    lanes_of_sums_[owner] = came.lanes;
    return came;
  }
  void write(std::span<float> x) override {
    for (std::size_t owner = 0; owner < layout().ranks; ++owner) {
      auto const s = layout().of(owner);
      if (s.count == 0) continue;
      float* const here = x.data() + s.first;
      // The result includes all marks of this rank. All other values are 0 already, or -0.
      if (own_[owner].negative_zeros()) std::fill_n(here, s.count, 0.0f);
      for_lanes<float>(marks_of(s), lanes_of_sums_[owner],
                       [here](std::size_t i, float sum) { here[i] = sum; });
    }
  }

  std::size_t write_values(std::span<float const> x, block_origin const& origin,
                           std::byte* out) override {
    auto const s = layout().mine();
    return sum_message::write_dense({}, x.subspan(s.first, s.count), origin, out,
                                    codec_ids::values);
  }
  nonfinite_words nonfinite_values(std::span<float const> x) override {
    auto const s = layout().mine();
    nonfinite_words found;
    for (std::size_t i = 0; i < s.count; i += 64)
      if (!all_finite(x.subspan(s.first + i, std::min<std::size_t>(64, s.count - i))))
        found.merge({i / 64, 1});
    return found;
  }
  void read_values(std::size_t owner, std::byte const* message, std::span<float> x) override {
    auto const s = layout().of(owner);
    std::memcpy(x.data() + s.first, message + block_header_bytes, s.count * sizeof(float));
  }

 private:
  /// The exponents follow the shard's marks in words_.
  void mark_shard(std::size_t owner, std::span<float const> x) {
    auto const s = layout().of(owner);
    own_[owner].mark(x.subspan(s.first, s.count), words_.data());
  }
  /// Marks of the reduced shards, after take_sums.
  std::span<std::uint64_t> marks_of(sparse_shard const& s) {
    return std::span(words_).subspan(s.words.first, s.words.count);
  }
  /// By words of the shard.
  void find_nonfinite(std::span<float const> sums, nonfinite_words& found) const {
    if (all_finite(sums)) return;
    auto const marks = packed_.marks();
    for (std::size_t w = 0; w < marks.size(); ++w) {
      auto const count = static_cast<std::size_t>(ones(marks[w]));
      if (!all_finite(sums.first(count))) found.merge({w, 1});
      sums = sums.subspan(count);
    }
  }
  static bool all_finite(std::span<float const> values) {
    bool all = true;
    for (float const value : values) all &= is_finite(value);
    return all;
  }

  std::vector<sparse::own_values> own_;  ///< by owner
  packed_sums<Lane> packed_;             ///< of this rank's shard
  std::vector<Lane> own_lanes_;          ///< of its own part
  std::vector<std::uint64_t> words_;
  std::vector<std::byte const*> lanes_of_sums_;  ///< by owner
  std::vector<float> values_to_send_;
};

}  // namespace hcomp::detail
