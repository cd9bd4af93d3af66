#pragma once
/// @file
/// The steps of an all-reduce on a device, for callers that have collectives of their own.

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
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>

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
    for (std::uint32_t r = 1; r < count; ++r) {
      std::byte const* const other = parts + r * part_bytes + at;
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

}  // namespace detail

/// A vector encoded in parts of equal size, one per rank. The steps of an all-reduce for callers
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
/// All functions but `check` and the constructor enqueue work on the executor's stream. They do not
/// wait and allocate nothing, and a CUDA graph can capture them. Pointers are in the executor's
/// memory. The result has the bits of a plan with algorithm aggregator, which adds in rank order.
///
/// A part has the same number of blocks on every rank. The last parts may be shorter or empty, and
/// are padded with zeros. Blocks of Narrowable codecs are narrow in all parts.
///
/// Findings stay on the device. `decode` and `commit` have no effect after damaged or contradicting
/// blocks, and with the policy throw_error after NaN, infinity or overflow; nor have later calls
/// until `check`. All ranks decode the same bytes, so all have the same findings. Wrong arguments
/// are errors on this rank only: it has enqueued nothing, and its caller must tell other ranks.
///
/// Memory: the encoded vector, with narrow blocks one more vector, and the wide sums of a part. The
/// executor is used, not owned, and must outlive this.
template <HomomorphicSum C, DeviceExecutor E> class encoded_parts {
 public:
  using value_type = typename C::value_type;

  /// @param values  per vector, >= 0
  /// @param codec   fitted to the number of ranks
  /// @throws std::invalid_argument  no such rank; more ranks than the codec can add
  encoded_parts(std::size_t values, int ranks, int rank, C const& codec, E& executor,
                nonfinite_policy nonfinite = nonfinite_policy::throw_error)
      : ranks_(checked(ranks, rank, codec)),
        rank_(static_cast<std::size_t>(rank)),
        nonfinite_(nonfinite),
        work_(codec, values, ranks, executor, {}),
        blocks_of_part_((layout().blocks() + ranks_ - 1) / ranks_),
        wide_bytes_(work_.settings().wide_bytes),
        encoded_(is_narrow() ? ranks_ * blocks_of_part_ * layout().block_bytes : 0),
        incoming_(encoded_.size()),
        sums_(blocks_of_part_ * wide_bytes_),
        trouble_((agreement::count + 2) * sizeof(std::uint32_t)) {
    work_.prepare_verdict();
    work_.put({0, rank, false}, agreed(), 0);
  }
  encoded_parts(encoded_parts const&) = delete;
  encoded_parts& operator=(encoded_parts const&) = delete;

  std::size_t values() const { return layout().values; }
  int ranks() const { return static_cast<int>(ranks_); }
  C const& codec() const { return work_.codec(); }
  /// The values of a rank's part.
  value_range part(int rank) const {
    return layout().values_of(blocks_of(static_cast<std::size_t>(rank)));
  }
  /// Bytes of an encoded part of one rank, and of a reduced part.
  std::size_t part_bytes() const { return bytes_with(1); }
  std::size_t reduced_bytes() const { return bytes_with(static_cast<std::uint32_t>(ranks_)); }
  /// Number of statistics that all ranks must agree on before `encode`; 0 if the codec is not
  /// Calibrated.
  std::size_t statistics_words() const { return hcomp::statistics_words(work_.codec(), layout()); }

  /// Writes the statistics of x, plus what `feedback` adds to it. All ranks must encode with the
  /// elementwise maxima over all ranks, of uint32_t.
  /// @param statistics  statistics_words() words
  /// @throws std::invalid_argument, memory_error  as `encode`
  template <Feedback<value_type> F>
  void measure(std::span<value_type const> x, F& feedback, std::uint32_t* statistics) {
    require("measure", x);
    values_of<F>(x, feedback).measure(statistics);
  }
  void measure(std::span<value_type const> x, std::uint32_t* statistics) {
    no_feedback<value_type> nothing(x.size());
    measure(x, nothing, statistics);
  }

  /// Encodes x, plus what `feedback` adds to it, in ranks() parts.
  /// @param key         equal on all ranks, different for every all-reduce
  /// @param statistics  of all ranks; not read if the codec is not Calibrated
  /// @param out         ranks() * part_bytes() bytes
  /// @throws std::invalid_argument  wrong number of values
  /// @throws memory_error           x is not in memory that the executor can work on
  template <Feedback<value_type> F>
  void encode(std::span<value_type const> x, F& feedback, draw_key const& key,
              std::uint32_t const* statistics, std::byte* out) {
    require("encode", x);
    auto* const encoded = is_narrow() ? encoded_.data() : out;
    values_of<F>(x, feedback)
        .encode(layout().all(), encoded,
                {philox_key(key), static_cast<std::uint32_t>(rank_), 1, 0,
                 statistics_words() > 0 ? statistics : nullptr, false});
    if (is_narrow()) work_.narrow(layout().all(), encoded, out, 1);
    pad(out, part_bytes(), 1);
  }
  void encode(std::span<value_type const> x, draw_key const& key, std::uint32_t const* statistics,
              std::byte* out) {
    no_feedback<value_type> nothing(x.size());
    encode(x, nothing, key, statistics, out);
  }

  /// Adds all ranks' encodings of this rank's part, in rank order.
  /// @param in   ranks() * part_bytes() bytes: part r from rank r
  /// @param out  reduced_bytes() bytes; must not overlap `in`
  void merge(std::byte const* in, std::byte* out) {
    auto const mine = blocks_of(rank_);
    std::size_t stride = part_bytes();
    std::byte const* parts = in;
    std::byte* sum = out;
    if (is_narrow()) {
      stride = blocks_of_part_ * layout().block_bytes;
      for (std::size_t r = 0; r < ranks_; ++r)
        work_.widen(mine, {in + r * part_bytes(), work_.narrow_bytes(mine, 1)}, nullptr,
                    incoming_.data() + r * stride, 1);
      parts = incoming_.data();
      sum = encoded_.data() + layout().offset(mine.first);
    }
    executor().for_each_block(
        mine.count,
        detail::merge_parts<C>{work_.codec(), layout(), mine.first, parts, stride,
                               static_cast<std::uint32_t>(ranks_), sum, sums_.data(), wide_bytes_});
    if (is_narrow()) {
      work_.round(mine, sum);
      work_.narrow(mine, sum, out, static_cast<std::uint32_t>(ranks_));
    }
    std::size_t const used = work_.narrow_bytes(mine, static_cast<std::uint32_t>(ranks_));
    clear(out + used, reduced_bytes() - used);
  }

  /// Verifies the reduced parts of all ranks and decodes them into x. `feedback` sees the result.
  /// @param in   ranks() * reduced_bytes() bytes: part r from rank r
  /// @param key  of the encoding
  /// @throws std::invalid_argument, memory_error  as `encode`
  template <Feedback<value_type> F>
  void decode(std::byte const* in, std::span<value_type> x, F& feedback, draw_key const& key,
              reduce_op op = reduce_op::sum) {
    require("decode", x);
    auto const weight = static_cast<std::uint32_t>(ranks_);
    std::byte const* encoded = in;
    if (is_narrow()) {
      work_.widen(layout().all(), {in, work_.narrow_bytes(layout().all(), weight)}, nullptr,
                  encoded_.data(), weight);
      encoded = encoded_.data();
    }
    work_.verify(layout().all(), encoded, philox_key(key), weight, false, op);
    work_.note(agreed(), nonfinite_ == nonfinite_policy::throw_error, trouble());
    work_.judge(trouble(), decoded_++, static_cast<std::uint32_t>(detail::operation::all_reduce));
    values_of<F>(x, feedback)
        .decode(layout().all(), encoded, op, nonfinite_ == nonfinite_policy::propagate);
  }
  void decode(std::byte const* in, std::span<value_type> x, draw_key const& key,
              reduce_op op = reduce_op::sum) {
    no_feedback<value_type> nothing(x.size());
    decode(in, x, nothing, key, op);
  }
  /// Makes the feedback's new state valid, unless the last `decode` had no effect.
  template <class F> void commit(F& feedback) { feedback.commit(executor(), failed()); }

  /// In the executor's memory: not 0 from the first failed `decode` on, until `check`.
  std::uint64_t const* failed() const { return work_.failed(); }
  /// Waits for the executor.
  /// @throws wire_error, nonfinite_error  the first `decode` since the last `check` that had no
  ///                                      effect; on all ranks alike
  void check() {
    auto const verdict = work_.fetch_verdict();
    if (verdict.failed == 0) return;
    work_.reset_verdict();
    detail::require_sound("decode", C::name, verdict.found(), nonfinite_, layout());
  }

 private:
  using agreement = detail::agreement_words;

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
  void require(char const* who, std::span<value_type const> x) const {
    if (x.size() != values())
      throw std::invalid_argument(detail::error_text(
          {who, ": ", x.size(), " values, the encoded_parts were made for ", values()}));
    if (!detail::can_work_on(&work_.executor(), x))
      throw memory_error(detail::error_text(
          {who, ": the ", x.size(), " values are not in memory that the executor can work on"}));
  }

  encoded_layout const& layout() const { return work_.layout(); }
  E& executor() const { return work_.executor(); }
  static constexpr bool is_narrow() { return Narrowable<C>; }
  block_range blocks_of(std::size_t rank) const {
    std::size_t const first = std::min(rank * blocks_of_part_, layout().blocks());
    return {first, std::min(blocks_of_part_, layout().blocks() - first)};
  }
  std::size_t bytes_with(std::uint32_t weight) const {
    return blocks_of_part_ * travelling_layout(work_.codec(), layout(), weight).block_bytes;
  }
  /// Clears what `ranks_` parts of one weight have after their last block.
  void pad(std::byte* out, std::size_t bytes, std::uint32_t weight) {
    std::size_t const used = work_.narrow_bytes(layout().all(), weight);
    clear(out + used, ranks_ * bytes - used);
  }
  void clear(std::byte* bytes, std::size_t count) {
    if (count > 0) executor().for_each_block(1, detail::clear_bytes{bytes, count});
  }
  /// @param x  only `decode` writes it
  template <class F>
  detail::codec_values<C, E, F> values_of(std::span<value_type const> x, F& feedback) {
    return {work_, const_cast<value_type*>(x.data()), feedback};
  }
  std::uint32_t* agreed() const { return reinterpret_cast<std::uint32_t*>(trouble_.data()); }
  std::uint32_t* trouble() const { return agreed() + agreement::count; }

  std::size_t ranks_, rank_;
  nonfinite_policy nonfinite_;
  detail::codec_work<C, E> work_;
  std::size_t blocks_of_part_;
  std::size_t wide_bytes_;  ///< of the wide sums of a block
  typename E::buffer encoded_, incoming_, sums_, trouble_;
  std::uint64_t decoded_ = 0;
};

}  // namespace hcomp
