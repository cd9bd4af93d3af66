#pragma once
/// @file
/// The time that the hops of a collective take, on one rank.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/costs.hpp>
#include <hcomp/op/code_layout.hpp>
#include <vector>

namespace hcomp::detail {

/// One rank's time while all ranks do alike, so that what it receives was sent by somebody at the
/// time at which itself sent the same: `chunk_moves` with a clock instead of messages.
class rank_clock {
 public:
  rank_clock(codec_cost const& codec, link_cost const& link, code_layout const& layout,
             std::size_t segment_bytes)
      : codec_(codec),
        link_(link),
        layout_(layout),
        segment_blocks_(std::max<std::size_t>(1, segment_bytes / layout.block_bytes)) {}

  double now() const { return now_; }

  /// What one half of a collective does at its hops.
  struct manner {
    bool passes_on = false;  ///< what one hop receives the next one sends, segment by segment
    bool merges = false;
    double encode_block = 0;  ///< seconds, for blocks that are first needed here
  };

  void work(double seconds) { now_ += seconds; }

  /// `hops` hops in each of which every rank sends and receives `blocks` blocks.
  void move(int hops, std::size_t blocks, manner const& how) {
    std::size_t const segments = (blocks + segment_blocks_ - 1) / segment_blocks_;
    auto const blocks_of = [&](std::size_t segment) {
      return std::min(segment_blocks_, blocks - segment * segment_blocks_);
    };
    auto const encode = [&](std::size_t segment) {
      if (how.encode_block > 0)
        work(codec_.call + how.encode_block * static_cast<double>(blocks_of(segment)));
    };
    for (int h = 0; h < hops; ++h) {
      bool const fresh = h == 0 || !how.passes_on;
      ready_.swap(next_);
      next_.clear();
      if (fresh) ready_.clear();
      for (std::size_t i = 0; fresh && i < segments; ++i) {
        encode(i);
        ready_.push_back(now_);
      }
      for (std::size_t i = 0; i < segments; ++i) {
        if (h == 0 || how.passes_on) encode(i);
        link_is_free_ = std::max(link_is_free_, ready_[i]) + link_.seconds_between_messages +
                        bytes(blocks_of(i)) * link_.seconds_per_byte;
        now_ = std::max(now_, link_is_free_ + link_.seconds_per_message);
        if (how.merges) work(codec_.call + values(blocks_of(i)) * codec_.merge);
        next_.push_back(now_);
      }
    }
  }

 private:
  double bytes(std::size_t blocks) const {
    return static_cast<double>(std::min(blocks * layout_.block_bytes, layout_.bytes()));
  }
  double values(std::size_t blocks) const {
    return static_cast<double>(std::min(blocks * layout_.block_values, layout_.values));
  }

  codec_cost codec_;
  link_cost link_;
  code_layout layout_;
  std::size_t segment_blocks_;
  double now_ = 0, link_is_free_ = 0;
  std::vector<double> ready_, next_;
};

}  // namespace hcomp::detail
