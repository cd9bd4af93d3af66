#pragma once
/// @file
/// Walks the hops of a schedule, segment by segment: the loop of all multi-hop collectives.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Callbacks for the segments of one walk. A segment is a range of blocks, sent as one message. The
/// callbacks measure their own time.
class segment_handler {
 public:
  /// The message of a segment that is sent at hop `h`. Its bytes are unchanged until the walk ends
  /// or, if a later hop changes them, until that hop's segments arrive.
  virtual std::span<std::byte const> leave(std::size_t h, block_range segment) = 0;
  /// Where the message of a segment is received; the size is its maximum length.
  virtual std::span<std::byte> inbox(std::size_t h, block_range segment) = 0;
  /// Called while the segment travels to this rank.
  virtual void expect(std::size_t /*h*/, block_range /*segment*/) {}
  /// Called when `bytes` bytes of the segment's message have arrived.
  virtual void arrive(std::size_t h, block_range segment, std::size_t bytes) = 0;
  /// Called after the segment was forwarded, if the next hop forwards it.
  virtual void passed_on(block_range /*segment*/) {}

 protected:
  ~segment_handler() = default;
};

/// True if no hop sends parts that an earlier hop has changed, or changes parts that it sends. For
/// hops that replace parts, later changes count as well.
[[gnu::cold]] inline bool depend_on_nothing(std::vector<hop> const& hops) {
  std::size_t parts = 0;
  for (hop const& h : hops) parts = std::max({parts, h.send.end(), h.receive.end()});
  std::vector<std::size_t> changed_at(parts, hops.size());  // first hop that matters
  for (std::size_t h = hops.size(); h-- > 0;)
    for (std::size_t part = hops[h].receive.first; part < hops[h].receive.end(); ++part)
      changed_at[part] = hops[h].adds ? std::min(changed_at[part], h) : 0;
  for (std::size_t h = 0; h < hops.size(); ++h)
    for (std::size_t part = hops[h].send.first; part < hops[h].send.end(); ++part)
      if (changed_at[part] <= h) return false;
  return true;
}

/// One half of a schedule, reduce-scatter or all-gather, cut into segments.
///
/// Receives of the next hop are posted before the walk waits for those of this hop. So work on a
/// segment overlaps the transfer of other segments, and a segment that the next hop forwards is
/// sent as soon as it has arrived. Data that a hop both sends and changes is sent before it is
/// changed. It keeps its request lists: after the first walk nothing is allocated.
///
/// If no hop depends on another, all sends start at once. Over a stream-ordered transport they wait
/// for their hops, whose receives they need.
class hop_pipeline {
 public:
  /// @param cut                      (parts) -> their segments, in order; see schedule for parts
  /// @param segments_end_with_parts  no segment has blocks of two parts; then a hop can forward a
  ///                                 subset of the parts that the previous hop has received
  template <class Cut>
  [[gnu::cold]] hop_pipeline(std::vector<hop> const& hops, any_transport& transport, tag_t tag,
                             Cut const& cut, bool segments_end_with_parts = false)
      : transport_(&transport), tag_(tag), sends_at_once_(depend_on_nothing(hops)) {
    for (hop const& h : hops)
      hops_.push_back({h.to, h.from, cut(h.send), cut(h.receive), h.send == h.receive, false});
    for (std::size_t h = 0; h + 1 < hops.size(); ++h) {
      block_range const &received = hops[h].receive, &next = hops[h + 1].send;
      bool const is_part = received.first <= next.first && next.end() <= received.end();
      hops_[h].passes_on = !sends_at_once_ && next.count > 0 &&
                           (segments_end_with_parts ? is_part : next == received);
    }
  }

  /// True if every hop sends parts that no other hop has changed: all messages can be sent at the
  /// start.
  bool sends_at_once() const { return sends_at_once_; }

  /// @param stats  receives the hops and the time spent waiting for messages; null: no clock is
  ///               read
  void walk(segment_handler& handler, report* stats) {
    for (auto* list : {&early_sends_, &sends_[0], &sends_[1], &receives_[0], &receives_[1]})
      list->clear();
    if (hops_.empty()) return;
    if (stats) watch_ = {};
    receive_all(0, handler);
    bool const early = sends_early();
    for (std::size_t h = 0; h < (early ? hops_.size() : 1); ++h) send_all(h, handler, stats);
    for (std::size_t h = 0; h < hops_.size(); ++h) {
      cut_hop const& now = hops_[h];
      bool const more = h + 1 < hops_.size();
      if (more) receive_all(h + 1, handler);
      for (std::size_t i = 0; i < now.receive.size(); ++i) {
        block_range const segment = now.receive[i];
        aside(stats, [&] { handler.expect(h, segment); });
        std::size_t const came = transport_->wait(receives_[h % 2][i]);
        if (now.exchanges) transport_->wait(sends_[h % 2][i]);
        aside(stats, [&] { handler.arrive(h, segment, came); });
        if (now.passes_on && contains(hops_[h + 1].send, segment))
          send(h + 1, segment, handler, stats);
        aside(stats, [&] { handler.passed_on(segment); });
      }
      if (!now.exchanges)
        for (auto& request : sends_[h % 2]) transport_->wait(request);
      if (stats && !now.send.empty()) ++stats->hops;
      sends_[h % 2].clear();
      receives_[h % 2].clear();
      if (more && !now.passes_on && !early) send_all(h + 1, handler, stats);
    }
    for (auto& request : early_sends_) transport_->wait(request);
    if (stats) watch_.add_to(stats->seconds_communicate);
  }

 private:
  struct cut_hop {
    int to, from;
    std::vector<block_range> send, receive;
    bool exchanges;  ///< sends the segments that it receives
    bool passes_on;  ///< the next hop sends only segments that this one receives
  };

  /// @param segments  in order
  static bool contains(std::vector<block_range> const& segments, block_range const& wanted) {
    auto const found = std::lower_bound(
        segments.begin(), segments.end(), wanted,
        [](block_range const& a, block_range const& b) { return a.first < b.first; });
    return found != segments.end() && *found == wanted;
  }

  bool sends_early() const { return sends_at_once_ && !transport_->is_stream_ordered(); }
  /// Excludes work that measures its own time from the waiting time.
  template <class F> void aside(report* stats, F const& f) {
    if (stats) watch_.add_to(stats->seconds_communicate);
    f();
    if (stats) watch_.skip();
  }
  void send(std::size_t h, block_range segment, segment_handler& handler, report* stats) {
    std::span<std::byte const> message;
    aside(stats, [&] { message = handler.leave(h, segment); });
    (sends_early() ? early_sends_ : sends_[h % 2])
        .push_back(transport_->isend(hops_[h].to, tag_, message));
  }
  void send_all(std::size_t h, segment_handler& handler, report* stats) {
    for (block_range const& segment : hops_[h].send) send(h, segment, handler, stats);
  }
  void receive_all(std::size_t h, segment_handler& handler) {
    for (block_range const& segment : hops_[h].receive)
      receives_[h % 2].push_back(transport_->irecv(hops_[h].from, tag_, handler.inbox(h, segment)));
  }

  any_transport* transport_;
  tag_t tag_;
  bool sends_at_once_;
  std::vector<cut_hop> hops_;
  stopwatch watch_;
  std::vector<any_transport::request> early_sends_;
  std::vector<any_transport::request> sends_[2];
  std::vector<any_transport::request> receives_[2];
};

}  // namespace hcomp::detail
