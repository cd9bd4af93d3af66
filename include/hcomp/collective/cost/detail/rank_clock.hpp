#pragma once
/// @file
/// Simulates the time of a collective's hops on one rank.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/cost/detail/busy_link.hpp>
#include <hcomp/collective/engine/detail/hop_pipeline.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// One rank's clock on its walks through a schedule: hop_pipeline as block_engine uses it, with
/// times instead of messages.
///
/// Ranks behave equally: a segment that this rank receives at a hop was sent when this rank sends
/// at that hop. At a hop where it only receives, its peer does nothing else from the start of the
/// walk. At a hop where it only sends, the walk ends when the peer has finished with the segment.
/// All parts have the size of the longest.
class rank_clock {
 public:
  rank_clock(codec_cost const& codec, link_cost const& link, encoded_layout const& layout,
             schedule const& walked, std::size_t segment_bytes)
      : codec_(codec),
        cost_(link),
        layout_(layout),
        schedule_(walked),
        most_(layout.blocks_per(segment_bytes)),
        part_blocks_((layout.blocks() + static_cast<std::size_t>(walked.parts) - 1) /
                     static_cast<std::size_t>(walked.parts)),
        out_(link),
        in_(link) {}

  double now() const { return now_; }
  void work(double seconds) { now_ += seconds; }

  /// Encoding and reduce-scatter.
  void reduce() {
    walk_of_reduction handler(*this, depend_on_nothing(schedule_.reduce));
    walk(handler);
    if (schedule_.reduce.empty()) work(codec_.call + all_values() * codec_.encode);
  }
  /// All-gather of reduced parts.
  /// @param decodes  on arrival
  void gather(bool decodes) {
    walk_of_gathering handler(*this, decodes);
    walk(handler);
    handler.decode_shard();  // for walks without receives
  }

 private:
  /// The transport of hop_pipeline: waiting for a message advances the clock to its arrival.
  struct link_of_times {
    struct request {
      std::size_t hop, segment;
      bool is_send;
    };

    rank_clock* clock;

    int rank() const { return clock->schedule_.rank; }
    int size() const { return clock->schedule_.size; }
    bool reaches(memory_space) const { return true; }
    std::uint64_t bytes_sent() const { return 0; }
    request isend(int, tag_t, std::span<std::byte const>) { return {0, 0, true}; }
    request irecv(int, tag_t, std::span<std::byte>) {
      return {clock->posted_hop_, clock->posted_segment_, false};
    }
    std::size_t wait(request& r) {
      if (!r.is_send) clock->wait_until(clock->passed_[r.hop][r.segment]);
      return 0;
    }
  };

  /// Common to both walks.
  struct walk_of_times : segment_handler {
    rank_clock& clock;
    std::vector<hop> const& hops;
    double const start;

    walk_of_times(rank_clock& clock, std::vector<hop> const& hops)
        : clock(clock), hops(hops), start(clock.now_) {}

    /// Work before a segment is sent, on the peer as well.
    virtual double before_sending(int ranks, block_range segment) const = 0;
    /// Work on a received segment.
    virtual double when_received(hop const& h, block_range segment) const = 0;

    std::span<std::byte> inbox(std::size_t h, block_range segment) final {
      auto& passed = clock.passed_[h];
      auto& number = clock.received_[h];
      clock.posted_hop_ = h;
      clock.posted_segment_ = number++;
      hop const& at = hops[h];
      if (at.send.count == 0) {
        auto& peers_now = clock.peers_now_[h];
        peers_now += before_sending(at.ranks, segment);
        passed.push_back(clock.in_.pass(start + peers_now, clock.bytes(segment, at.ranks)));
      }
      return {};
    }
    /// Waits until peers have finished with the segments that only they receive.
    void wait_for_peers() {
      double last = clock.now_;
      for (std::size_t h = 0; h < hops.size(); ++h) {
        if (hops[h].receive.count > 0) continue;
        double peers_now = start;
        auto const sent = clock.segments(hops[h].send);
        for (std::size_t i = 0; i < sent.size(); ++i)
          peers_now = std::max(peers_now, clock.passed_[h][i] + clock.cost_.seconds_per_message) +
                      when_received(hops[h], sent[i]);
        last = std::max(last, peers_now);
      }
      clock.now_ = last;
    }

   protected:
    ~walk_of_times() = default;
  };

  struct walk_of_reduction final : walk_of_times {
    std::vector<char> encodes_sent, encodes_received;  ///< by hop: segments not needed before
    double seconds_per_block;                          ///< to encode

    walk_of_reduction(rank_clock& clock, bool sends_at_once)
        : walk_of_times(clock, clock.schedule_.reduce),
          encodes_sent(hops.size()),
          encodes_received(hops.size()) {
      std::vector<char> is_encoded(static_cast<std::size_t>(clock.schedule_.parts));
      std::size_t blocks = 0;
      auto const use = [&](block_range parts) {
        if (parts.count == 0 || is_encoded[parts.first]) return false;
        for (std::size_t part = parts.first; part < parts.end(); ++part) is_encoded[part] = 1;
        blocks += clock.blocks(parts).count;
        return true;
      };
      for (std::size_t h = 0; h < hops.size(); ++h) {
        encodes_sent[h] = use(hops[h].send);
        if (!sends_at_once) encodes_received[h] = use(hops[h].receive);
      }
      for (std::size_t h = 0; sends_at_once && h < hops.size(); ++h)
        encodes_received[h] = use(hops[h].receive);
      seconds_per_block = clock.all_values() * clock.codec_.encode /
                          static_cast<double>(std::max<std::size_t>(blocks, 1));
    }

    double before_sending(int ranks, block_range segment) const override {
      return encoding(segment) + clock.narrowing(segment, ranks);
    }
    double when_received(hop const& h, block_range segment) const override {
      bool const is_finished = h.ranks == clock.schedule_.size;  // it replaces this rank's segment
      double const values = is_finished ? 0 : clock.values(segment);
      return clock.widening(segment, h.ranks) + clock.codec_.call + values * clock.codec_.merge;
    }
    std::span<std::byte const> leave(std::size_t h, block_range segment) override {
      if (encodes_sent[h]) clock.work(encoding(segment));
      clock.work(clock.narrowing(segment, hops[h].ranks));
      clock.send(h, segment, hops[h].ranks);
      return {};
    }
    void expect(std::size_t h, block_range segment) override {
      if (encodes_received[h]) clock.work(encoding(segment));
    }
    void arrive(std::size_t h, block_range segment, std::size_t) override {
      clock.work(when_received(hops[h], segment));
    }

   private:
    double encoding(block_range segment) const {
      return clock.codec_.call + static_cast<double>(segment.count) * seconds_per_block;
    }
  };

  struct walk_of_gathering final : walk_of_times {
    bool const decodes;
    double seconds_per_block;            ///< to decode
    std::vector<std::size_t> is_narrow;  ///< by block: size of the narrow segment that starts there
    bool is_first = true;

    walk_of_gathering(rank_clock& clock, bool decodes)
        : walk_of_times(clock, clock.schedule_.gather),
          decodes(decodes),
          is_narrow(clock.part_blocks_ * static_cast<std::size_t>(clock.schedule_.parts)) {
      std::size_t blocks = clock.blocks(clock.schedule_.shard).count;
      for (hop const& h : hops) blocks += clock.blocks(h.receive).count;
      seconds_per_block = clock.all_values() * clock.codec_.decode /
                          static_cast<double>(std::max<std::size_t>(blocks, 1));
    }

    double before_sending(int ranks, block_range segment) const override {
      return clock.narrowing(segment, ranks);
    }
    double when_received(hop const& h, block_range segment) const override {
      return clock.widening(segment, h.ranks) + decoding(segment);
    }
    std::span<std::byte const> leave(std::size_t h, block_range segment) override {
      if (std::exchange(is_narrow[segment.first], segment.count) != segment.count)
        clock.work(clock.narrowing(segment, hops[h].ranks));
      clock.send(h, segment, hops[h].ranks);
      return {};
    }
    void expect(std::size_t, block_range) override { decode_shard(); }
    void decode_shard() {
      if (is_first) clock.work(decoding(clock.blocks(clock.schedule_.shard)));
      is_first = false;
    }
    void arrive(std::size_t h, block_range segment, std::size_t) override {
      is_narrow[segment.first] = segment.count;  // forwarded unchanged
      clock.work(clock.widening(segment, hops[h].ranks));
    }
    void passed_on(block_range segment) override { clock.work(decoding(segment)); }

   private:
    double decoding(block_range segment) const {
      if (!decodes || segment.count == 0) return 0;
      return clock.codec_.call + static_cast<double>(segment.count) * seconds_per_block;
    }
  };

  void walk(walk_of_times& handler) {
    auto const& hops = handler.hops;
    passed_.assign(hops.size(), {});
    received_.assign(hops.size(), 0);
    peers_now_.assign(hops.size(), 0);
    link_of_times times{this};
    any_transport transport(times);
    hop_pipeline(hops, transport, 0, [this](block_range parts) {
      return segments(parts);
    }).walk(handler, nullptr);
    handler.wait_for_peers();
  }

  // ---- segments -----------------------------------------------------------------------------
  /// A range for these parts that overlaps no other parts, of the largest size of such parts.
  block_range blocks(block_range parts) const {
    auto const all = static_cast<std::size_t>(schedule_.parts);
    return {parts.first * part_blocks_, (layout_.blocks() * parts.count + all - 1) / all};
  }
  std::vector<block_range> segments(block_range parts) const {
    block_range const all = blocks(parts);
    std::vector<block_range> cut;
    for (std::size_t first = all.first; first < all.end(); first += most_)
      cut.push_back({first, std::min(most_, all.end() - first)});
    return cut;
  }
  double bytes(block_range segment, int ranks) const {
    auto const layout = codec_.travelling(layout_, ranks);
    return static_cast<double>(std::min(segment.count * layout.block_bytes, layout.bytes()));
  }
  double values(block_range segment) const {
    return static_cast<double>(std::min(segment.count * layout_.block_values, layout_.values));
  }
  double all_values() const { return static_cast<double>(layout_.values); }

  // ---- costs --------------------------------------------------------------------------------
  double narrowing(block_range segment, int ranks) const {
    if (codec_.lane_bits == 0) return 0;
    return codec_.call + values(segment) * (ranks == 1 ? codec_.narrow_one : codec_.narrow);
  }
  double widening(block_range segment, int ranks) const {
    if (codec_.lane_bits == 0) return 0;
    return codec_.call + values(segment) * (ranks == 1 ? codec_.widen_one : codec_.widen);
  }
  void send(std::size_t h, block_range segment, int ranks) {
    passed_[h].push_back(out_.pass(now_, bytes(segment, ranks)));
  }
  void wait_until(double passed) { now_ = std::max(now_, passed + cost_.seconds_per_message); }

  codec_cost codec_;
  link_cost cost_;
  encoded_layout layout_;
  schedule schedule_;
  std::size_t most_, part_blocks_;
  double now_ = 0;
  busy_link out_, in_;

  // for one walk
  std::vector<std::vector<double>> passed_;  ///< by hop and segment: when messages left their link
  std::vector<std::size_t> received_;        ///< by hop: receives posted
  std::vector<double> peers_now_;            ///< by hop at which this rank only receives
  std::size_t posted_hop_ = 0, posted_segment_ = 0;
};

}  // namespace hcomp::detail
