#pragma once
/// @file
/// The time that the hops of a collective take, on one rank.

#include <algorithm>
#include <cstddef>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/collective/costs.hpp>
#include <hcomp/op/code_layout.hpp>
#include <vector>

namespace hcomp::detail {

/// The mean bytes of the bits that owner selection draws from one rank: per block rounded up, by
/// 7/16 on average.
constexpr double owned_bytes(double values, double blocks, int ranks) {
  return values / 8 / ranks + blocks * 7 / 16;
}

/// One rank's time while all ranks do alike, so that what it receives was sent by somebody at the
/// time at which itself sent the same: `hop_pipeline` with a clock instead of messages.
class rank_clock {
 public:
  rank_clock(codec_cost const& codec, link_cost const& link, code_layout const& layout,
             std::size_t segment_bytes)
      : codec_(codec),
        link_(link),
        layout_(layout),
        segment_blocks_(layout.blocks_per(segment_bytes)) {}

  double now() const { return now_; }

  /// What one half of a collective does at its hops.
  struct manner {
    bool passes_on = false;  ///< what one hop receives the next one sends, segment by segment;
                             ///< else every hop sends own blocks, all at once
    bool merges = false;
    double encode_block = 0;  ///< seconds, for blocks that are first needed here
    double decode_block = 0;  ///< seconds, for every block that is received, and own ones
    bool sends_all = false;   ///< the first hop sends all blocks: no later one has to encode
    bool pairs_up = false;    ///< what the first hop receives others send, who get the sum at the
                              ///< last one
    int ranks = 1;            ///< whose sum the first hop sends
    int more_ranks = 0;       ///< that the sums of every later hop have besides
    bool doubles = false;     ///< or twice as many as the one before

    int ranks_at(int hop) const { return doubles ? ranks << hop : ranks + hop * more_ranks; }
  };

  void work(double seconds) { now_ += seconds; }

  /// `hops` hops in each of which every rank sends and receives `blocks` blocks.
  /// @param own  blocks that are decoded besides, while the first ones travel
  void move(int hops, std::size_t blocks, manner const& how, std::size_t own = 0) {
    std::size_t const segments = (blocks + segment_blocks_ - 1) / segment_blocks_;
    auto const blocks_of = [&](std::size_t segment) {
      return std::min(segment_blocks_, blocks - segment * segment_blocks_);
    };
    auto const use = [&](double seconds_per_block, std::size_t count) {
      if (seconds_per_block > 0 && count > 0)
        work(codec_.call + seconds_per_block * static_cast<double>(count));
    };
    auto const send = [&](int h, std::size_t count) {
      int const ranks = how.ranks_at(h);
      if (codec_.lane_bits > 0 && (how.merges || h == 0))  // what is gathered stays narrow
        work(codec_.call + values(count) * (ranks == 1 ? codec_.narrow_one : codec_.narrow));
      ready_.push_back(pass_link(bytes(count, ranks)));
    };
    ready_.clear();
    double const start = now_, link_was_free = link_is_free_;
    for (int h = 0; h < (how.passes_on ? std::min(hops, 1) : hops); ++h)
      for (std::size_t i = 0; i < segments; ++i) {
        use(how.encode_block, blocks_of(i));
        send(h, blocks_of(i));
      }
    if (how.pairs_up) {
      now_ = start;
      link_is_free_ = link_was_free;
    }
    for (int h = 0; h < hops; ++h)
      for (std::size_t i = 0; i < segments; ++i) {
        if (how.sends_all ? how.pairs_up && h == 0 : h == 0 || how.passes_on)
          use(how.encode_block, blocks_of(i));
        if (h == 0 && i == 0) use(how.decode_block, own);
        std::size_t const number = static_cast<std::size_t>(h) * segments + i;
        now_ = std::max(now_, ready_[number] + link_.seconds_per_message);
        if (codec_.lane_bits > 0)
          work(codec_.call +
               values(blocks_of(i)) * (how.ranks_at(h) == 1 ? codec_.widen_one : codec_.widen));
        bool const is_sum = how.pairs_up && h + 1 == hops;
        if (is_sum) work(codec_.call);
        if (how.merges && !is_sum) work(codec_.call + values(blocks_of(i)) * codec_.merge);
        if (how.passes_on && h + 1 < hops) send(h + 1, blocks_of(i));
        use(how.decode_block, blocks_of(i));
      }
    if (hops == 0) use(how.decode_block, own);
  }

  /// Owner selection: selects group by group and sends the messages; returns the time then.
  double pack_groups(int ranks) {
    ready_.clear();
    for_each_group([&](std::size_t blocks) {
      work(4 * codec_.call + values(blocks) * (codec_.encode + ranks * codec_.pack));
      double const message = owned_bytes(values(blocks), static_cast<double>(blocks), ranks) +
                             static_cast<double>(block_header_bytes);
      for (int peer = 1; peer < ranks; ++peer) pass_link(message);
      ready_.push_back(link_is_free_);
    });
    return now_;
  }
  /// and puts the bits of all ranks back.
  void unpack_groups(int ranks) {
    std::size_t group = 0;
    for_each_group([&](std::size_t blocks) {
      if (ranks > 1) now_ = std::max(now_, ready_[group++] + link_.seconds_per_message);
      work(2 * codec_.call + values(blocks) * ranks * codec_.unpack);
    });
  }

 private:
  template <class F> void for_each_group(F const& f) const {
    for (std::size_t first = 0; first < layout_.blocks(); first += segment_blocks_)
      f(std::min(segment_blocks_, layout_.blocks() - first));
  }

  /// When a message that leaves now has passed the link.
  double pass_link(double bytes) {
    bool const asks = bytes > static_cast<double>(link_.eager_bytes);
    link_is_free_ = std::max(link_is_free_, now_ + (asks ? link_.seconds_of_rendezvous : 0)) +
                    link_.seconds_between_messages + bytes * link_.seconds_per_byte;
    return link_is_free_;
  }
  double bytes(std::size_t blocks, int ranks) const {
    auto const layout = codec_.travelling(layout_, ranks);
    return static_cast<double>(std::min(blocks * layout.block_bytes, layout.bytes()));
  }
  double values(std::size_t blocks) const {
    return static_cast<double>(std::min(blocks * layout_.block_values, layout_.values));
  }

  codec_cost codec_;
  link_cost link_;
  code_layout layout_;
  std::size_t segment_blocks_;
  double now_ = 0, link_is_free_ = 0;
  std::vector<double> ready_;  ///< when messages have passed the link, in their order
};

}  // namespace hcomp::detail
