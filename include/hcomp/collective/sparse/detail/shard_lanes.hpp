#pragma once
/// @file
/// The marks, lanes and sums of the shards of sparse vectors in host memory. For devices:
/// device_shard_lanes.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/own_values.hpp>
#include <hcomp/collective/sparse/detail/packed_sums.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace hcomp::detail {

/// The marks of a shard, and their number.
struct marked_words {
  std::span<std::uint64_t const> words;
  std::size_t marked;
};

/// The arrays of shard_values. Functions that write lanes call begin() for their address in the
/// message, and return when its bytes are written.
template <class Lane, Executor E> class shard_lanes {
  using numbers_of_call = sparse::lane_numbers<Lane>;
  using copy_mark = std::array<std::uint64_t, 2>;
  static constexpr bool lanes_are_floats = std::is_same_v<Lane, float>;

 public:
  using message_memory = typename E::buffer;

  shard_lanes(shard_layout const& layout, E& /*executor*/)
      : layout_(layout),
        own_(layout.ranks),
        packed_(layout.mine().words.count, layout.ranks),
        words_(layout.words() + sparse::exponent_words) {
    if (!lanes_are_floats) own_lanes_.reserve(layout.mine().count);
  }

  /// Begins a call.
  void start() {}

  /// Marks nonzero values of x; returns the exponents that occur. Floats are marked by mark_part.
  exponent_bits mark(std::span<float const> x) {
    exponent_bits all{};
    if constexpr (!lanes_are_floats)
      for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
        mark_shard(owner, x);
        auto const* const found = words_.data() + layout_.of(owner).words.count;
        for (std::size_t i = 0; i < all.size(); ++i) all[i] |= found[i];
      }
    return all;
  }
  /// Floats need no common unit: some shards travel while other shards are marked.
  void mark_part(std::size_t owner, std::span<float const> x) {
    if constexpr (lanes_are_floats) mark_shard(owner, x);
  }
  marked_words own_marks(std::size_t owner) const {
    return {own_[owner].marks(), own_[owner].values().size()};
  }

  template <class Begin>
  copy_mark write_part(std::size_t owner, std::span<float const> x, bool all,
                       numbers_of_call const numbers, Begin const& begin) {
    auto const s = layout_.of(owner);
    auto const values = all ? x.subspan(s.first, s.count) : own_[owner].values();
    std::byte* const to = begin();
    if constexpr (lanes_are_floats) {
      return read(values.data(), values.size(), to);
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) store(to, i, numbers.lane(values[i]));
      return {};
    }
  }
  void wait(copy_mark const&) {}

  /// Receives the marks of another rank's part.
  std::uint64_t* marks_of_part(std::size_t rank) { return packed_.marks_of_part(rank).data(); }
  void take_part(std::size_t rank, typename shard_message<Lane>::content const& part) {
    packed_.set_lanes_of_part(rank, part.lanes);
  }
  /// Adds the parts of all ranks, this rank's included.
  void add_up(std::span<float const> /*x*/, numbers_of_call const numbers) {
    auto const [marks, marked] = own_marks(layout_.rank);
    auto const values = own_[layout_.rank].values();
    std::copy(marks.begin(), marks.end(), packed_.marks_of_part(layout_.rank).begin());
    void const* own = values.data();
    if constexpr (!lanes_are_floats) {
      own_lanes_.resize(marked);
      std::transform(values.begin(), values.end(), own_lanes_.begin(),
                     [numbers](float value) { return numbers.lane(value); });
      own = own_lanes_.data();
    }
    packed_.set_lanes_of_part(layout_.rank, static_cast<std::byte const*>(own));
    packed_.add_up();
  }
  nonfinite_words nonfinite_sums() const {
    auto const marks = packed_.marks();
    return nonfinite_in(packed_.sums(), marks.size(),
                        [&](std::size_t w) { return static_cast<std::size_t>(ones(marks[w])); });
  }
  /// @param values  of the shard
  nonfinite_words nonfinite_values(std::span<float const> values) const {
    return nonfinite_in(values, sparse::index_words(values.size()), [&](std::size_t w) {
      return std::min<std::size_t>(64, values.size() - 64 * w);
    });
  }

  marked_words marks_of_sums() const { return {packed_.marks(), packed_.sums().size()}; }
  template <class Begin>
  copy_mark write_sums(bool all, numbers_of_call const numbers, Begin const& begin) const {
    std::byte* const to = begin();
    auto const sums = packed_.sums();
    if (all) {
      std::memset(to, 0, layout_.mine().count * sizeof(float));
      packed_.for_each(
          [to, numbers](std::size_t i, Lane sum) { store(to, i, numbers.value(sum)); });
    } else {
      for (std::size_t i = 0; i < sums.size(); ++i) store(to, i, numbers.value(sums[i]));
    }
    return {};
  }
  /// Writes the reduced shard into x.
  void read_sums(numbers_of_call const numbers, std::span<float> x) const {
    auto const s = layout_.mine();
    float* const out = x.data() + s.first;
    std::fill_n(out, s.count, 0.0f);
    packed_.for_each([out, numbers](std::size_t i, Lane sum) { out[i] = numbers.value(sum); });
  }

  /// Receives the marks of a reduced shard.
  std::uint64_t* marks_of_sums(sparse_shard const& s) { return words_.data() + s.words.first; }
  void take_sums(sparse_shard const&, shard_message<float>::content const&) {}
  /// Writes all reduced shards into x.
  /// @param lanes  by owner
  void write(std::span<std::byte const* const> lanes, std::span<float> x) {
    for (std::size_t owner = 0; owner < layout_.ranks; ++owner) {
      auto const s = layout_.of(owner);
      if (s.count == 0) continue;
      float* const here = x.data() + s.first;
      // The result includes all marks of this rank. All other values are 0 already, or -0.
      if (own_[owner].negative_zeros()) std::fill_n(here, s.count, 0.0f);
      for_lanes<float>({marks_of_sums(s), s.words.count}, lanes[owner],
                       [here](std::size_t i, float sum) { here[i] = sum; });
    }
  }

  // ---- values that are not encoded

  copy_mark read(float const* values, std::size_t count, std::byte* to) {
    if (count > 0) std::memcpy(to, values, count * sizeof(float));
    return {};
  }
  void write_values(std::byte const* values, std::size_t count, float* to) {
    std::memcpy(to, values, count * sizeof(float));
  }

 private:
  /// The exponents follow the shard's marks in words_.
  void mark_shard(std::size_t owner, std::span<float const> x) {
    auto const s = layout_.of(owner);
    own_[owner].mark(x.subspan(s.first, s.count), words_.data());
  }
  static bool all_finite(std::span<float const> values) {
    std::uint32_t nonfinite = 0;  // as wide as values, for vector registers
    for (float const value : values) nonfinite |= is_finite(value) ? 0u : 1u;
    return nonfinite == 0;
  }
  /// @param count_of  (word) -> the number of its values
  template <class CountOf>
  static nonfinite_words nonfinite_in(std::span<float const> values, std::size_t words,
                                      CountOf const& count_of) {
    nonfinite_words found;
    if (all_finite(values)) return found;
    for (std::size_t w = 0; w < words; ++w) {
      std::size_t const count = count_of(w);
      if (!all_finite(values.first(count))) found.merge({w, 1});
      values = values.subspan(count);
    }
    return found;
  }

  shard_layout layout_;
  std::vector<sparse::own_values> own_;  ///< by owner
  packed_sums<Lane> packed_;             ///< of this rank's shard
  std::vector<Lane> own_lanes_;          ///< of its own part, unless lanes are floats
  std::vector<std::uint64_t> words_;     ///< marks of all reduced shards
};

}  // namespace hcomp::detail
