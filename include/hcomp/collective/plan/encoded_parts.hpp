#pragma once
/// @file
/// The steps of an all-reduce for callers that have collectives of their own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/codec_work.hpp>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/detail/own_memory.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace hcomp {
namespace detail {

/// acc = the sum of `count` parts, in their order; one kernel for all parts.
template <HomomorphicSum C> struct merge_parts {
  static constexpr int blocks_at_once = detail::merges_at_once<C>();

  C codec;
  encoded_layout layout;
  std::size_t first;       ///< first block of the part in the vector
  std::byte const* parts;  ///< part r, from rank r, at parts + r * part_bytes
  std::size_t part_bytes;
  std::uint32_t count;
  std::byte* acc;
  std::byte* wide;  ///< of a DefersRounding codec: `wide_bytes` per block
  std::size_t wide_bytes;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const at = layout.offset(i);
    std::byte* const mine = acc + at;
    copy_bytes(group, mine, parts + at, layout.bytes({first + i, 1}));
    group.sync();
    // A damaged block can claim to be longer than its message.
    auto const n = layout.values_in(first + i);
    bool const is_long = load_header(mine).values != n;
    for (std::uint32_t r = 1; r < count; ++r) {
      std::byte const* const other = parts + r * part_bytes + at;
      if (is_long || load_header(other).values != n) {
        mark_damaged(group, mine, block_fault::length);
        continue;
      }
      merge_sealed(group, codec, mine, other, r, [&] {
        if constexpr (DefersRounding<C>)
          codec.merge_wide(group, mine, other, {wide + i * wide_bytes, r == 1, r + 1 == count});
        else
          codec.merge_block(group, mine, other);
      });
      group.sync();
    }
  }
};

/// Clears gap i of a message.
struct clear_gaps {
  struct gap {
    std::size_t first, bytes;
  };
  std::byte* out;
  gap const* gaps;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    clear_bytes{out + gaps[i].first, gaps[i].bytes}(group, 0);
  }
};

template <class C>
concept HasMagnitude = requires(C codec) {
  codec.magnitude;
};

/// *keeps = whether a vector keeps its feedback's state: its call failed, or its magnitude is NaN.
template <class Number> struct keep_feedback {
  call_verdict const* verdict;
  Number const* magnitude;  ///< null: that of the codec
  std::uint64_t* keeps;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0)
      *keeps = verdict->failed != 0 || (magnitude && !(*magnitude == *magnitude)) ? 1 : 0;
  }
};

template <class C, class View> HCOMP_HD C& codec_in(encode_with_feedback<C, View>& work) {
  return work.codec;
}
template <class C, class View> HCOMP_HD C& codec_in(decode_with_feedback<C, View>& work) {
  return work.decode.codec;
}
/// The same work by a codec with another magnitude, read when the work runs.
template <class Work, class Number> struct at_magnitude {
  static constexpr int workers = workers_of<Work>();
  static constexpr int blocks_at_once = blocks_at_once_of<Work>();

  Work work;
  Number const* magnitude;  ///< null: that of the codec

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    Work own = work;
    if (magnitude) codec_in(own).magnitude = *magnitude;
    own(group, i);
  }
  std::size_t scratch_bytes() const requires UsesScratch<Work> { return work.scratch_bytes(); }
};

}  // namespace detail

/// Vectors encoded in parts of equal size, one per rank. The steps of an all-reduce for callers
/// with collectives of their own, such as all-to-all and all-gather of NCCL or of a PyTorch process
/// group on uint8 tensors:
///
///     hcomp::encoded_parts parts(n, ranks, rank, codec, executor);
///     parts.measure(x, statistics);          // if statistics_words() > 0
///     // all-reduce: maxima of the statistics
///     parts.encode(x, key, statistics, out); // ranks() * part_bytes() bytes
///     // all-to-all: part r of `out` to rank r, `in` from all ranks
///     parts.merge(in, reduced);              // reduced_bytes() bytes
///     // all-gather: `all` from all ranks
///     parts.decode(all, x, key);
///     parts.check();                         // when errors should be known
///
/// Several vectors, such as the gradients of a bucket, share the messages. `measure`, `encode`,
/// `decode` and `commit` are called for each vector in order, all else once.
///
/// On a device, all functions but `check` and the constructor enqueue work on the executor's
/// stream. They do not wait and allocate nothing, and a CUDA graph can capture them. Pointers are
/// in the executor's memory. The result has the bits of a plan with algorithm aggregator, which
/// adds in rank order.
///
/// Parts differ by at most one block, and are padded with zeros. Blocks of Narrowable codecs are
/// narrow in all parts.
///
/// Findings stay in the executor's memory, per vector. `decode` and `commit` have no effect after
/// damaged or contradicting blocks, and with the policy throw_error after NaN, infinity or
/// overflow; nor have later calls for this vector until `check`. All ranks decode the same bytes,
/// so all have the same findings. Wrong arguments are errors on this rank only: it has enqueued
/// nothing, and its caller must tell other ranks.
///
/// Memory: with narrow blocks two encoded vectors, and the wide sums of a part. The executor is
/// used, not owned, and must outlive this.
template <HomomorphicSum C, Executor E> class encoded_parts {
 public:
  using value_type = typename C::value_type;

  /// @param values  of the vector, >= 0
  /// @param codec   fitted to the number of ranks
  /// @throws std::invalid_argument  no such rank; more ranks than the codec can add
  encoded_parts(std::size_t values, int ranks, int rank, C const& codec, E& executor,
                nonfinite_policy nonfinite = nonfinite_policy::throw_error)
      : encoded_parts(std::span(&values, 1), ranks, rank, codec, executor, nonfinite) {}
  /// @param values  of each vector
  encoded_parts(std::span<std::size_t const> values, int ranks, int rank, C const& codec,
                E& executor, nonfinite_policy nonfinite = nonfinite_policy::throw_error)
      : ranks_(checked(ranks, rank, codec)),
        rank_(static_cast<std::size_t>(rank)),
        nonfinite_(nonfinite),
        codec_(codec),
        executor_(&executor),
        verdicts_(values.size()) {
    for (std::size_t const count : values) {
      vectors_.push_back(std::make_unique<vector>(codec, count, ranks, executor));
      auto& one = *vectors_.back();
      one.first_word = statistics_words_;
      one.wide_at = wide_bytes_;
      statistics_words_ += hcomp::statistics_words(codec, one.layout());
      wide_bytes_ += aligned(one.layout().bytes());
    }
    cut_parts();
    std::size_t summed = 0;
    for (auto const& one : pieces_)
      if (one.part == rank_) {
        incoming_bytes_ += aligned(layout(one).bytes(one.blocks));
        summed += aligned(one.blocks.count * sum_bytes(one));
      }
    if (is_narrow()) {
      encoded_ = typename E::buffer(wide_bytes_);
      incoming_ = typename E::buffer(ranks_ * incoming_bytes_);
    }
    sums_ = typename E::buffer(summed);
    if (detail::HasMagnitude<C>) keeps_ = typename E::buffer(vectors() * sizeof(std::uint64_t));
    reset_verdicts();
  }
  encoded_parts(encoded_parts const&) = delete;
  encoded_parts& operator=(encoded_parts const&) = delete;

  std::size_t vectors() const { return vectors_.size(); }
  std::size_t values(std::size_t v = 0) const { return vectors_[v]->layout().values; }
  int ranks() const { return static_cast<int>(ranks_); }
  C const& codec() const { return codec_; }
  /// The values of a vector in a rank's part.
  value_range part(int rank, std::size_t v = 0) const {
    value_range found{0, 0};
    for (auto const& one : pieces_) {
      if (one.v != v || one.part > static_cast<std::size_t>(rank)) continue;
      found = layout(one).values_of(one.blocks);
      if (one.part < static_cast<std::size_t>(rank)) found = {found.first + found.count, 0};
    }
    return found;
  }
  /// Bytes of an encoded part of one rank, and of a reduced part.
  std::size_t part_bytes() const { return part_bytes_; }
  std::size_t reduced_bytes() const { return reduced_bytes_; }
  /// Number of statistics of all vectors that all ranks must agree on before `encode`; 0 if the
  /// codec is not Calibrated.
  std::size_t statistics_words() const { return statistics_words_; }

  /// Sets where later calls read the magnitude of a vector's signs.
  /// @param magnitude  in the executor's memory, equal on all ranks; NaN: the result is NaN, and
  ///                   `commit` has no effect. Null: that of the codec
  void set_magnitude_at(accumulator_t<value_type> const* magnitude,
                        std::size_t v = 0) requires detail::HasMagnitude<C> {
    vectors_[v]->magnitude = magnitude;
  }

  /// Writes the statistics of x, plus what `feedback` adds to it. All ranks must encode with the
  /// elementwise maxima over all ranks, of uint32_t.
  /// @param statistics  statistics_words() words; the call writes those of this vector
  /// @param v           number of the vector
  /// @throws std::invalid_argument, memory_error  as `encode`
  template <Feedback<value_type> F>
  void measure(std::span<value_type const> x, F& feedback, std::uint32_t* statistics,
               std::size_t v = 0) {
    auto& one = checked("measure", x, v);
    values_of<F>(one, x, feedback).measure(statistics + one.first_word);
  }
  void measure(std::span<value_type const> x, std::uint32_t* statistics, std::size_t v = 0) {
    no_feedback<value_type> nothing(x.size());
    measure(x, nothing, statistics, v);
  }

  /// Encodes x, plus what `feedback` adds to it, in ranks() parts.
  /// @param key         equal on all ranks, different for every all-reduce and vector
  /// @param statistics  of all vectors and ranks; not read if the codec is not Calibrated
  /// @param out         ranks() * part_bytes() bytes, for all vectors
  /// @throws std::invalid_argument  no such vector, or wrong number of values
  /// @throws memory_error           x is not in memory that the executor can work on
  template <Feedback<value_type> F>
  void encode(std::span<value_type const> x, F& feedback, draw_key const& key,
              std::uint32_t const* statistics, std::byte* out, std::size_t v = 0) {
    auto& one = checked("encode", x, v);
    block_origin const origin{philox_key(key),
                              static_cast<std::uint32_t>(rank_),
                              1,
                              0,
                              statistics_words_ > 0 ? statistics + one.first_word : nullptr,
                              false};
    if (is_narrow()) put(one, one.layout().all(), x, feedback, origin, wide(one));
    for_each_piece(v, [&](piece const& each) {
      auto* const to = out + each.part * part_bytes_ + each.sent_at;
      if (is_narrow())
        one.work.narrow(each.blocks, wide(one) + one.layout().offset(each.blocks.first), to, 1);
      else
        put(one, each.blocks, x, feedback, origin, to - one.layout().offset(each.blocks.first));
    });
    if (v + 1 == vectors()) clear(*sent_gaps_, out);
  }
  void encode(std::span<value_type const> x, draw_key const& key, std::uint32_t const* statistics,
              std::byte* out, std::size_t v = 0) {
    no_feedback<value_type> nothing(x.size());
    encode(x, nothing, key, statistics, out, v);
  }

  /// Adds all ranks' encodings of this rank's part, in rank order.
  /// @param in   ranks() * part_bytes() bytes: part r from rank r
  /// @param out  reduced_bytes() bytes; must not overlap `in`
  void merge(std::byte const* in, std::byte* out) {
    std::size_t wide_at = 0, sum_at = 0;
    for (auto const& each : pieces_) {
      if (each.part != rank_) continue;
      auto& one = *vectors_[each.v];
      auto const* parts = in + each.sent_at;
      auto* const to = out + each.reduced_at;
      auto* sum = to;
      std::size_t stride = part_bytes_;
      if (is_narrow()) {
        auto* const widened = incoming_.data() + wide_at;
        stride = incoming_bytes_;
        for (std::size_t r = 0; r < ranks_; ++r)
          one.work.widen(each.blocks, {parts + r * part_bytes_, one.bytes(each.blocks, 1)}, nullptr,
                         widened + r * stride, 1);
        parts = widened;
        sum = wide(one) + one.layout().offset(each.blocks.first);
      }
      executor_->for_each_block(
          each.blocks.count,
          detail::merge_parts<C>{codec_, one.layout(), each.blocks.first, parts, stride,
                                 all_ranks(), sum, sums_.data() + sum_at, sum_bytes(each)});
      if (is_narrow()) {
        one.work.round(each.blocks, sum);
        one.work.narrow(each.blocks, sum, to, all_ranks());
      }
      wide_at += aligned(one.layout().bytes(each.blocks));
      sum_at += aligned(each.blocks.count * sum_bytes(each));
    }
    clear(*reduced_gaps_, out);
  }

  /// Verifies the reduced parts of all ranks and decodes them into x. `feedback` sees the result.
  /// @param in   ranks() * reduced_bytes() bytes: part r from rank r
  /// @param key  of the encoding
  /// @throws std::invalid_argument, memory_error  as `encode`
  template <Feedback<value_type> F>
  void decode(std::byte const* in, std::span<value_type> x, F& feedback, draw_key const& key,
              reduce_op op = reduce_op::sum, std::size_t v = 0) {
    decode_pieces(in, x, feedback, key, op, v, [](piece const&) { return true; });
  }
  void decode(std::byte const* in, std::span<value_type> x, draw_key const& key,
              reduce_op op = reduce_op::sum, std::size_t v = 0) {
    no_feedback<value_type> nothing(x.size());
    decode(in, x, nothing, key, op, v);
  }
  /// The same for this rank's part alone, without an all-gather: a reduce-scatter. The rest of x is
  /// unchanged. `check` then knows of this part only, so ranks may differ. For feedback of a rank's
  /// own encoding.
  /// @param in  reduced_bytes() bytes, as `merge` writes them
  template <Feedback<value_type> F>
  void decode_part(std::byte const* in, std::span<value_type> x, F& feedback, draw_key const& key,
                   reduce_op op = reduce_op::sum, std::size_t v = 0) {
    static_assert(F::is_of_own_encoding);
    decode_pieces(in - rank_ * reduced_bytes_, x, feedback, key, op, v,
                  [&](piece const& each) { return each.part == rank_; });
  }
  void decode_part(std::byte const* in, std::span<value_type> x, draw_key const& key,
                   reduce_op op = reduce_op::sum, std::size_t v = 0) {
    no_feedback<value_type> nothing(x.size());
    decode_part(in, x, nothing, key, op, v);
  }
  /// Makes the feedback's new state valid, unless the last `decode` of the vector had no effect.
  template <class F> void commit(F& feedback, std::size_t v = 0) {
    std::uint64_t const* keeps = failed(v);
    if constexpr (detail::HasMagnitude<C>) {
      using number = accumulator_t<value_type>;
      keeps = reinterpret_cast<std::uint64_t*>(keeps_.data()) + v;
      executor_->for_each_block(
          1, detail::keep_feedback<number>{verdicts_.for_work() + v, vectors_[v]->magnitude,
                                           const_cast<std::uint64_t*>(keeps)});
    }
    feedback.commit(*executor_, keeps);
  }

  /// In the executor's memory: not 0 from the first failed `decode` of the vector on, until
  /// `check`.
  std::uint64_t const* failed(std::size_t v = 0) const { return &verdicts_.for_work()[v].failed; }
  /// Whether a `decode` has failed, as far as is known without waiting: then `check` throws.
  bool has_failed() const {
    for (std::size_t v = 0; v < vectors(); ++v)
      if (*static_cast<std::uint64_t const volatile*>(&verdicts_.for_host()[v].failed) != 0)
        return true;
    return false;
  }
  /// Waits for the executor.
  /// @throws wire_error, nonfinite_error  the first `decode` since the last `check` that had no
  ///                                      effect; on all ranks alike
  void check() {
    executor_->synchronize();
    std::size_t first = vectors();
    detail::call_verdict found;
    for (std::size_t v = 0; v < vectors(); ++v) {
      auto const& one = verdicts_.for_host()[v];
      if (one.failed == 0 || (first < vectors() && found.failed <= one.failed)) continue;
      first = v;
      found = one;
    }
    if (first == vectors()) return;
    reset_verdicts();
    detail::require_sound("decode", C::name, found.found(), nonfinite_, vectors_[first]->layout());
  }

 private:
  struct vector {
    detail::codec_work<C, E> work;
    std::size_t first_word = 0;  ///< of its statistics
    std::size_t wide_at = 0;     ///< its blocks in encoded_
    std::size_t sum_bytes;       ///< of the wide sum of a block
    bool is_narrow;
    std::uint64_t decoded = 0;  ///< number of calls
    accumulator_t<value_type> const* magnitude = nullptr;

    vector(C const& codec, std::size_t values, int ranks, E& executor)
        : work(codec, values, ranks, executor,
               {.segment_bytes = std::numeric_limits<std::size_t>::max()}) {
      auto const settings = work.settings();
      sum_bytes = settings.wide_bytes;
      is_narrow = settings.is_narrow;
    }

    encoded_layout const& layout() const { return work.layout(); }
    /// Of blocks in a message.
    std::size_t bytes(block_range blocks, std::uint32_t weight) const {
      return is_narrow ? work.narrow_bytes(blocks, weight) : layout().bytes(blocks);
    }
  };
  /// The blocks of one vector in one part.
  struct piece {
    std::size_t v, part;
    block_range blocks;
    std::size_t sent_at, reduced_at;  ///< in the part
  };

  using gap = detail::clear_gaps::gap;

  /// Blocks, and so pieces, begin at multiples of this.
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  /// Cuts the blocks where parts 0 to r have reached (r + 1) / ranks of the bytes that a rank
  /// sends.
  void cut_parts() {
    std::size_t all = 0, done = 0, part = 0;
    for (auto const& one : vectors_) all += one->bytes(one->layout().all(), 1);
    std::vector<std::size_t> sent(ranks_), reduced(ranks_);  // bytes of each part
    for (std::size_t v = 0; v < vectors(); ++v) {
      auto const& one = *vectors_[v];
      for (std::size_t b = 0; b < one.layout().blocks(); ++b) {
        if (pieces_.empty() || pieces_.back().v != v || pieces_.back().part != part)
          pieces_.push_back({v, part, {b, 0}, aligned(sent[part]), aligned(reduced[part])});
        auto& now = pieces_.back();
        ++now.blocks.count;
        done += one.bytes({b, 1}, 1);
        sent[part] = now.sent_at + one.bytes(now.blocks, 1);
        reduced[part] = now.reduced_at + one.bytes(now.blocks, all_ranks());
        while (part + 1 < ranks_ && done * ranks_ >= all * (part + 1)) ++part;
      }
    }
    part_bytes_ = aligned(*std::ranges::max_element(sent));
    reduced_bytes_ = aligned(*std::ranges::max_element(reduced));
    std::vector<gap> of_sent, of_reduced;
    for (std::size_t r = 0; r < ranks_; ++r) {
      std::size_t sent_end = 0, reduced_end = 0;
      auto const add = [&](std::size_t sent_at, std::size_t reduced_at) {
        if (sent_at > sent_end) of_sent.push_back({r * part_bytes_ + sent_end, sent_at - sent_end});
        if (reduced_at > reduced_end && r == rank_)
          of_reduced.push_back({reduced_end, reduced_at - reduced_end});
      };
      for (auto const& one : pieces_) {
        if (one.part != r) continue;
        add(one.sent_at, one.reduced_at);
        sent_end = one.sent_at + vectors_[one.v]->bytes(one.blocks, 1);
        reduced_end = one.reduced_at + vectors_[one.v]->bytes(one.blocks, all_ranks());
      }
      add(part_bytes_, reduced_bytes_);
    }
    keep(of_sent, sent_gaps_);
    keep(of_reduced, reduced_gaps_);
  }
  void keep(std::vector<gap> const& gaps, std::optional<mirror<gap, E>>& in) {
    in.emplace(gaps.size());
    std::ranges::copy(gaps, in->for_host());
    in->send(*executor_, gaps.size());
  }

  static std::size_t checked(int ranks, int rank, C const& codec) {
    if (ranks < 1 || rank < 0 || rank >= ranks)
      throw std::invalid_argument(
          detail::error_text({"encoded_parts: rank ", rank, " of ", ranks, " ranks"}));
    if (static_cast<std::uint32_t>(ranks) > codec.max_summands())
      throw std::invalid_argument(detail::error_text(
          {"encoded_parts: codec '", C::name, "' holds ", codec.max_summands(), " summands, ",
           ranks, " ranks add one each; fit it: fit(codec, ", ranks, ")"}));
    return static_cast<std::size_t>(ranks);
  }
  vector& checked(char const* who, std::span<value_type const> x, std::size_t v) {
    if (v >= vectors())
      throw std::invalid_argument(
          detail::error_text({who, ": vector ", v, " of ", vectors(), " vectors"}));
    if (x.size() != values(v))
      throw std::invalid_argument(detail::error_text(
          {who, ": ", x.size(), " values, the encoded_parts were made for ", values(v)}));
    if (!detail::can_work_on(executor_, x))
      throw memory_error(detail::error_text(
          {who, ": the ", x.size(), " values are not in memory that the executor can work on"}));
    return *vectors_[v];
  }

  std::uint32_t all_ranks() const { return static_cast<std::uint32_t>(ranks_); }
  bool is_narrow() const { return Narrowable<C> && ranks_ > 1; }
  encoded_layout const& layout(piece const& each) const { return vectors_[each.v]->layout(); }
  std::size_t sum_bytes(piece const& each) const { return vectors_[each.v]->sum_bytes; }
  std::byte* wide(vector const& one) const { return encoded_.data() + one.wide_at; }
  template <class F> void for_each_piece(std::size_t v, F const& f) const {
    for (auto const& each : pieces_)
      if (each.v == v) f(each);
  }
  void clear(mirror<gap, E> const& gaps, std::byte* out) {
    if (gaps.count() > 0)
      executor_->for_each_block(gaps.count(), detail::clear_gaps{out, gaps.for_work()});
  }
  /// @param encoded  where the first block of the vector would be; the same below
  template <class F>
  void put(vector& one, block_range blocks, std::span<value_type const> x, F& feedback,
           block_origin const& origin, std::byte* encoded) {
    if constexpr (detail::HasMagnitude<C>) {
      auto const view = feedback.view(x.data());
      using encoding = encode_with_feedback<C, std::remove_const_t<decltype(view)>>;
      using scaled = detail::at_magnitude<encoding, accumulator_t<value_type>>;
      executor_->for_each_block(
          blocks.count,
          shifted<scaled>{{{codec_, one.layout(), view, encoded, origin}, one.magnitude},
                          blocks.first});
    } else {
      values_of<F>(one, x, feedback).encode(blocks, encoded, origin);
    }
  }
  /// @param in       where the first of all reduced parts would be
  /// @param is_mine  (piece): whether to decode it
  template <class F, class IsMine>
  void decode_pieces(std::byte const* in, std::span<value_type> x, F& feedback, draw_key const& key,
                     reduce_op op, std::size_t v, IsMine const& is_mine) {
    auto& one = checked("decode", std::span<value_type const>(x), v);
    auto const encoded = [&](piece const& each) -> std::byte const* {
      if (is_narrow()) return wide(one);
      return in + each.part * reduced_bytes_ + each.reduced_at -
             one.layout().offset(each.blocks.first);
    };
    for_each_piece(v, [&](piece const& each) {
      if (!is_mine(each)) return;
      if (is_narrow())
        one.work.widen(each.blocks,
                       {in + each.part * reduced_bytes_ + each.reduced_at,
                        one.bytes(each.blocks, all_ranks())},
                       nullptr, wide(one) + one.layout().offset(each.blocks.first), all_ranks());
      verify(one, v, each.blocks, encoded(each), key, op);
    });
    executor_->for_each_block(
        1, detail::end_own_call{verdicts_.for_work() + v, verdicts_.for_host() + v,
                                nonfinite_ == nonfinite_policy::throw_error, one.decoded++,
                                static_cast<std::uint32_t>(detail::operation::all_reduce)});
    for_each_piece(v, [&](piece const& each) {
      if (is_mine(each)) get(one, v, each.blocks, encoded(each), x, feedback, op);
    });
  }
  void verify(vector const& one, std::size_t v, block_range blocks, std::byte const* encoded,
              draw_key const& key, reduce_op op) {
    executor_->for_each_block(
        blocks.count,
        detail::verify_blocks<C>{codec_, one.layout(), blocks.first, encoded, philox_key(key),
                                 ranks_, false, op, verdicts_.for_work() + v});
  }
  template <class F>
  void get(vector const& one, std::size_t v, block_range blocks, std::byte const* encoded,
           std::span<value_type> x, F& feedback, reduce_op op) {
    auto const view = feedback.view(x.data());
    using decoding = decode_with_feedback<C, std::remove_const_t<decltype(view)>>;
    decoding const work{{codec_, one.layout(), blocks.first, encoded, x.data(), op,
                         nonfinite_ == nonfinite_policy::propagate},
                        view};
    if constexpr (detail::HasMagnitude<C>) {
      using scaled = detail::at_magnitude<decoding, accumulator_t<value_type>>;
      executor_->for_each_block(
          blocks.count, detail::unless_failed<scaled>{scaled{work, one.magnitude}, failed(v)});
    } else {
      executor_->for_each_block(blocks.count, detail::unless_failed<decoding>{work, failed(v)});
    }
  }
  void reset_verdicts() {
    std::fill_n(verdicts_.for_host(), vectors(), detail::call_verdict{});
    verdicts_.send(*executor_, vectors());
  }
  /// @param x  only `decode` writes it
  template <class F>
  detail::codec_values<C, E, F> values_of(vector& one, std::span<value_type const> x, F& feedback) {
    return {one.work, const_cast<value_type*>(x.data()), feedback};
  }

  std::size_t ranks_, rank_;
  nonfinite_policy nonfinite_;
  C codec_;
  E* executor_;
  std::vector<std::unique_ptr<vector>> vectors_;
  std::vector<piece> pieces_;  ///< in the order of parts, and of vectors and blocks
  std::size_t part_bytes_ = 0, reduced_bytes_ = 0, statistics_words_ = 0;
  std::size_t wide_bytes_ = 0;      ///< of all vectors
  std::size_t incoming_bytes_ = 0;  ///< of this rank's part, not narrow
  typename E::buffer encoded_{0}, incoming_{0}, sums_{0}, keeps_{0};
  std::optional<mirror<gap, E>> sent_gaps_, reduced_gaps_;  ///< bytes that are not used
  mirror<detail::call_verdict, E> verdicts_;
};

}  // namespace hcomp
