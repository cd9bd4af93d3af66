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

  /// `hops` hops in each of which every rank sends and receives `blocks` blocks.
  /// @param passes_on  what one hop receives the next one sends, segment by segment
  void move(int hops, std::size_t blocks, bool passes_on, bool merges) {
    std::size_t const segments = (blocks + segment_blocks_ - 1) / segment_blocks_;
    ready_.assign(segments, now_);
    for (int h = 0; h < hops; ++h) {
      for (std::size_t i = 0; i < segments; ++i) {
        std::size_t const first = i * segment_blocks_;
        std::size_t const count = std::min(segment_blocks_, blocks - first);
        link_is_free_ = std::max(link_is_free_, ready_[i]) + link_.seconds_between_messages +
                        bytes(count) * link_.seconds_per_byte;
        now_ = std::max(now_, link_is_free_ + link_.seconds_per_message);
        if (merges) now_ += codec_.call + values(count) * codec_.merge;
        if (passes_on) next_.push_back(now_);
      }
      if (!passes_on) next_.assign(segments, now_);
      ready_.swap(next_);
      next_.clear();
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
