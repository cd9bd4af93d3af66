#pragma once
/// @file
/// The expected result of a collective, without communication: blocks encoded and merged by hand,
/// in the order of the ring, the torus or the servers of `direct`.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <vector>

namespace hcomp::testing {

/// The encoded vectors of all ranks, and their sums.
template <class C> class oracle {
 public:
  using value_type = typename C::value_type;
  using byte_vector = std::vector<std::byte>;

  /// @param weights  of the ranks; empty: all 1
  oracle(C const& codec, std::vector<std::vector<value_type>> const& x, call_options const& call,
         std::vector<std::uint32_t> const& weights = {})
      : codec_(codec), x_(x), call_(call), weights_(weights) {}

  /// The expected vector of every rank.
  std::vector<value_type> sum(algorithm const& how) {
    int const ranks = static_cast<int>(x_.size());
    encode(how.sharers(ranks));
    byte_vector total(layout_.bytes());
    auto const shape = how.fitted(ranks);
    for (int chunk = 0; chunk < ranks; ++chunk) {
      block_range const blocks = chunk_of(chunk);
      byte_vector const part = how.kind == algorithm_kind::sampled ? tree(blocks, 0, ranks)
                               : how.kind == algorithm_kind::recursive_doubling
                                   ? cube(blocks)
                                   : chunk_sum(shape, blocks, chunk);
      std::copy_n(part.data() + layout_.offset(blocks.first), layout_.bytes(blocks),
                  total.data() + layout_.offset(blocks.first));
    }
    std::vector<value_type> x(layout_.values);
    decode_blocks<C> const work{codec_, layout_, 0, total.data(), x.data(), call_.op};
    for (std::size_t b = 0; b < layout_.blocks(); ++b) work(serial_group{}, b);
    return x;
  }

 private:
  void encode(int sharers) {
    layout_ = layout_of(codec_, x_[0].size(), sharers);
    encoded_.clear();
    auto const statistics = agreed_statistics();
    for (std::size_t rank = 0; rank < x_.size(); ++rank) {
      block_origin const origin{philox_key(call_.key()), static_cast<std::uint32_t>(rank),
                                weights_.empty() ? 1 : weights_[rank], 0,
                                statistics.empty() ? nullptr : statistics.data()};
      encoded_.emplace_back(layout_.bytes());
      encode_blocks<C, value_type const*> const work{codec_, layout_, x_[rank].data(),
                                                     encoded_.back().data(), origin};
      for (std::size_t b = 0; b < layout_.blocks(); ++b) work(serial_group{}, b);
    }
  }

  /// The maximum of all ranks' statistics, for codecs that have them.
  std::vector<std::uint32_t> agreed_statistics() const {
    std::vector<std::uint32_t> words(statistics_words(codec_, layout_)), all(words.size());
    if constexpr (Calibrated<C>)
      for (auto const& x : x_) {
        measure_blocks<C, value_type const*> const work{codec_, layout_, x.data(), words.data()};
        for (std::size_t b = 0; b < layout_.blocks(); ++b) work(serial_group{}, b);
        for (std::size_t w = 0; w < words.size(); ++w) all[w] = std::max(all[w], words[w]);
      }
    return all;
  }

  block_range chunk_of(int chunk) const {
    auto const at = [&](int c) {
      return layout_.blocks() * static_cast<std::size_t>(c) / encoded_.size();
    };
    return {at(chunk), at(chunk + 1) - at(chunk)};
  }

  byte_vector chunk_sum(algorithm const& how, block_range blocks, int chunk) const {
    int const ranks = static_cast<int>(encoded_.size());
    std::vector<byte_vector> parts;
    if (how.kind == algorithm_kind::ring) {
      // chunk q starts at rank q, and ranks q + 1, q + 2, ... add to it
      for (int h = 0; h < ranks; ++h) parts.push_back(encoded_[at(chunk + h, ranks)]);
    } else if (how.kind == algorithm_kind::direct) {
      // rank q adds up chunk q; it receives from q - 1, q - 2, ...
      for (int h = 0; h < ranks; ++h) parts.push_back(encoded_[at(chunk - h + ranks, ranks)]);
    } else if (how.kind == algorithm_kind::aggregator) {
      // rank 0 receives from 1, 2, ...
      for (int r = 0; r < ranks; ++r) parts.push_back(encoded_[at(r, ranks)]);
    } else {
      // chunk p * rows + i: in every row from column p on, then the row results from row i on
      int const part = chunk / how.rows, first_row = chunk % how.rows;
      for (int r = 0; r < how.rows; ++r) {
        int const row = (first_row + r) % how.rows;
        std::vector<byte_vector> in_row;
        for (int c = 0; c < how.columns; ++c)
          in_row.push_back(encoded_[at(row * how.columns + (part + c) % how.columns, ranks)]);
        parts.push_back(folded(blocks, in_row));
      }
    }
    return folded(blocks, parts);
  }
  static std::size_t at(int rank, int ranks) { return static_cast<std::size_t>(rank % ranks); }

  byte_vector folded(block_range blocks, std::vector<byte_vector> const& parts) const {
    byte_vector sum = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) sum = merged(blocks, parts[i], sum);
    return sum;
  }
  /// The balanced tree over ranks [low, high).
  byte_vector tree(block_range blocks, int low, int high) const {
    if (high - low == 1) return encoded_[static_cast<std::size_t>(low)];
    int const middle = low + (high - low) / 2;
    return merged(blocks, tree(blocks, low, middle), tree(blocks, middle, high));
  }
  /// The first ranks pair up until a power of two is left; then neighbours pair up, then pairs of
  /// them, ...
  byte_vector cube(block_range blocks) const {
    std::vector<byte_vector> parts = encoded_;
    std::size_t power = 1;
    while (2 * power <= parts.size()) power *= 2;
    for (std::size_t i = 0; parts.size() > power; ++i) {
      parts[i] = merged(blocks, parts[i], parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    while (parts.size() > 1)
      for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i] = merged(blocks, parts[i], parts[i + 1]);
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    return parts.front();
  }
  byte_vector merged(block_range blocks, byte_vector acc, byte_vector const& in) const {
    merge_blocks<C> const work{codec_, acc.data() + layout_.offset(blocks.first),
                               in.data() + layout_.offset(blocks.first), layout_.block_bytes};
    for (std::size_t i = 0; i < blocks.count; ++i) work(serial_group{}, i);
    return acc;
  }

  C codec_;
  std::vector<std::vector<value_type>> x_;
  call_options call_;
  std::vector<std::uint32_t> weights_;
  encoded_layout layout_;
  std::vector<byte_vector> encoded_;
};

}  // namespace hcomp::testing
