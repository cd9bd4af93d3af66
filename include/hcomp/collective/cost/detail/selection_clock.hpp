#pragma once
/// @file
/// Simulates the time of sampled selection on one rank.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/cost/detail/busy_link.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <vector>

namespace hcomp::detail {

/// The mean size of the bits that sampled selection draws from one rank. Rounding up adds 7/16 byte
/// per block on average.
constexpr double shard_bytes(double values, double blocks, int ranks) {
  return values / 8 / ranks + blocks * 7 / 16;
}

/// One rank's clock while sampled_engine processes all blocks, one segment at a time. Ranks behave
/// equally: a message that this rank receives was sent when this rank sent its own.
class selection_clock {
 public:
  selection_clock(codec_cost const& codec, link_cost const& link, encoded_layout const& layout,
                  std::size_t segment_bytes)
      : codec_(codec),
        link_(link),
        layout_(layout),
        segment_blocks_(layout.blocks_per(segment_bytes)),
        out_(link) {}

  /// Selects and sends the messages of all segments; returns the time of the last one.
  double pack(int ranks) {
    for_each_segment([&](std::size_t blocks) {
      now_ += 4 * codec_.call + values(blocks) * (codec_.encode + ranks * codec_.pack);
      double const message = shard_bytes(values(blocks), static_cast<double>(blocks), ranks) +
                             static_cast<double>(block_header_bytes);
      double passed = now_;
      for (int peer = 1; peer < ranks; ++peer) passed = out_.pass(now_, message);
      passed_.push_back(passed);
    });
    return now_;
  }
  /// Scatters the bits of all ranks; returns the time.
  double unpack(int ranks) {
    std::size_t segment = 0;
    for_each_segment([&](std::size_t blocks) {
      if (ranks > 1) now_ = std::max(now_, passed_[segment++] + link_.seconds_per_message);
      now_ += 2 * codec_.call + values(blocks) * ranks * codec_.unpack;
    });
    return now_;
  }

 private:
  template <class F> void for_each_segment(F const& f) const {
    for (std::size_t first = 0; first < layout_.blocks(); first += segment_blocks_)
      f(std::min(segment_blocks_, layout_.blocks() - first));
  }
  double values(std::size_t blocks) const {
    return static_cast<double>(std::min(blocks * layout_.block_values, layout_.values));
  }

  codec_cost codec_;
  link_cost link_;
  encoded_layout layout_;
  std::size_t segment_blocks_;
  busy_link out_;
  double now_ = 0;
  std::vector<double> passed_;  ///< by segment: when its last message has left the link
};

}  // namespace hcomp::detail
