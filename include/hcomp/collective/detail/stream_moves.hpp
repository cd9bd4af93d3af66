#pragma once
/// @file
/// Moves the segments of one vector whose codes have a length that depends on the data.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/uncompressed_stream.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/detail/stream_coder.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/collective/schedule.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Rank 0 receives the vectors of all others, adds them up in the order of the ranks, and answers.
inline schedule worker_aggregator_schedule(int rank, int size) {
  block_range const all{0, 1}, nothing{};
  schedule s{rank, size, 1, {}, {}, rank == 0 ? all : nothing};
  if (rank > 0) {
    s.reduce.push_back({0, 0, all, nothing});
    s.gather.push_back({0, 0, nothing, all, size});
  }
  for (int other = 1; rank == 0 && other < size; ++other) {
    s.reduce.push_back({other, other, nothing, all});
    s.gather.push_back({other, other, all, nothing, size});
  }
  return s;
}

/// Makes the hops of a schedule. Chunks are cut into segments, each of them a message: a header
/// like a block's and the segment's code, received into room for the longest there can be. So
/// coding one segment overlaps the transfer of others, and a segment that the next hop passes on
/// leaves as soon as something is added to it. What an all-gather passes on stays as it came.
/// Codes of a MergingVariableRate are added as they are; others, where several codes are added to a
/// segment in one place, as floats until the last of them.
/// A segment that arrives damaged is passed on as such, so that nobody waits for it.
/// Changes nothing but its own memory, which is allocated at first.
/// @tparam E  a DeviceExecutor whose memory the values are in, or calling_thread
template <VariableRate C, Transport T, CallingThreadOrDevice E> class stream_moves {
 public:
  /// What one call works on.
  struct call {
    C const& codec;
    float const* x;
    std::uint64_t stream;
    report& figures;
  };

  /// @param layout       of blocks as short as chunks can be, in floats
  /// @param answers_raw  finished sums travel uncompressed
  /// @param executor     none for calling_thread
  stream_moves(code_layout const& layout, schedule const& plan, bool answers_raw, T& transport,
               E* executor, plan_options const& options)
      : layout_(layout),
        schedule_(plan),
        answers_raw_(answers_raw),
        transport_(&transport),
        options_(options),
        reduces_at_once_(is_independent(plan.reduce)),
        gathers_at_once_(is_independent(plan.gather)),
        coder_(executor) {}

  /// The blocks that this rank finishes.
  block_range owned() const { return schedule_.blocks_of(schedule_.owned, layout_.blocks()); }
  /// What is wrong, since `start`.
  code_findings const& found() const { return found_; }

  /// Forget the last call.
  void start(C const& codec) {
    if (begins_.empty()) allocate(codec);
    coder_.start();
    for (auto& one : segments_) {
      one.bytes = 0;
      one.weight = 1;
      one.is_summed = false;
      one.fault = block_fault::none;
    }
    found_ = {};
  }

  /// The largest of all ranks' is what `fitted` makes a codec of. Only after `start`.
  std::uint32_t measure(std::span<float const> x) requires FittedVariableRate<C> {
    return coder_.measure(x);
  }

  /// Adds up; afterwards this rank has the sums of its chunks.
  void reduce(call const& it) {
    auto const inbox = [&](std::size_t h, std::size_t s) {
      std::size_t const begin = begins_[schedule_.reduce[h].receive.first];
      return std::span(incoming_.data() + h % 2 * incoming_bytes_ + places_[s] - places_[begin],
                       places_[s + 1] - places_[s]);
    };
    run(
        schedule_.reduce, reduces_at_once_, it.figures, inbox,
        [&](std::size_t s) {
          if (segments_[s].bytes == 0) encode(it, s, C::tag, it.codec);
        },
        [&](std::size_t h, std::size_t s, std::size_t came) {
          add(it, h, s, inbox(h, s).first(came));
        },
        [](std::size_t) {});
  }

  /// Encodes of this rank's chunks what was not encoded in passing; all of x there after `start`
  /// alone.
  /// @param nonfinite  note where they have NaN or infinity
  void finish_owned(call const& it, bool nonfinite) {
    for_each_owned([&](std::size_t s) {
      if (answers_raw_) {
        if (segments_[s].bytes > 0) decode_sums(it, s);
        encode(it, s, uncompressed_stream::tag, uncompressed_stream{});
      } else if (segments_[s].bytes == 0) {
        encode(it, s, C::tag, it.codec);
      }
      if (nonfinite && segments_[s].fault == block_fault::none) find_nonfinite(it, s);
    });
  }

  /// Spreads what is finished; afterwards every rank has the same bytes of all segments.
  /// @param weight  of the sums
  /// @param use     (segment) called for every segment with a sound header, while others are on
  ///                their way; may throw wire_error
  template <class Use> void gather(call const& it, std::uint32_t weight, Use const& use) {
    auto const use_sound = [&](std::size_t s) {
      if (segments_[s].fault != block_fault::none) return;
      stopwatch watch;
      try {
        use(s);
      } catch (wire_error const&) {
        note(s, block_fault::format);
      }
      watch.add_to(it.figures.seconds_decode);
    };
    bool first = true;
    auto const use_owned = [&] {
      if (first) for_each_owned(use_sound);
      first = false;
    };
    std::uint8_t const tag = answers_raw_ ? uncompressed_stream::tag : C::tag;
    run(
        schedule_.gather, gathers_at_once_, it.figures,
        [&](std::size_t, std::size_t s) { return slot(s); }, [](std::size_t) {},
        [&](std::size_t, std::size_t s, std::size_t came) {
          segments_[s].bytes = came;
          note(s, fault_of(message(s), header_of(it, s, tag, weight)));
        },
        [&](std::size_t s) {
          use_owned();
          use_sound(s);
        });
    use_owned();
  }

  /// Calls f(segment) for the segments of this rank's chunks, or of all.
  template <class F> void for_each_owned(F const& f) const { for_each_segment(schedule_.owned, f); }
  template <class F> void for_each(F const& f) const {
    for (std::size_t s = 0; s < segments_.size(); ++s) f(s);
  }

  /// A finished segment to its place in x.
  /// @throws wire_error  it is damaged; x is unchanged
  void decode(C const& codec, std::size_t s, reduction result, float* x) {
    auto const values = std::span(x + segments_[s].first, segments_[s].count);
    int const parts = result == reduction::mean ? schedule_.size : 0;
    if (answers_raw_)
      coder_.decode(uncompressed_stream{}, payload(message(s)), values, parts);
    else
      coder_.decode(codec, payload(message(s)), values, parts);
  }
  /// How far off a finished segment is at most, if its code says so; otherwise 0.
  double error_of(std::size_t s) const {
    if constexpr (BoundedVariableRate<C>)
      if (!answers_raw_) return C::error_of(payload(message(s)));
    return 0;
  }
  /// @throws wire_error  a finished segment is damaged
  void check(C const& codec, std::size_t s) const {
    if (answers_raw_)
      uncompressed_stream::check(payload(message(s)), segments_[s].count);
    else
      codec.check(payload(message(s)), segments_[s].count);
  }

 private:
  using memory = typename stream_coder<C, E>::memory;

  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  struct segment {
    std::size_t first = 0, count = 0;  ///< values
    std::size_t encoded_at = never;    ///< hop of the reduction that adds to it last
    std::size_t bytes = 0;             ///< of its message; 0: not made yet
    std::uint32_t weight = 1;          ///< what this rank has here sums so many ranks
    bool is_summed = false;            ///< into sums_
    block_fault fault = block_fault::none;
  };

  /// True if no hop sends what comes with another: then nothing has to wait.
  static bool is_independent(std::vector<hop> const& hops) {
    for (hop const& sending : hops)
      for (hop const& receiving : hops)
        if (sending.send.first < receiving.receive.end() &&
            receiving.receive.first < sending.send.end())
          return false;
    return true;
  }

  void allocate(C const& codec) {
    std::size_t place = 0, longest = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(schedule_.chunks); ++c) {
      begins_.push_back(segments_.size());
      auto const chunk = schedule_.blocks_of({c, 1}, layout_.blocks());
      std::size_t const last = last_hop_adding_to(c);
      for (std::size_t b = chunk.first; b < chunk.end(); b += segment_blocks()) {
        std::size_t const end = std::min(b + segment_blocks(), chunk.end());
        segment one;
        one.first = b * layout_.block_values;
        one.count = std::min(end * layout_.block_values, layout_.values) - one.first;
        one.encoded_at = last;
        segments_.push_back(one);
        places_.push_back(place);
        std::size_t const bytes =
            block_header_bytes +
            std::max(codec.capacity(one.count), uncompressed_stream::capacity(one.count));
        place += (bytes + 63) / 64 * 64;
        longest = std::max(longest, one.count);
      }
    }
    begins_.push_back(segments_.size());
    places_.push_back(place);
    messages_ = memory(place);
    for (hop const& h : schedule_.reduce)
      incoming_bytes_ = std::max(
          incoming_bytes_, places_[begins_[h.receive.end()]] - places_[begins_[h.receive.first]]);
    incoming_ = memory(2 * incoming_bytes_);
    coder_.allocate(codec, longest, adds_before_it_encodes_ ? layout_.values : 0,
                    MergingVariableRate<C> && merges_);
  }
  /// Codecs have runs of 1024 values or less, which are not cut.
  std::size_t segment_blocks() const {
    std::size_t const run = 1024 / layout_.block_values;
    return std::max(layout_.blocks_per(options_.segment_bytes) / run, std::size_t{1}) * run;
  }
  /// Encoded in passing there.
  std::size_t last_hop_adding_to(std::size_t chunk) {
    std::size_t last = never;
    for (std::size_t h = 0; h < schedule_.reduce.size(); ++h) {
      auto const& received = schedule_.reduce[h].receive;
      if (chunk < received.first || chunk >= received.end()) continue;
      merges_ |= last != never;
      adds_before_it_encodes_ |= answers_raw_ || (last != never && !MergingVariableRate<C>);
      last = h;
    }
    return answers_raw_ ? never : last;
  }

  template <class F> void for_each_segment(block_range chunks, F const& f) const {
    for (std::size_t s = begins_[chunks.first]; s < begins_[chunks.end()]; ++s) f(s);
  }
  bool has_segments(block_range chunks) const {
    return begins_[chunks.first] < begins_[chunks.end()];
  }
  bool is_in(std::size_t s, block_range chunks) const {
    return begins_[chunks.first] <= s && s < begins_[chunks.end()];
  }
  std::span<std::byte> slot(std::size_t s) {
    return {messages_.data() + places_[s], places_[s + 1] - places_[s]};
  }
  std::span<std::byte const> message(std::size_t s) const {
    return {messages_.data() + places_[s], segments_[s].bytes};
  }
  static std::span<std::byte const> payload(std::span<std::byte const> message) {
    return message.subspan(block_header_bytes);
  }

  block_header header_of(call const& it, std::size_t s, std::uint8_t tag,
                         std::uint32_t weight) const {
    return make_header(tag, static_cast<int>(segments_[s].count & 0xffff), false,
                       {it.stream, 0, weight, static_cast<std::uint32_t>(s)});
  }
  block_fault fault_of(std::span<std::byte const> message, block_header expected) const {
    if (message.size() < block_header_bytes) return block_fault::length;
    auto const header = load<block_header>(message.data());
    expected.lowest_rank += 1;  // merge_fault compares blocks of different ranks
    if (auto const fault = merge_fault(header, expected, ~std::uint32_t{0});
        fault != block_fault::none)
      return fault;
    if (header.lowest_rank != expected.lowest_rank - 1) return block_fault::ranks;
    if (header.weight != expected.weight) return block_fault::weight;
    if (options_.checksum && !(header.flags & block_has_checksum)) return block_fault::checksum;
    if (!is_intact(serial_group{}, message.data(), message.size())) return block_fault::checksum;
    if (!(header.flags & block_is_damaged)) return block_fault::none;
    return header.fault != block_fault::none ? header.fault : block_fault::format;
  }
  void note(std::size_t s, block_fault fault) {
    if (fault == block_fault::none) return;
    segments_[s].fault = fault;
    code_findings one;
    one.damaged = segments_[s].first / layout_.block_values;
    one.fault = static_cast<std::uint64_t>(fault);
    found_.merge(one);
  }

  /// The message of a segment; a header alone, that says why, if it is damaged.
  /// @param write  (out) returns how many bytes its code took
  template <class Write>
  void make(call const& it, std::size_t s, std::uint8_t tag, Write const& write) {
    auto& one = segments_[s];
    auto const out = slot(s);
    std::size_t bytes = 0;
    if (one.fault == block_fault::none) bytes = write(out.subspan(block_header_bytes));
    auto header = header_of(it, s, tag, one.weight);
    if (one.fault != block_fault::none) {
      header.flags = block_is_damaged;
      header.fault = one.fault;
    }
    one.bytes = block_header_bytes + bytes;
    store(out.data(), 0, header);
    if (options_.checksum) seal(serial_group{}, out.data(), one.bytes);
  }

  /// What this rank has of a segment until it is encoded.
  std::span<float const> values(call const& it, segment const& one) {
    return {(one.is_summed ? coder_.sums() : it.x) + one.first, one.count};
  }
  template <class Codec>
  void encode(call const& it, std::size_t s, std::uint8_t tag, Codec const& codec) {
    stopwatch watch;
    make(it, s, tag, [&](std::span<std::byte> out) {
      return coder_.encode(codec, values(it, segments_[s]), out);
    });
    watch.add_to(it.figures.seconds_encode);
  }

  /// What came with hop h of the reduction.
  void add(call const& it, std::size_t h, std::size_t s, std::span<std::byte const> message) {
    stopwatch watch;
    auto& one = segments_[s];
    auto const ranks = static_cast<std::uint32_t>(schedule_.reduce[h].ranks);
    note(s, fault_of(message, header_of(it, s, C::tag, ranks)));
    one.weight += ranks;
    bool const is_last = MergingVariableRate<C> || h == one.encoded_at;
    auto const make_sum = [&] {
      make(it, s, C::tag, [&](std::span<std::byte> out) {
        if constexpr (MergingVariableRate<C>)
          if (one.bytes > 0)  // it is a code already
            return coder_.merge(it.codec, payload(this->message(s)), payload(message), one.count,
                                out);
        return coder_.decode_add_encode(it.codec, payload(message), values(it, one), out);
      });
    };
    try {
      if (is_last)
        make_sum();
      else if (one.fault == block_fault::none)
        add_to_sums(it, one, payload(message));
    } catch (wire_error const&) {
      note(s, block_fault::format);
      if (is_last) make_sum();  // says that it is damaged
    }
    watch.add_to(it.figures.seconds_merge);
  }
  /// A sum that is a code to floats.
  void decode_sums(call const& it, std::size_t s) {
    stopwatch watch;
    auto& one = segments_[s];
    if (one.fault == block_fault::none) coder_.decode(it.codec, payload(message(s)), sums_of(one));
    one.is_summed = true;
    watch.add_to(it.figures.seconds_decode);
  }
  void add_to_sums(call const& it, segment& one, std::span<std::byte const> code) {
    auto const addends = values(it, one);
    one.is_summed = true;
    coder_.decode_add(it.codec, code, addends, sums_of(one));
  }
  std::span<float> sums_of(segment const& one) { return {coder_.sums() + one.first, one.count}; }

  void find_nonfinite(call const& it, std::size_t s) {
    stopwatch watch;
    auto const& one = segments_[s];
    auto const note_block = [&](std::size_t i) {
      std::size_t const block = one.first / layout_.block_values + i;
      found_.nonfinite = std::min<std::uint64_t>(found_.nonfinite, block);
      ++found_.nonfinite_blocks;
    };
    if (answers_raw_)
      coder_.for_each_nonfinite(uncompressed_stream{}, payload(message(s)), one.count, note_block);
    else
      coder_.for_each_nonfinite(it.codec, payload(message(s)), one.count, note_block);
    watch.add_to(it.figures.seconds_decode);
  }

  /// Moves all segments; the functions say what is done besides.
  /// @param at_once    no hop has to wait for another before it sends
  /// @param inbox      (hop, segment) -> where it is received
  /// @param ready      (segment) before it is sent
  /// @param arrived    (hop, segment, bytes)
  /// @param passed_on  (segment) when it is on its way to the next, if it goes there
  template <class Inbox, class Ready, class Arrived, class PassedOn>
  void run(std::vector<hop> const& hops, bool at_once, report& figures, Inbox const& inbox,
           Ready const& ready, Arrived const& arrived, PassedOn const& passed_on) {
    stopwatch watch;
    auto const aside = [&](auto const& f, auto... arguments) {  // keeps its own time
      watch.add_to(figures.seconds_communicate);
      f(arguments...);
      watch.skip();
    };
    auto const send = [&](std::size_t h, std::size_t s) {
      aside(ready, s);
      (at_once ? early_sends_ : sends_[h % 2])
          .push_back(transport_->isend(hops[h].to, options_.tag, message(s)));
    };
    auto const send_all = [&](std::size_t h) {
      for_each_segment(hops[h].send, [&](std::size_t s) { send(h, s); });
    };
    auto const receive_all = [&](std::size_t h) {
      for_each_segment(hops[h].receive, [&](std::size_t s) {
        receives_[h % 2].push_back(transport_->irecv(hops[h].from, options_.tag, inbox(h, s)));
      });
    };

    for (auto* list : {&early_sends_, &sends_[0], &sends_[1], &receives_[0], &receives_[1]})
      list->clear();
    if (hops.empty()) return;
    receive_all(0);
    for (std::size_t h = 0; h < (at_once ? hops.size() : 1); ++h) send_all(h);
    for (std::size_t h = 0; h < hops.size(); ++h) {
      bool const more = h + 1 < hops.size();
      auto const next = more && !at_once ? hops[h + 1].send : block_range{};
      auto const& received = hops[h].receive;
      bool const passes_on = received.first <= next.first && next.end() <= received.end();
      if (more) receive_all(h + 1);
      std::size_t i = 0;
      for_each_segment(received, [&](std::size_t s) {
        std::size_t const came = transport_->wait(receives_[h % 2][i++]);
        aside(arrived, h, s, came);
        if (passes_on && is_in(s, next)) send(h + 1, s);
        aside(passed_on, s);
      });
      for (auto& request : sends_[h % 2]) transport_->wait(request);
      if (has_segments(hops[h].send)) ++figures.hops;
      sends_[h % 2].clear();
      receives_[h % 2].clear();
      if (more && !at_once && !passes_on) send_all(h + 1);
      watch.add_to(figures.seconds_communicate);
    }
    for (auto& request : early_sends_) transport_->wait(request);
    watch.add_to(figures.seconds_communicate);
  }

  code_layout layout_;
  schedule schedule_;
  bool answers_raw_;
  T* transport_;
  plan_options options_;
  bool reduces_at_once_, gathers_at_once_;
  bool merges_ = false, adds_before_it_encodes_ = false;

  std::vector<segment> segments_;
  std::vector<std::size_t> begins_;  ///< first segment of every chunk, and behind the last
  std::vector<std::size_t> places_;  ///< of the segments' messages, and where they end
  std::size_t incoming_bytes_ = 0;
  memory messages_ = memory(std::size_t{0}), incoming_ = memory(std::size_t{0});
  stream_coder<C, E> coder_;  // its work reads messages
  code_findings found_;
  std::vector<typename T::request> early_sends_;
  std::vector<typename T::request> sends_[2];
  std::vector<typename T::request> receives_[2];
};

}  // namespace hcomp::detail
