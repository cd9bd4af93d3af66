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
#include <hcomp/collective/detail/hop_pipeline.hpp>
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
#include <hcomp/transport/any_transport.hpp>
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
template <VariableRate C, CallingThreadOrDevice E> class stream_moves {
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
  stream_moves(code_layout const& layout, schedule const& plan, bool answers_raw,
               any_transport& transport, E* executor, plan_options const& options)
      : layout_(layout),
        schedule_(plan),
        answers_raw_(answers_raw),
        options_(options),
        begins_(cut_chunks()),
        reduce_(
            plan.reduce, transport, options.tag, [this](auto c) { return cut(c); }, true),
        gather_(
            plan.gather, transport, options.tag, [this](auto c) { return cut(c); }, true),
        coder_(executor) {}

  /// The blocks that this rank finishes.
  block_range owned() const { return schedule_.blocks_of(schedule_.owned, layout_.blocks()); }
  /// What is wrong, since `start`.
  code_findings const& found() const { return found_; }

  /// Forget the last call.
  void start(C const& codec) {
    if (places_.empty()) allocate(codec);
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
    reduction_walk walk(*this, it);
    reduce_.walk(walk, it.figures);
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
    spreading_walk<Use> walk(*this, it, weight, use);
    gather_.walk(walk, it.figures);
    walk.use_owned();
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

  /// What comes is added to what this rank has.
  struct reduction_walk final : segment_handler {
    stream_moves& moves;
    call const& it;

    reduction_walk(stream_moves& moves, call const& it) : moves(moves), it(it) {}

    std::span<std::byte const> leave(std::size_t, block_range blocks) override {
      std::size_t const s = moves.index_of(blocks);
      if (moves.segments_[s].bytes == 0) moves.encode(it, s, C::tag, it.codec);
      return moves.message(s);
    }
    std::span<std::byte> inbox(std::size_t h, block_range blocks) override {
      std::size_t const s = moves.index_of(blocks),
                        first = moves.begins_[moves.schedule_.reduce[h].receive.first];
      return {moves.incoming_.data() + h % 2 * moves.incoming_bytes_ + moves.places_[s] -
                  moves.places_[first],
              moves.places_[s + 1] - moves.places_[s]};
    }
    void arrive(std::size_t h, block_range blocks, std::size_t bytes) override {
      moves.add(it, h, moves.index_of(blocks), inbox(h, blocks).first(bytes));
    }
  };

  /// What comes is finished.
  template <class Use> struct spreading_walk final : segment_handler {
    stream_moves& moves;
    call const& it;
    std::uint32_t weight;
    Use const& use;
    bool uses_owned = true;

    spreading_walk(stream_moves& moves, call const& it, std::uint32_t weight, Use const& use)
        : moves(moves), it(it), weight(weight), use(use) {}

    std::span<std::byte const> leave(std::size_t, block_range blocks) override {
      return moves.message(moves.index_of(blocks));
    }
    std::span<std::byte> inbox(std::size_t, block_range blocks) override {
      return moves.slot(moves.index_of(blocks));
    }
    void arrive(std::size_t, block_range blocks, std::size_t bytes) override {
      std::size_t const s = moves.index_of(blocks);
      moves.segments_[s].bytes = bytes;
      std::uint8_t const tag = moves.answers_raw_ ? uncompressed_stream::tag : C::tag;
      moves.note(s, moves.fault_of(moves.message(s), moves.header_of(it, s, tag, weight)));
    }
    void passed_on(block_range blocks) override {
      use_owned();
      use_sound(moves.index_of(blocks));
    }

    /// Once, while others' segments are on their way here.
    void use_owned() {
      if (uses_owned) moves.for_each_owned([&](std::size_t s) { use_sound(s); });
      uses_owned = false;
    }
    void use_sound(std::size_t s) {
      if (moves.segments_[s].fault != block_fault::none) return;
      stopwatch watch;
      try {
        use(s);
      } catch (wire_error const&) {
        moves.note(s, block_fault::format);
      }
      watch.add_to(it.figures.seconds_decode);
    }
  };

  /// Cuts chunks into segments; returns the first segment of every chunk, and behind the last.
  std::vector<std::size_t> cut_chunks() {
    std::vector<std::size_t> begins;
    for (std::size_t c = 0; c < static_cast<std::size_t>(schedule_.chunks); ++c) {
      begins.push_back(blocks_.size());
      auto const chunk = schedule_.blocks_of({c, 1}, layout_.blocks());
      for (std::size_t b = chunk.first; b < chunk.end(); b += segment_blocks())
        blocks_.push_back({b, std::min(segment_blocks(), chunk.end() - b)});
    }
    begins.push_back(blocks_.size());
    return begins;
  }
  std::vector<block_range> cut(block_range chunks) const {
    auto const at = [&](std::size_t chunk) {
      return blocks_.begin() + static_cast<std::ptrdiff_t>(begins_[chunk]);
    };
    return {at(chunks.first), at(chunks.end())};
  }
  /// The number of a segment.
  std::size_t index_of(block_range blocks) const {
    auto const found = std::lower_bound(
        blocks_.begin(), blocks_.end(), blocks,
        [](block_range const& a, block_range const& b) { return a.first < b.first; });
    return static_cast<std::size_t>(found - blocks_.begin());
  }

  void allocate(C const& codec) {
    std::size_t place = 0, longest = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(schedule_.chunks); ++c) {
      std::size_t const last = last_hop_adding_to(c);
      for (std::size_t s = begins_[c]; s < begins_[c + 1]; ++s) {
        segment one;
        one.first = blocks_[s].first * layout_.block_values;
        one.count = std::min(blocks_[s].end() * layout_.block_values, layout_.values) - one.first;
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
  block_fault fault_of(std::span<std::byte const> message, block_header const& expected) const {
    if (message.size() < block_header_bytes) return block_fault::length;
    auto const header = load<block_header>(message.data());
    if (auto const fault = mismatch(header, expected); fault != block_fault::none) return fault;
    if (header.lowest_rank != expected.lowest_rank) return block_fault::ranks;
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

  code_layout layout_;
  schedule schedule_;
  bool answers_raw_;
  plan_options options_;
  bool merges_ = false, adds_before_it_encodes_ = false;

  std::vector<block_range> blocks_;  ///< of the segments
  std::vector<std::size_t> begins_;  ///< first segment of every chunk, and behind the last
  hop_pipeline reduce_, gather_;
  std::vector<segment> segments_;
  std::vector<std::size_t> places_;  ///< of the segments' messages, and where they end
  std::size_t incoming_bytes_ = 0;
  memory messages_ = memory(std::size_t{0}), incoming_ = memory(std::size_t{0});
  stream_coder<C, E> coder_;  // its work reads messages
  code_findings found_;
};

}  // namespace hcomp::detail
