#pragma once
/// @file
/// Moves the chunks of one schedule: the loop all multi-hop collectives share.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/detail/narrow_code.hpp>
#include <hcomp/collective/detail/ready_to_move.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/collective/schedule.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <vector>

namespace hcomp::detail {

/// A code on its way, and what moves it.
template <class C, class T, class E> struct code_in_motion {
  C const& codec;
  std::byte* code;     ///< of the whole vector
  std::byte* scratch;  ///< chunk_moves::scratch_bytes() of it
  T& transport;
  E& executor;
  tag_t tag;
  report& figures;
};

/// Makes the hops of a schedule on one code. Chunks travel in segments, so that merging one
/// overlaps the transfer of the next, and a segment that the next hop passes on leaves as soon as
/// it is merged; blocks are encoded when they are first needed, while others are on their way. What
/// a hop both sends and adds to is sent before it is added to. Narrowable blocks travel narrow, one
/// behind the other, if that is wanted; what an all-gather passes on stays as it came.
/// Keeps its request lists: after the first use nothing is allocated.
template <HomomorphicSum C, Transport T, Executor E> class chunk_moves {
 public:
  using motion = code_in_motion<C, T, E>;

  chunk_moves(code_layout const& layout, schedule const& plan, std::size_t segment_bytes,
              bool narrow)
      : layout_(layout),
        schedule_(&plan),
        segment_blocks_(layout.blocks_per(segment_bytes)),
        is_narrow_(Narrowable<C> && narrow && plan.size > 1),
        narrow_(layout, is_narrow_ ? std::min(segment_blocks_, layout.blocks()) : 0),
        reduces_at_once_(sends_own_blocks_only(plan.reduce)),
        gathers_at_once_(sends_own_blocks_only(plan.gather)) {
    for (hop const& h : plan.reduce)
      incoming_bytes_ = std::max(incoming_bytes_, layout.bytes(blocks(h.receive)));
    incoming_bytes_ = (incoming_bytes_ + 63) / 64 * 64;
    if (is_narrow_) narrow_messages_.resize(layout.blocks());
  }

  /// Bytes of scratch: received chunks of two hops. If blocks travel narrow, as much again as they
  /// arrive, and a whole code as it leaves.
  std::size_t scratch_bytes() const {
    return (is_narrow_ ? 4 : 2) * incoming_bytes_ + (is_narrow_ ? layout_.bytes() : 0);
  }

  /// Add up the chunks; afterwards this rank holds its finished chunks in their places in `code`.
  /// @param encode  (blocks) called for blocks of this rank before they are sent or merged, for
  ///                every block at least once
  template <class Encode> void reduce_scatter(motion const& m, Encode const& encode) {
    auto const place_in = [&](std::byte* chunks, std::size_t h, block_range range) {
      return chunks + (h % 2) * incoming_bytes_ +
             layout_.offset(range.first - blocks(schedule_->reduce[h].receive).first);
    };
    auto const place = [&](std::size_t h, block_range range) {
      return place_in(m.scratch, h, range);
    };
    auto const inbox = [&](std::size_t h, block_range range) {
      return place_in(is_narrow_ ? m.scratch + 2 * incoming_bytes_ : m.scratch, h, range);
    };
    auto const merge = [&](std::size_t h, block_range range) {
      stopwatch watch;
      std::byte* const mine = m.code + layout_.offset(range.first);
      if (schedule_->reduce[h].adds)
        m.executor.for_each_block(
            range.count, merge_blocks<C>{m.codec, mine, place(h, range), layout_.block_bytes});
      else
        m.executor.for_each_block(range.count,
                                  copy_blocks{layout_, range.first, mine, place(h, range)});
      ready_to_move(m.transport, m.executor);
      watch.add_to(m.figures.seconds_merge);
    };
    auto const nothing = [](block_range) {};
    run(schedule_->reduce, reduces_at_once_, m, inbox, place, encode, encode, merge, nothing);
    encode(layout_.all());  // a rank alone makes no hops
  }

  /// Spread the finished chunks; afterwards every rank holds all of them.
  /// @param meanwhile  () called once, when this rank's own chunks are on their way
  /// @param arrived    (blocks) called for all others' chunks, segment by segment
  template <class Meanwhile, class Arrived>
  void all_gather(motion const& m, Meanwhile const& meanwhile, Arrived const& arrived) {
    bool first = true;
    auto const place = [&](std::size_t, block_range range) {
      return m.code + layout_.offset(range.first);
    };
    auto const inbox = [&](std::size_t, block_range range) {
      return (is_narrow_ ? outbox(m) : m.code) + layout_.offset(range.first);
    };
    auto const once = [&](block_range) {
      if (first) meanwhile();
      first = false;
    };
    auto const nothing = [](block_range) {};
    run(
        schedule_->gather, gathers_at_once_, m, inbox, place, nothing, once,
        [](std::size_t, block_range) {}, arrived);
    if (first) meanwhile();
  }

 private:
  /// What a segment is as a message, in the place where it leaves.
  struct message {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };

  /// Where blocks are narrow before they leave.
  std::byte* outbox(motion const& m) const { return m.scratch + 4 * incoming_bytes_; }
  block_range blocks(block_range chunks) const {
    return schedule_->blocks_of(chunks, layout_.blocks());
  }

  /// Calls f(segment) for the segments of a range of chunks, in order.
  template <class F> void for_each_segment(block_range chunks, F const& f) const {
    block_range const all = blocks(chunks);
    for (std::size_t first = all.first; first < all.end(); first += segment_blocks_)
      f(block_range{first, std::min(segment_blocks_, all.end() - first)});
  }

  /// Moves all segments; the functions say what is done besides.
  /// @param at_once      no hop has to wait for another before it sends
  /// @param inbox        (hop, blocks) -> where these blocks are received
  /// @param place        (hop, blocks) -> where they go; another place if they are narrow
  /// @param before_send  (blocks)
  /// @param before_wait  (blocks) while they are on their way here
  /// @param arrived      (hop, blocks)
  /// @param passed_on    (blocks) when they are on their way to the next, if they go there
  template <class Inbox, class Place, class BeforeSend, class BeforeWait, class Arrived,
            class PassedOn>
  void run(std::vector<hop> const& hops, bool at_once, motion const& m, Inbox const& inbox,
           Place const& place, BeforeSend const& before_send, BeforeWait const& before_wait,
           Arrived const& arrived, PassedOn const& passed_on) {
    stopwatch watch;
    auto const aside = [&](auto const& f, auto... arguments) {  // keeps its own time
      watch.add_to(m.figures.seconds_communicate);
      f(arguments...);
      watch.skip();
    };
    auto const narrow = [&](block_range range) {
      stopwatch own;
      if constexpr (Narrowable<C>)
        narrow_messages_[range.first] = {
            range.count,
            narrow_.narrow(m.codec, m.executor, range, m.code + layout_.offset(range.first),
                           outbox(m) + layout_.offset(range.first))};
      ready_to_move(m.transport, m.executor);
      own.add_to(m.figures.seconds_encode);
    };
    auto const widen = [&](std::size_t h, block_range range, std::size_t bytes) {
      stopwatch own;
      if constexpr (Narrowable<C>)
        narrow_.widen(m.codec, m.executor, range,
                      std::span<std::byte const>(inbox(h, range), bytes), place(h, range));
      ready_to_move(m.transport, m.executor);
      own.add_to(m.figures.seconds_decode);
    };
    bool const gathers = &hops == &schedule_->gather;
    bool const stays_good = gathers || at_once;  // what was made narrow before
    auto const send = [&](std::size_t h, block_range range) {
      aside(before_send, range);
      std::span<std::byte const> bytes(m.code + layout_.offset(range.first), layout_.bytes(range));
      if (is_narrow_) {
        auto const& made = narrow_messages_[range.first];
        if (!stays_good || made.blocks != range.count) aside(narrow, range);
        bytes = {outbox(m) + layout_.offset(range.first), made.bytes};
      }
      (at_once ? early_sends_ : sends_[h % 2])
          .push_back(m.transport.isend(hops[h].to, m.tag, bytes));
    };
    auto const send_all = [&](std::size_t h) {
      for_each_segment(hops[h].send, [&](block_range range) { send(h, range); });
    };
    auto const receive_all = [&](std::size_t h) {
      for_each_segment(hops[h].receive, [&](block_range range) {
        receives_[h % 2].push_back(m.transport.irecv(
            hops[h].from, m.tag, std::span<std::byte>(inbox(h, range), layout_.bytes(range))));
      });
    };

    for (auto* list : {&early_sends_, &sends_[0], &sends_[1], &receives_[0], &receives_[1]})
      list->clear();
    narrow_messages_.assign(narrow_messages_.size(), {});
    if (hops.empty()) return;
    receive_all(0);
    send_all(0);
    for (std::size_t h = 1; at_once && h < hops.size(); ++h) send_all(h);
    for (std::size_t h = 0; h < hops.size(); ++h) {
      bool const more = h + 1 < hops.size();
      bool const passes_on =
          more && hops[h + 1].send == hops[h].receive && hops[h].receive.count > 0;
      bool const exchanges = hops[h].send == hops[h].receive;
      if (more) receive_all(h + 1);
      std::size_t next = 0;
      for_each_segment(hops[h].receive, [&](block_range range) {
        aside(before_wait, range);
        std::size_t const came = m.transport.wait(receives_[h % 2][next++]);
        if (!is_narrow_ && came != layout_.bytes(range))
          throw wire_error("hop " + std::to_string(h) + ": rank " + std::to_string(hops[h].from) +
                           " sent " + std::to_string(came) + " bytes, " +
                           std::to_string(layout_.bytes(range)) + " were expected");
        if (exchanges) m.transport.wait(sends_[h % 2][next - 1]);
        if (is_narrow_) {
          aside(widen, h, range, came);
          if (gathers) narrow_messages_[range.first] = {range.count, came};
        }
        aside(arrived, h, range);
        if (passes_on) send(h + 1, range);
        aside(passed_on, range);
      });
      if (!exchanges)
        for (auto& request : sends_[h % 2]) m.transport.wait(request);
      if (blocks(hops[h].send).count > 0) ++m.figures.hops;
      sends_[h % 2].clear();
      receives_[h % 2].clear();
      if (more && !passes_on && !at_once) send_all(h + 1);
      watch.add_to(m.figures.seconds_communicate);
    }
    for (auto& request : early_sends_) m.transport.wait(request);
    watch.add_to(m.figures.seconds_communicate);
  }

  /// True if no hop sends what an earlier one has changed, or changes itself what it sends: then
  /// nothing has to wait.
  static bool sends_own_blocks_only(std::vector<hop> const& hops) {
    for (std::size_t h = 0; h < hops.size(); ++h)
      for (std::size_t i = 0; i < hops.size(); ++i) {
        block_range const &sent = hops[h].send, &changed = hops[i].receive;
        bool const early = i <= h || !hops[i].adds;
        if (early && changed.first < sent.end() && sent.first < changed.end()) return false;
      }
    return true;
  }

  code_layout layout_;
  schedule const* schedule_;
  std::size_t segment_blocks_;
  bool is_narrow_;
  narrow_code<C, E> narrow_;
  std::vector<message> narrow_messages_;  ///< by the first blocks of their segments
  bool reduces_at_once_;
  bool gathers_at_once_;
  std::size_t incoming_bytes_ = 0;
  std::vector<typename T::request> early_sends_;
  std::vector<typename T::request> sends_[2];
  std::vector<typename T::request> receives_[2];
};

}  // namespace hcomp::detail
