#pragma once
/// @file
/// Runs a schedule on encoded blocks: agree, encode, reduce-scatter, all-gather, decode. One
/// implementation for all codecs, value types, executors and transports.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/hop_pipeline.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <string>
#include <vector>

namespace hcomp::detail {

/// Reduces vectors of one layout over one transport, with the promises of `plan`.
///
/// Blocks are encoded when they are first needed, while other blocks travel. Narrow blocks are
/// contiguous in their messages, and an all-gather forwards them unchanged. If partial sums are
/// rounded on every hop, their owner rounds them as well: all ranks decode the same bits. A rank
/// that receives all summands of its shard adds them in a wider type, if the codec DefersRounding.
/// After the first call nothing is allocated.
///
/// Over a stream-ordered transport a call enqueues everything. The words that ranks agree on, the
/// findings and the verdict stay in the executor's memory; see call_verdict. A rank that refuses
/// its own arguments sends damaged blocks, so that no rank waits for it.
class block_engine final : public collective_engine<value_work> {
 public:
  /// @param work  must outlive the engine, like the transport
  /// @throws std::invalid_argument  an algorithm without a schedule, or one that does not fit the
  ///                                ranks; a transport that cannot reach the executor's memory
  [[gnu::cold]] block_engine(block_engine_settings const& made_for, code_work& work,
                             any_transport& transport, plan_options const& options)
      : collective_engine(made_for.codec, made_for.layout, transport, options, made_for.space,
                          made_for.space == memory_space::device),
        is_narrow_(made_for.is_narrow),
        statistics_words_(made_for.statistics_words),
        work_(&work),
        schedule_(make_schedule(options.algorithm, transport.rank(), transport.size())),
        reduce_(schedule_.reduce, transport, options.tag, cutter{*this}),
        gather_(schedule_.gather, transport, options.tag, cutter{*this}),
        wide_bytes_(adds_wide() ? made_for.wide_bytes : 0),
        incoming_bytes_(rounded(most_incoming())),
        words_(work.allocate(2 * most_words() * sizeof(std::uint32_t))),
        memory_(work.allocate(rounded(layout_.bytes()) + scratch_bytes())) {
    if (enqueues()) work.prepare_verdict();
    if (!is_narrow_) return;
    narrow_messages_.resize(layout_.blocks());
    weights_.resize(layout_.blocks());
  }

  block_range shard_blocks() const override { return blocks(schedule_.shard); }

  report all_reduce(call_arguments const& given, value_work& values,
                    call_options const& call) override {
    if (enqueues()) return enqueue(operation::all_reduce, given, values, call);
    auto stats = session_.start(operation::all_reduce, given, call);
    agree_on_statistics(values, stats);
    one_call const it{values, call, stats};
    reduce(it);
    if (decodes_on_arrival()) {
      spread_and_decode(it);
    } else {
      if (!schedule_.reduces_all) spread(it);
      finish(layout_.all(), session_.expected_weight(), of_all(), it);
      decode(layout_.all(), it);
    }
    return session_.done(stats);
  }

  report reduce_scatter(call_arguments const& given, value_work& values,
                        call_options const& call) override {
    if (enqueues()) return enqueue(operation::reduce_scatter, given, values, call);
    auto stats = session_.start(operation::reduce_scatter, given, call);
    agree_on_statistics(values, stats);
    one_call const it{values, call, stats};
    reduce(it);
    finish(shard_blocks(), session_.expected_weight(), findings::of_parts, it);
    decode(shard_blocks(), it);
    return session_.done(stats);
  }

  report all_gather(call_arguments const& given, value_work& values,
                    call_options const& call) override {
    if (enqueues()) return enqueue(operation::all_gather, given, values, call);
    auto stats = session_.start(operation::all_gather, given, call);
    one_call const it{values, call, stats};
    encode(shard_blocks(), it, nullptr);  // with a unit of its own
    spread(it);
    finish(layout_.all(), 1, of_all(), it);
    decode(layout_.all(), it);
    return session_.done(stats);
  }

  void check_enqueued() override {
    if (!enqueues()) return;
    auto const verdict = work_->fetch_verdict();
    transport().check();
    if (verdict.failed == 0) return;
    work_->reset_verdict();
    session_.raise(verdict, layout_);
  }

 private:
  struct one_call {
    value_work& values;
    call_options const& options;
    report& stats;
    bool is_refused = false;  ///< by this rank; it takes part with damaged blocks
  };
  /// A segment in the outbox.
  struct narrow_message {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };

  // ---- memory layout ------------------------------------------------------------------------
  static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  /// Words that ranks agree on: the statistics; of enqueued calls also the agreement_words, the
  /// trouble, and whether one was lost.
  std::size_t most_words() const {
    return statistics_words_ + (enqueues() ? agreement_words::count + 2 : 0);
  }
  std::uint32_t* words() const { return reinterpret_cast<std::uint32_t*>(words_.data()); }
  std::uint32_t* agreed_words() const { return words() + statistics_words_; }
  std::uint32_t* trouble_word() const { return agreed_words() + agreement_words::count; }
  /// The statistics that all ranks agreed on, for block_origin::statistics; null if there are none.
  std::uint32_t* statistics() const { return statistics_words_ > 0 ? words() : nullptr; }
  std::size_t most_incoming() const {
    std::size_t most = 0;
    for (hop const& h : schedule_.reduce) most = std::max(most, layout_.bytes(blocks(h.receive)));
    return most;
  }
  /// Received parts of two hops. With narrow blocks, the same again for their messages, and an
  /// outbox for the complete vector. Otherwise the wide sums of this rank's shard.
  std::size_t scratch_bytes() const {
    return (is_narrow_ ? 4 : 2) * incoming_bytes_ +
           (is_narrow_ ? layout_.bytes() : wide_bytes_ * shard_blocks().count);
  }
  std::byte* encoded(block_range range = {}) const {
    return memory_.data() + layout_.offset(range.first);
  }
  /// Where these blocks are when hop h merges them.
  std::byte* received(std::size_t h, block_range range) const {
    return memory_.data() + rounded(layout_.bytes()) + (h % 2) * incoming_bytes_ +
           layout_.offset(range.first - blocks(schedule_.reduce[h].receive).first);
  }
  /// Where narrow messages arrive.
  std::byte* received_narrow(std::size_t h, block_range range) const {
    return received(h, range) + 2 * incoming_bytes_;
  }
  /// Where narrow blocks are sent from, and where an all-gather receives them.
  std::byte* outbox(block_range range) const {
    return memory_.data() + rounded(layout_.bytes()) + 4 * incoming_bytes_ +
           layout_.offset(range.first);
  }
  /// This rank's shard between hops, in the wider type, for the merge of hop h.
  wide_sum wide(std::size_t h, block_range range) const {
    return {memory_.data() + rounded(layout_.bytes()) + 2 * incoming_bytes_ +
                wide_bytes_ * (range.first - shard_blocks().first),
            h == 0, h + 1 == schedule_.reduce.size()};
  }
  /// Whether every hop adds to this rank's shard, and none sends a partial sum.
  bool adds_wide() const {
    auto const& hops = schedule_.reduce;
    return reduce_.sends_at_once() && hops.size() > 1 &&
           std::all_of(hops.begin(), hops.end(),
                       [&](hop const& h) { return h.adds && h.receive == schedule_.shard; });
  }
  block_range blocks(block_range parts) const {
    return schedule_.blocks_of(parts, layout_.blocks());
  }
  /// One segment if calls are enqueued: on one stream, work and messages do not overlap.
  std::vector<block_range> segments(block_range parts) const {
    block_range const all = blocks(parts);
    std::size_t const most = enqueues() ? std::max<std::size_t>(all.count, 1)
                                        : layout_.blocks_per(options().segment_bytes);
    std::vector<block_range> cut;
    for (std::size_t first = all.first; first < all.end(); first += most)
      cut.push_back({first, std::min(most, all.end() - first)});
    return cut;
  }
  /// The callable that hop_pipeline's constructor is instantiated with.
  struct cutter {
    block_engine const& engine;
    auto operator()(block_range parts) const { return engine.segments(parts); }
  };

  // ---- work on blocks -----------------------------------------------------------------------
  void ready_to_move() {
    if (!transport().waits_for_work()) work_->synchronize();
  }

  void encode(block_range range, one_call const& it, std::uint32_t const* statistics) {
    stopwatch watch;
    if (it.is_refused)
      work_->spoil(range, encoded());
    else
      it.values.encode(range, encoded(),
                       {session_.key(), static_cast<std::uint32_t>(transport().rank()),
                        it.options.weight, 0, statistics, options().checksum});
    if (is_narrow_) set_weight(range, weight_of(it), false);
    ready_to_move();
    watch.add_to(it.stats.seconds_encode);
  }
  void encode_what_is_not(block_range range, one_call const& it) {
    for (std::size_t b = range.first; b < range.end(); ++b) {
      std::size_t const first = b;
      while (b < range.end() && !encoded_[b]) encoded_[b++] = 1;
      if (b > first) encode({first, b - first}, it, statistics());
    }
  }
  void decode(block_range range, one_call const& it) {
    stopwatch watch;
    it.values.decode(range, encoded(), it.options.op,
                     options().nonfinite == nonfinite_policy::propagate);
    watch.add_to(it.stats.seconds_decode);
  }
  /// The message of a segment.
  /// @param keep  an existing message is still valid
  std::span<std::byte const> message_of(block_range range, bool keep, report& stats) {
    if (!is_narrow_) return {encoded(range), layout_.bytes(range)};
    auto& message = narrow_messages_[range.first];
    if (!keep || message.blocks != range.count) {
      stopwatch watch;
      // The peer rounds what it receives; a sender that continues to add must start from the same
      // bits.
      if (schedule_.reduces_all || options().checksum) work_->round(range, encoded(range));
      message = {range.count,
                 work_->narrow(range, encoded(range), outbox(range), weights_[range.first])};
      ready_to_move();
      watch.add_to(stats.seconds_encode);
    }
    return {outbox(range), message.bytes};
  }
  /// Does not wait for the work: wide blocks are not sent.
  /// @param adds  to this rank's blocks
  /// @param weight  of the blocks; 0: unknown
  void widen(block_range range, std::byte const* message, std::size_t bytes, std::byte* to,
             bool adds, std::uint32_t weight, report& stats) {
    stopwatch watch;
    weight = work_->widen(range, {message, bytes}, transport().in_host(message), to, weight);
    set_weight(range, weight, adds);
    watch.add_to(stats.seconds_decode);
  }
  static std::uint32_t weight_of(one_call const& it) {
    return it.is_refused ? 1 : it.options.weight;
  }
  /// Weight of the blocks received at hop h of the reduction; 0 if only their headers tell.
  std::uint32_t weight_at(std::size_t h, one_call const& it) const {
    if (!enqueues()) return 0;
    return static_cast<std::uint32_t>(schedule_.reduce[h].received_ranks()) * weight_of(it);
  }
  /// The largest length of a message of blocks, exact if their weight is known.
  std::size_t message_bytes(block_range range, std::uint32_t weight) const {
    return is_narrow_ && weight > 0 ? work_->narrow_bytes(range, weight) : layout_.bytes(range);
  }
  /// Sets the weight of narrow blocks, or adds to it.
  void set_weight(block_range range, std::uint32_t weight, bool more) {
    for (std::size_t b = range.first; b < range.end(); ++b)
      weights_[b] = weight + (more ? weights_[b] : 0);
  }
  /// Checks the length of a message of blocks that are not narrow: it is their size in memory.
  /// @throws wire_error  another length; on all ranks, if the transport can tell them
  void require_length(hop const& h, std::size_t number, block_range range, std::size_t came) const {
    if (!is_narrow_ && came != layout_.bytes(range))
      revoke(transport(), error_text({"hop ", number, ": rank ", h.from, " sent ", came, " bytes, ",
                                      layout_.bytes(range), " were expected"}));
  }

  // ---- reduce-scatter and all-gather --------------------------------------------------------
  /// Merges received segments.
  struct reduction_walk final : segment_handler {
    block_engine& engine;
    one_call const& it;

    reduction_walk(block_engine& engine, one_call const& it) : engine(engine), it(it) {}

    std::span<std::byte const> leave(std::size_t, block_range segment) override {
      engine.encode_what_is_not(segment, it);
      return engine.message_of(segment, engine.reduce_.sends_at_once(), it.stats);
    }
    std::span<std::byte> inbox(std::size_t h, block_range segment) override {
      return {engine.is_narrow_ ? engine.received_narrow(h, segment) : engine.received(h, segment),
              engine.message_bytes(segment, engine.weight_at(h, it))};
    }
    void expect(std::size_t, block_range segment) override {
      engine.encode_what_is_not(segment, it);
    }
    void arrive(std::size_t h, block_range segment, std::size_t bytes) override {
      hop const& now = engine.schedule_.reduce[h];
      engine.require_length(now, h, segment, bytes);
      if (engine.is_narrow_)
        engine.widen(segment, engine.received_narrow(h, segment), bytes,
                     engine.received(h, segment), now.adds, engine.weight_at(h, it), it.stats);
      stopwatch watch;
      auto const lowest = static_cast<std::uint32_t>(now.lowest);
      if (engine.wide_bytes_ > 0)
        engine.work_->merge(segment, engine.encoded(segment), engine.received(h, segment), lowest,
                            engine.wide(h, segment));
      else if (now.adds)
        engine.work_->merge(segment, engine.encoded(segment), engine.received(h, segment), lowest);
      else
        engine.work_->copy(segment, engine.encoded(segment), engine.received(h, segment));
      engine.ready_to_move();
      watch.add_to(it.stats.seconds_merge);
    }
  };

  /// Receives reduced segments. Calls `meanwhile` once, when this rank's own segments have been
  /// sent, and `arrived` for the segments of other ranks.
  template <class Meanwhile, class Arrived> struct spreading_walk final : segment_handler {
    block_engine& engine;
    report& stats;
    std::uint32_t weight;  ///< of the reduced blocks; 0 if only their headers tell
    Meanwhile meanwhile;
    Arrived arrived;
    bool is_first = true;

    spreading_walk(block_engine& engine, report& stats, std::uint32_t weight, Meanwhile meanwhile,
                   Arrived arrived)
        : engine(engine), stats(stats), weight(weight), meanwhile(meanwhile), arrived(arrived) {}

    std::span<std::byte const> leave(std::size_t, block_range segment) override {
      return engine.message_of(segment, true, stats);
    }
    std::span<std::byte> inbox(std::size_t, block_range segment) override {
      return {engine.is_narrow_ ? engine.outbox(segment) : engine.encoded(segment),
              engine.message_bytes(segment, weight)};
    }
    void expect(std::size_t, block_range) override { do_meanwhile(); }
    void do_meanwhile() {
      if (is_first) meanwhile();
      is_first = false;
    }
    void arrive(std::size_t h, block_range segment, std::size_t bytes) override {
      engine.require_length(engine.schedule_.gather[h], h, segment, bytes);
      if (!engine.is_narrow_) return;
      engine.widen(segment, engine.outbox(segment), bytes, engine.encoded(segment), false, weight,
                   stats);
      engine.narrow_messages_[segment.first] = {segment.count, bytes};
    }
    void passed_on(block_range segment) override { arrived(segment); }
  };

  /// Reduce-scatter. On return this rank's parts are reduced.
  void reduce(one_call const& it) {
    encoded_.assign(layout_.blocks(), 0);
    forget_narrow_messages();
    reduction_walk walk(*this, it);
    reduce_.walk(walk, &it.stats);
    encode_what_is_not(layout_.all(), it);  // a single rank makes no hops
    round_finished(it.stats);
  }
  /// Rounds reduced blocks like those that other ranks receive. Not needed if all ranks of a power
  /// of two reduce all blocks, because none of them is sent.
  void round_finished(report& stats) {
    bool const reduces_all = schedule_.reduces_all;
    if (!is_narrow_ || (reduces_all && is_power_of_two(transport().size()))) return;
    stopwatch watch;
    block_range const range = reduces_all ? layout_.all() : shard_blocks();
    if (work_->round(range, encoded(range))) ready_to_move();
    watch.add_to(stats.seconds_merge);
  }

  /// All-gather of reduced parts.
  template <class Meanwhile, class Arrived>
  void spread(one_call const& it, Meanwhile const& meanwhile, Arrived const& arrived) {
    forget_narrow_messages();
    bool const is_reduced = session_.what() != operation::all_gather;
    auto const ranks = is_reduced ? static_cast<std::uint32_t>(transport().size()) : 1;
    spreading_walk walk(*this, it.stats, enqueues() ? ranks * weight_of(it) : 0, meanwhile,
                        arrived);
    gather_.walk(walk, &it.stats);
    walk.do_meanwhile();  // for walks without hops
  }
  void spread(one_call const& it) {
    spread(
        it, [] {}, [](block_range) {});
  }
  void forget_narrow_messages() { narrow_messages_.assign(narrow_messages_.size(), {}); }

  // ---- agreement between ranks --------------------------------------------------------------
  /// Sends `mine` to a rank and receives `other`, ceil(log2 P) times: what one rank knows reaches
  /// all ranks.
  /// @param before  (to): makes `mine`
  /// @param after   (from): uses `other`
  template <class Before, class After>
  void disseminate(std::span<std::byte const> mine, std::span<std::byte> other,
                   Before const& before, After const& after) {
    int const rank = transport().rank(), size = transport().size();
    for (int distance = 1; distance < size; distance *= 2) {
      int const from = (rank + size - distance) % size, to = (rank + distance) % size;
      before(to);
      auto in = transport().irecv(from, options().tag, other);
      auto out = transport().isend(to, options().tag, mine);
      require_records(transport(), from, transport().wait(in), other.size());
      transport().wait(out);
      after(from);
    }
  }
  /// The maxima of all ranks' `count` words from `first` on, on every rank. Maxima tolerate
  /// repetition.
  void unite(std::uint32_t* first, std::size_t count) {
    auto* const other = words() + most_words();
    disseminate(
        std::as_bytes(std::span(first, count)), std::as_writable_bytes(std::span(other, count)),
        [](int) {},
        [&](int) {
          work_->unite(first, other, count);
          ready_to_move();
        });
  }
  void agree_on_statistics(value_work& values, report& stats) {
    if (statistics_words_ == 0) return;
    stopwatch watch;
    values.measure(words());
    stats.dominance = work_->largest_dominance();
    ready_to_move();
    watch.add_to(stats.seconds_encode);
    unite(words(), statistics_words_);
    watch.add_to(stats.seconds_communicate);
  }

  // ---- stream-ordered calls -----------------------------------------------------------------
  /// Enqueues a call.
  /// @throws  after everything is enqueued: this rank's refusal of its arguments, or the error of a
  ///          call that has failed
  report enqueue(operation what, call_arguments const& given, value_work& values,
                 call_options const& call) {
    auto [stats, mine, refused] = session_.enqueue(what, given, call);
    one_call const it{values, call, stats, refused != nullptr};
    bool const is_reduced = what != operation::all_gather,
               is_scattered = what == operation::reduce_scatter;
    agree(it, mine, is_reduced);
    if (is_reduced)
      reduce(it);
    else
      encode(shard_blocks(), it, nullptr);
    if (!is_scattered && !(is_reduced && schedule_.reduces_all)) spread(it);
    block_range const range = is_scattered ? shard_blocks() : layout_.all();
    work_->verify(range, encoded(), session_.key(), stats.weight, options().checksum, call.op);
    work_->note(agreed_words(), options().nonfinite == nonfinite_policy::throw_error,
                trouble_word());
    if (is_scattered || options().checksum) unite_troubles();
    work_->judge(trouble_word(), session_.earlier_calls(), static_cast<std::uint32_t>(what));
    if (refused) std::rethrow_exception(refused);
    decode(range, it);
    if (work_->has_failed()) session_.raise(work_->fetch_verdict(), layout_);
    return session_.done(stats);
  }
  /// The largest trouble of all ranks. In a second round ranks learn whether one was damaged on its
  /// way to any rank, as in call_session::unite_findings.
  void unite_troubles() {
    auto* const lost = trouble_word() + 1;
    unite_sealed(trouble_word(), lost);
    unite_sealed(lost, nullptr);
  }
  void unite_sealed(std::uint32_t* number, std::uint32_t* lost) {
    auto* const mine = reinterpret_cast<sealed_number*>(words() + most_words());
    auto* const other = mine + 1;
    int const rank = transport().rank();
    auto const call = session_.next_seal();
    disseminate(
        std::as_bytes(std::span(mine, 1)), std::as_writable_bytes(std::span(other, 1)),
        [&](int to) { work_->seal(number, mine, sealed_call(call, rank, to)); },
        [&](int from) { work_->unite(number, other, sealed_call(call, from, rank), lost); });
  }
  /// Agrees on the arguments and on the statistics of the values.
  void agree(one_call const& it, agreement_words const& mine, bool is_reduced) {
    stopwatch watch;
    bool const measures = statistics_words_ > 0 && is_reduced;
    bool const measures_values = measures && !it.is_refused;
    if (measures_values) it.values.measure(words());
    work_->put(mine, agreed_words(), measures_values ? 0 : statistics_words_);
    watch.add_to(it.stats.seconds_encode);
    std::size_t const agreed = options().check ? agreement_words::count : 0;
    if (measures)
      unite(words(), statistics_words_ + agreed);
    else if (agreed > 0)
      unite(agreed_words(), agreed);
    watch.add_to(it.stats.seconds_communicate);
  }

  /// For blocks that all ranks hold: with checksums each rank may have received damage.
  findings of_all() const {
    return options().checksum ? findings::of_all_to_compare : findings::of_all;
  }
  encoded_findings check(block_range range, std::uint64_t weight, one_call const& it) {
    stopwatch watch;
    auto const found =
        work_->inspect(range, encoded(), session_.key(), weight, options().checksum, it.options.op);
    watch.add_to(it.stats.seconds_decode);
    return found;
  }
  void finish(block_range range, std::uint64_t weight, findings whose, one_call const& it) {
    session_.finish(check(range, weight, it), whose, layout_, it.stats);
  }

  /// Long vectors are decoded while other parts arrive. Not with checksums, which promise that x is
  /// unchanged after any damage.
  bool decodes_on_arrival() const {
    return transport().size() > 1 && !schedule_.reduces_all && !options().checksum &&
           layout_.values * session_.codec().value_bytes >= options().decode_on_arrival_bytes;
  }
  /// Verifies the result before any part of it is decoded.
  void spread_and_decode(one_call const& it) {
    finish(shard_blocks(), session_.expected_weight(), findings::of_parts, it);
    auto const weight = it.stats.weight;  // all ranks have agreed on it
    encoded_findings found;
    auto const decode_sound = [&](block_range range) {
      found.merge(check(range, weight, it));
      if (found.damaged == encoded_findings::nowhere) decode(range, it);
    };
    spread(
        it, [&] { decode_sound(shard_blocks()); }, decode_sound);
    session_.finish(found, findings::of_all, layout_, it.stats);
  }

  bool is_narrow_;
  std::size_t statistics_words_;
  code_work* work_;
  schedule schedule_;
  hop_pipeline reduce_, gather_;
  std::size_t wide_bytes_;  ///< of the wide sums of a block; 0: merges round
  std::size_t incoming_bytes_;
  any_buffer words_;
  any_buffer memory_;
  std::vector<char> encoded_;                    ///< per block
  std::vector<narrow_message> narrow_messages_;  ///< by the first blocks of their segments
  std::vector<std::uint32_t> weights_;           ///< per block, for narrow messages
};

}  // namespace hcomp::detail
