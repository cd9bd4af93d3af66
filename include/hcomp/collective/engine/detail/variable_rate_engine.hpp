#pragma once
/// @file
/// Runs a schedule on segments whose length depends on the data: agree, encode, reduce-scatter,
/// all-gather, decode. One implementation for all codecs, executors and transports.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/hop_pipeline.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Reduces vectors of one size over one transport, with the promises of `plan`.
///
/// Parts are cut into segments. Each segment is a message: a header like a block's, then the
/// encoded segment. It is received into a buffer of the maximum length. So encoding one segment
/// overlaps the transfer of other segments, and a segment that the next hop forwards is sent as
/// soon as it is reduced. An all-gather forwards segments unchanged.
///
/// If the codec does not add encoded vectors and a rank adds several to one segment, it adds values
/// until the last of them.
///
/// If work runs concurrently with this thread, on devices, two segments are in progress at once,
/// and the next one to send is encoded while one is sent. A segment that arrives damaged is
/// forwarded as damaged, so that no rank waits for it. After the first call nothing is allocated.
class variable_rate_engine final : public collective_engine<variable_rate_values> {
 public:
  /// @param work  must outlive the engine, like the transport
  /// @throws std::invalid_argument  an algorithm without a schedule, or one that does not fit the
  ///                                ranks; a transport that cannot reach host memory
  variable_rate_engine(variable_rate_engine_settings const& made_for, variable_rate_work& work,
                       any_transport& transport, plan_options const& options)
      : collective_engine(made_for.codec, made_for.layout, transport, options, memory_space::host),
        merges_encoded_(made_for.merges_encoded),
        fits_calls_(made_for.fits_calls),
        max_blocks_(made_for.max_values / made_for.layout.block_values),
        message_memory_(made_for.messages),
        work_(&work),
        schedule_(make_schedule(options.algorithm, transport.rank(), transport.size())),
        answers_plain_(schedule_.is_centralised),
        begins_(cut_parts()),
        reduce_(
            schedule_.reduce, transport, options.tag, [this](auto c) { return cut(c); }, true),
        gather_(
            schedule_.gather, transport, options.tag, [this](auto c) { return cut(c); }, true) {}

  /// The blocks that this rank owns after `reduce_scatter`.
  block_range shard_blocks() const override {
    return schedule_.blocks_of(schedule_.shard, layout_.blocks());
  }

  report all_reduce(call_arguments const& given, variable_rate_values& values,
                    call_options const& call) override {
    auto stats = session_.start(operation::all_reduce, with_hint(given, values), call);
    one_call const it{values, stats, parts_of(call.op)};
    run(it, [&] {
      reduce(it);
      return spread(it, ranks());
    });
    return session_.done(stats);
  }

  report reduce_scatter(call_arguments const& given, variable_rate_values& values,
                        call_options const& call) override {
    auto stats = session_.start(operation::reduce_scatter, with_hint(given, values), call);
    one_call const it{values, stats, parts_of(call.op)};
    run(it, [&] {
      reduce(it);
      finish_shard(it);
      if (!finish(ranks(), stats)) return false;
      stopwatch watch;
      for_each_in_shard([&](std::size_t s) { decode(it, s, encoded_by::this_rank); });
      watch.add_to(stats.seconds_decode);
      return true;
    });
    return session_.done(stats);
  }

  report all_gather(call_arguments const& given, variable_rate_values& values,
                    call_options const& call) override {
    auto stats = session_.start(operation::all_gather, with_hint(given, values), call);
    one_call const it{values, stats, 0};
    run(it, [&] {
      for_each_in_shard([&](std::size_t s) { segments_[s].lowest = 0; });  // as reduced shards
      return spread(it, 1);
    });
    return session_.done(stats);
  }

 private:
  struct one_call {
    variable_rate_values& values;
    report& stats;
    int parts;  ///< divisor of the result; 0: none
  };

  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  struct segment {
    value_range values;
    std::size_t encoded_at = never;  ///< last hop of the reduction that adds to it
    std::size_t bytes = 0;           ///< of its message; 0: not encoded yet
    std::uint32_t weight = 1;        ///< number of ranks in this rank's partial sum
    std::uint32_t lowest = 0;        ///< the lowest of these ranks
    bool is_summed = false;          ///< as values
    block_fault fault = block_fault::none;
  };

  // ---- agreement between ranks --------------------------------------------------------------
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(schedule_.size); }
  int parts_of(reduce_op op) const { return op == reduce_op::mean ? schedule_.size : 0; }

  /// Adds a hint from a few values, which may save the first attempt. A wrong hint is impossible:
  /// the first attempt would give the same answer, so results do not depend on the choice of
  /// values.
  call_arguments with_hint(call_arguments given, variable_rate_values const& values) const {
    bool const are_given = given.x && given.is_reachable && given.values == layout_.values &&
                           reinterpret_cast<std::uintptr_t>(given.x) % given.alignment == 0;
    given.needs_fallback = are_given && !fits_calls_ && values.seem_to_need_fallback();
    return given;
  }
  /// Calls `sum()` after the arguments of all ranks were found valid. If it returns false on all
  /// ranks, x is unchanged, and run calls it again with the fallback.
  template <class Collective> void run(one_call const& it, Collective const& sum) {
    it.stats.messages = message_memory_;
    session_.require_weights_of_one();
    work_->start();
    codec_id_ = session_.codec().codec_id;
    if (places_.empty()) allocate();
    start();
    bool const needs_fallback = fits_calls_ ? fit(it) : session_.needs_fallback();
    it.stats.bound = work_->bound() / (it.parts == 0 ? 1 : it.parts);
    if (!needs_fallback && sum()) return;
    codec_id_ = work_->refine(it.parts != 0);
    if (!std::exchange(has_fallback_memory_, true)) allocate();
    start();
    sum();
  }
  /// Discards the state of a first attempt.
  void start() {
    for (auto& one : segments_) {
      one.bytes = 0;
      one.weight = 1;
      one.lowest = static_cast<std::uint32_t>(schedule_.rank);
      one.is_summed = false;
      one.fault = block_fault::none;
    }
    under_way_.clear();
    found_ = {};
  }
  /// Returns, on all ranks alike, whether the fallback is needed.
  bool fit(one_call const& it) {
    stopwatch watch;
    std::uint32_t largest = it.values.measure();
    watch.add_to(it.stats.seconds_encode);
    session_.unite(largest, [](std::uint32_t& a, std::uint32_t b) { a = std::max(a, b); });
    watch.add_to(it.stats.seconds_communicate);
    return work_->fit(largest, schedule_.size);
  }
  /// Returns false, on all ranks alike, if the bound does not hold.
  bool finish(std::uint32_t weight, report& stats) {
    found_.weight = weight;
    auto const all = session_.finish(found_, findings::of_parts, layout_, stats);
    if (stats.bound > 0) stats.error = all.error;
    return all.needs_fallback == 0;
  }

  // ---- memory layout ------------------------------------------------------------------------
  /// Cuts parts into segments; returns the first segment of every part, and one past the last.
  std::vector<std::size_t> cut_parts() {
    std::vector<std::size_t> begins;
    for (std::size_t c = 0; c < static_cast<std::size_t>(schedule_.parts); ++c) {
      begins.push_back(blocks_.size());
      auto const part = schedule_.blocks_of({c, 1}, layout_.blocks());
      for (std::size_t b = part.first; b < part.end(); b += segment_blocks())
        blocks_.push_back({b, std::min(segment_blocks(), part.end() - b)});
    }
    begins.push_back(blocks_.size());
    return begins;
  }
  /// Codecs have runs of at most 1024 values, which are not cut.
  std::size_t segment_blocks() const {
    std::size_t const run = 1024 / layout_.block_values;
    std::size_t const wanted = layout_.blocks_per(options().segment_bytes);
    return std::max(std::min(wanted, max_blocks_) / run, std::size_t{1}) * run;
  }
  std::vector<block_range> cut(block_range parts) const {
    auto const at = [&](std::size_t part) {
      return blocks_.begin() + static_cast<std::ptrdiff_t>(begins_[part]);
    };
    return {at(parts.first), at(parts.end())};
  }
  /// The number of a segment.
  std::size_t index_of(block_range blocks) const {
    auto const found = std::lower_bound(
        blocks_.begin(), blocks_.end(), blocks,
        [](block_range const& a, block_range const& b) { return a.first < b.first; });
    return static_cast<std::size_t>(found - blocks_.begin());
  }

  void allocate() {
    std::size_t place = 0, longest = 0;
    segments_.clear();
    places_.clear();
    incoming_bytes_ = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(schedule_.parts); ++c) {
      std::size_t const last = last_hop_adding_to(c);
      for (std::size_t s = begins_[c]; s < begins_[c + 1]; ++s) {
        segment one;
        one.values = layout_.values_of(blocks_[s]);
        one.encoded_at = last;
        segments_.push_back(one);
        places_.push_back(place);
        std::size_t const bytes = block_header_bytes + work_->capacity(one.values.count);
        place += (bytes + 63) / 64 * 64;
        longest = std::max(longest, one.values.count);
      }
    }
    places_.push_back(place);
    messages_ = work_->allocate(place);
    for (hop const& h : schedule_.reduce)
      incoming_bytes_ = std::max(
          incoming_bytes_, places_[begins_[h.receive.end()]] - places_[begins_[h.receive.first]]);
    incoming_ = work_->allocate(2 * incoming_bytes_);
    work_->reserve(longest, adds_before_it_encodes_ ? layout_.values : 0,
                   merges_encoded_ && merges_);
  }
  /// The segment is encoded at this hop.
  std::size_t last_hop_adding_to(std::size_t part) {
    std::size_t last = never;
    for (std::size_t h = 0; h < schedule_.reduce.size(); ++h) {
      auto const& received = schedule_.reduce[h].receive;
      if (part < received.first || part >= received.end()) continue;
      merges_ |= last != never;
      adds_before_it_encodes_ |= answers_plain_ || (last != never && !merges_encoded_);
      last = h;
    }
    return answers_plain_ ? never : last;
  }

  template <class F> void for_each_segment(block_range parts, F const& f) const {
    for (std::size_t s = begins_[parts.first]; s < begins_[parts.end()]; ++s) f(s);
  }
  std::size_t begin_of_shard() const { return begins_[schedule_.shard.first]; }
  std::size_t end_of_shard() const { return begins_[schedule_.shard.end()]; }
  bool is_owned(std::size_t s) const { return begin_of_shard() <= s && s < end_of_shard(); }
  /// Whether the executor works on segments while this thread does something else.
  bool works_beside() const { return work_->most_under_way() > 1; }
  /// Calls f(segment) for the segments of this rank's shard, or of all parts.
  template <class F> void for_each_in_shard(F const& f) const {
    for_each_segment(schedule_.shard, f);
  }
  template <class F> void for_each(F const& f) const {
    for (std::size_t s = 0; s < segments_.size(); ++s) f(s);
  }
  std::span<std::byte> slot(std::size_t s) const {
    return {messages_.data() + places_[s], places_[s + 1] - places_[s]};
  }
  std::span<std::byte const> message(std::size_t s) const {
    return slot(s).first(segments_[s].bytes);
  }
  /// Where segment s of hop h is received.
  std::span<std::byte> incoming(std::size_t h, std::size_t s) const {
    std::size_t const first = begins_[schedule_.reduce[h].receive.first];
    return {incoming_.data() + h % 2 * incoming_bytes_ + places_[s] - places_[first],
            places_[s + 1] - places_[s]};
  }
  static std::span<std::byte const> payload(std::span<std::byte const> message) {
    return message.subspan(block_header_bytes);
  }

  // ---- messages -----------------------------------------------------------------------------
  block_header header_of(std::size_t s, bool plain, std::uint32_t weight,
                         std::uint32_t lowest) const {
    return make_header(plain ? codec_ids::uncompressed : codec_id_,
                       static_cast<int>(segments_[s].values.count & 0xffff), false,
                       {session_.key(), lowest, weight, static_cast<std::uint32_t>(s), nullptr,
                        options().checksum});
  }
  block_fault fault_of(std::span<std::byte const> message, block_header const& expected) const {
    if (message.size() < block_header_bytes) return block_fault::length;
    auto const header = load<block_header>(message.data());
    if (auto const fault = mismatch(header, expected); fault != block_fault::none) return fault;
    if (header.lowest_rank != expected.lowest_rank) return block_fault::ranks;
    if (header.weight != expected.weight) return block_fault::weight;
    if (!is_intact(serial_group{}, message.data(), message.size())) return block_fault::checksum;
    if (!(header.flags & block_is_damaged)) return block_fault::none;
    return header.fault != block_fault::none ? header.fault : block_fault::format;
  }
  void note(std::size_t s, block_fault fault) {
    if (fault == block_fault::none) return;
    segments_[s].fault = fault;
    encoded_findings one;
    one.damaged = blocks_[s].first;
    one.fault = static_cast<std::uint64_t>(fault);
    found_.merge(one);
  }
  /// Whether a segment has a message, or one in progress.
  bool is_begun(std::size_t s) const { return segments_[s].bytes > 0 || is_under_way(s); }
  bool is_under_way(std::size_t s) const {
    return std::ranges::find(under_way_, s) != under_way_.end();
  }
  /// Starts the message of a segment.
  /// @param finished  it is reduced over all ranks
  /// @param write     (out, seeks_nonfinite) starts its encoding
  template <class Write> void begin(std::size_t s, bool finished, Write const& write) {
    if (segments_[s].fault != block_fault::none) return put_header(s, false, 0);
    while (under_way_.size() >= work_->most_under_way()) end_next();
    write(slot(s).subspan(block_header_bytes),
          finished && options().nonfinite == nonfinite_policy::throw_error);
    under_way_.push_back(s);
    if (!works_beside()) end_next();
  }
  /// Completes the oldest message in progress.
  void end_next() {
    std::size_t const s = under_way_.front();
    under_way_.erase(under_way_.begin());
    std::size_t bytes = 0;
    try {
      bytes = work_->end(blocks_[s].first, found_);
    } catch (wire_error const&) {
      note(s, block_fault::format);
    }
    put_header(s, false, bytes);
  }
  /// Waits for the message of a segment.
  void end(std::size_t s) {
    while (is_under_way(s)) end_next();
  }
  void end_all() {
    while (!under_way_.empty()) end_next();
  }
  /// Writes the header. If the segment is damaged, the header reports why and is the complete
  /// message.
  /// @param bytes  size of the encoded segment after it
  void put_header(std::size_t s, bool plain, std::size_t bytes) {
    auto& one = segments_[s];
    auto const out = slot(s);
    auto header = header_of(s, plain, one.weight, one.lowest);
    if (one.fault != block_fault::none) {
      header.flags |= block_is_damaged;
      header.fault = one.fault;
    }
    one.bytes = block_header_bytes + bytes;
    store(out.data(), 0, header);
    if (options().checksum) seal(serial_group{}, out.data(), one.bytes);
  }

  // ---- work on segments ---------------------------------------------------------------------
  /// Starts the message of this rank's partial sum of a segment.
  void encode(one_call const& it, std::size_t s, bool finished) {
    stopwatch watch;
    auto const& one = segments_[s];
    begin(s, finished, [&](std::span<std::byte> out, bool seeks_nonfinite) {
      it.values.encode(one.values, one.is_summed, seeks_nonfinite, out);
    });
    watch.add_to(it.stats.seconds_encode);
  }
  /// The same with uncompressed values.
  void copy(one_call const& it, std::size_t s) {
    stopwatch watch;
    auto const& one = segments_[s];
    std::size_t bytes = 0;
    if (one.fault == block_fault::none)
      bytes = it.values.copy(one.values, one.is_summed, slot(s).subspan(block_header_bytes));
    put_header(s, true, bytes);
    watch.add_to(it.stats.seconds_encode);
  }
  /// The message of a segment that is sent with hop h of the reduction. If work runs concurrently,
  /// it also starts the next message, unless values will still be added to it.
  std::span<std::byte const> leaving(one_call const& it, std::size_t h, std::size_t s) {
    bool const is_early = h == 0 || reduce_.sends_at_once();
    std::size_t const next = s + 1, end_of_hop = begins_[schedule_.reduce[h].send.end()];
    if (!is_begun(s)) encode(it, s, false);
    if (works_beside() && is_early && next < end_of_hop && !is_begun(next)) encode(it, next, false);
    stopwatch watch;
    end(s);
    watch.add_to(it.stats.seconds_encode);
    return message(s);
  }

  /// Adds the message received with hop h of the reduction.
  void add(one_call const& it, std::size_t h, std::size_t s, std::span<std::byte const> message) {
    stopwatch watch;
    end(s);
    auto& one = segments_[s];
    auto const ranks = static_cast<std::uint32_t>(schedule_.reduce[h].ranks);
    auto const lowest = static_cast<std::uint32_t>(schedule_.reduce[h].lowest);
    note(s, fault_of(message, header_of(s, false, ranks, lowest)));
    one.weight += ranks;
    one.lowest = std::min(one.lowest, lowest);
    bool const is_last = merges_encoded_ || h == one.encoded_at;
    bool const finished = h == one.encoded_at && is_owned(s);
    auto const make_sum = [&] {
      begin(s, finished, [&](std::span<std::byte> out, bool seeks_nonfinite) {
        if (merges_encoded_ && one.bytes > 0)  // already encoded
          return work_->merge(payload(this->message(s)), payload(message), one.values.count,
                              seeks_nonfinite, out);
        it.values.add_and_encode(one.values, one.is_summed, payload(message), seeks_nonfinite, out);
      });
    };
    try {
      if (is_last)
        make_sum();
      else if (one.fault == block_fault::none)
        add_to_sums(it, one, payload(message));
    } catch (wire_error const&) {
      note(s, block_fault::format);
      if (is_last) make_sum();  // a message that reports the damage
    }
    watch.add_to(it.stats.seconds_merge);
  }
  void add_to_sums(one_call const& it, segment& one, std::span<std::byte const> encoded) {
    bool const is_summed = one.is_summed;
    one.is_summed = true;
    it.values.add_to_sums(one.values, is_summed, encoded);
  }

  /// Decodes an encoded partial sum to values.
  void decode_to_sums(one_call const& it, std::size_t s) {
    stopwatch watch;
    auto& one = segments_[s];
    if (one.fault == block_fault::none)
      it.values.decode_to_sums(one.values, payload(message(s)), it.parts);
    one.is_summed = true;
    watch.add_to(it.stats.seconds_decode);
  }

  void find_error(one_call const& it, std::size_t s) {
    if (segments_[s].fault == block_fault::none)
      work_->find_error(payload(message(s)), it.parts, found_);
  }
  /// In a message of uncompressed values.
  void find_nonfinite(one_call const& it, std::size_t s) {
    stopwatch watch;
    work_->find_nonfinite(payload(message(s)), segments_[s].values.count, blocks_[s].first, found_);
    watch.add_to(it.stats.seconds_decode);
  }

  void check(std::size_t s) {
    work_->check(payload(message(s)), segments_[s].values.count, answers_plain_);
  }
  /// Decodes a reduced segment into x.
  /// @throws wire_error  it is damaged; x is unchanged
  void decode(one_call const& it, std::size_t s, encoded_by whose) {
    bool const is_divided = answers_plain_ && merges_encoded_;  // by its owner, who decoded it
    it.values.decode(segments_[s].values, payload(message(s)), answers_plain_, whose,
                     is_divided ? 0 : it.parts);
  }

  // ---- reduce-scatter and all-gather --------------------------------------------------------
  /// Adds received segments to this rank's partial sums.
  struct reduction_walk final : segment_handler {
    variable_rate_engine& engine;
    one_call const& it;

    reduction_walk(variable_rate_engine& engine, one_call const& it) : engine(engine), it(it) {}

    std::span<std::byte const> leave(std::size_t h, block_range blocks) override {
      return engine.leaving(it, h, engine.index_of(blocks));
    }
    std::span<std::byte> inbox(std::size_t h, block_range blocks) override {
      engine.end_all();  // segments received two hops before are complete
      return engine.incoming(h, engine.index_of(blocks));
    }
    void arrive(std::size_t h, block_range blocks, std::size_t bytes) override {
      std::size_t const s = engine.index_of(blocks);
      engine.add(it, h, s, engine.incoming(h, s).first(bytes));
    }
  };

  /// Receives reduced segments. Calls `use` for every segment with a valid header, while other
  /// segments travel; it may throw wire_error.
  template <class Use> struct spreading_walk final : segment_handler {
    variable_rate_engine& engine;
    one_call const& it;
    std::uint32_t weight;
    Use const& use;
    std::size_t next_in_shard;  ///< the first segment of this rank's shard that is not used yet

    spreading_walk(variable_rate_engine& engine, one_call const& it, std::uint32_t weight,
                   Use const& use)
        : engine(engine),
          it(it),
          weight(weight),
          use(use),
          next_in_shard(engine.begin_of_shard()) {}

    std::span<std::byte const> leave(std::size_t, block_range blocks) override {
      std::size_t const s = engine.index_of(blocks);
      if (engine.works_beside() && engine.is_owned(s)) use_shard(s + 1);  // while it is sent
      return engine.message(s);
    }
    std::span<std::byte> inbox(std::size_t, block_range blocks) override {
      return engine.slot(engine.index_of(blocks));
    }
    void arrive(std::size_t, block_range blocks, std::size_t bytes) override {
      std::size_t const s = engine.index_of(blocks);
      engine.segments_[s].bytes = bytes;
      engine.note(s, engine.fault_of(engine.message(s),
                                     engine.header_of(s, engine.answers_plain_, weight, 0)));
    }
    void passed_on(block_range blocks) override {
      use_shard(engine.end_of_shard());
      use_sound(engine.index_of(blocks));
    }

    /// Uses each once, while segments of other ranks travel to this rank.
    void use_shard(std::size_t end) {
      while (next_in_shard < end) use_sound(next_in_shard++);
    }
    void use_sound(std::size_t s) {
      if (engine.segments_[s].fault != block_fault::none) return;
      stopwatch watch;
      try {
        use(s);
      } catch (wire_error const&) {
        engine.note(s, block_fault::format);
      }
      watch.add_to(it.stats.seconds_decode);
    }
  };

  /// Reduce-scatter. On return this rank has the sum of its shard.
  void reduce(one_call const& it) {
    reduction_walk walk(*this, it);
    reduce_.walk(walk, &it.stats);
  }

  /// Encodes the segments of this rank's shard that are not encoded yet (after `start` alone: all
  /// of them), and finds errors, NaN and infinity there.
  void finish_shard(one_call const& it) {
    if (!answers_plain_)
      for_each_in_shard([&](std::size_t s) {
        if (!is_begun(s)) encode(it, s, true);
      });
    stopwatch watch;
    end_all();
    watch.add_to(it.stats.seconds_encode);
    for_each_in_shard([&](std::size_t s) {
      bool const is_encoded = segments_[s].bytes > 0;
      if (is_encoded) find_error(it, s);
      if (!answers_plain_) return;
      if (is_encoded) decode_to_sums(it, s);
      copy(it, s);
      if (options().nonfinite == nonfinite_policy::throw_error &&
          segments_[s].fault == block_fault::none)
        find_nonfinite(it, s);
    });
  }

  /// All-gather of this rank's shard, then decoding into x. A long x is decoded while other
  /// segments arrive; then the reduced shards are verified first. Returns like finish.
  bool spread(one_call const& it, std::uint32_t weight) {
    finish_shard(it);
    bool const on_arrival = !options().checksum && schedule_.size > 1 &&
                            layout_.bytes() >= options().decode_on_arrival_bytes;
    if (on_arrival && !finish(weight, it.stats)) return false;
    auto const use = [&](std::size_t s) {
      if (on_arrival)
        decode(it, s, is_owned(s) ? encoded_by::this_rank : encoded_by::another);
      else if (!is_owned(s))
        check(s);
    };
    spreading_walk walk(*this, it, weight, use);
    gather_.walk(walk, &it.stats);
    walk.use_shard(end_of_shard());
    if (on_arrival) find_what_was_not_decoded(it);
    if (!finish(weight, it.stats)) return false;
    if (on_arrival) return true;
    stopwatch watch;
    for_each([&](std::size_t s) { decode(it, s, encoded_by::this_rank); });
    watch.add_to(it.stats.seconds_decode);
    return true;
  }
  void find_what_was_not_decoded(one_call const& it) {
    stopwatch watch;
    if (!work_->decoded_all())
      for_each([&](std::size_t s) {
        if (is_owned(s) || segments_[s].fault != block_fault::none) return;
        try {
          check(s);
        } catch (wire_error const&) {
          note(s, block_fault::format);
        }
      });
    watch.add_to(it.stats.seconds_decode);
  }

  bool merges_encoded_, fits_calls_;
  std::size_t max_blocks_;            ///< of a segment
  bool has_fallback_memory_ = false;  ///< memory for the fallback's messages is allocated
  std::uint8_t codec_id_ = 0;         ///< codec_id of this call
  message_memory message_memory_;
  variable_rate_work* work_;
  schedule schedule_;
  bool answers_plain_;  ///< results are sent uncompressed
  bool merges_ = false, adds_before_it_encodes_ = false;

  std::vector<block_range> blocks_;  ///< of the segments
  std::vector<std::size_t> begins_;  ///< first segment of every part, and one past the last
  hop_pipeline reduce_, gather_;
  std::vector<segment> segments_;
  std::vector<std::size_t> under_way_;  ///< segments whose messages are in progress, oldest first
  std::vector<std::size_t> places_;     ///< offsets of the segments' messages, and their end
  std::size_t incoming_bytes_ = 0;
  any_buffer messages_, incoming_;
  encoded_findings found_;
};

}  // namespace hcomp::detail
