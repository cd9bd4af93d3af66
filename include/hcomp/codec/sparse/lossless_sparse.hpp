#pragma once
/// @file
/// Codec `lossless_sparse`: lossless all-reduce of sparse vectors that does not send common zeros.

#include <array>
#include <cstdint>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <type_traits>

namespace hcomp {

/// Lossless reductions of mostly-zero vectors, by hcomp's own collectives:
///
///     hcomp::lossless_sparse<std::uint32_t> const codec;
///     hcomp::plan plan(gradient.size(), codec, transport, executor);
///     plan.all_reduce(gradient);   // plan.choice().text() describes the chosen strategy
///     plan.reduce_scatter(other);  // plan.shard() is the range that this rank owns
///     plan.all_gather(other);      // all ranks then have all shards
///
/// **Algorithms.** With `direct`, the default of a plan, each rank sends its part of every shard to
/// the shard's owner, and the owners send the results to all ranks. Both messages hold the nonzero
/// values and their positions in the most compact form.
///
/// The other algorithms run two all-reduces: one of an index with a bit per value, then one of the
/// values that are not zero on some rank. reduce_scatter and all_gather work by shards with every
/// algorithm. They use neither index nor sketch, and all_gather sends zeros too, because parameters
/// are not sparse.
///
/// **Bits.** Fixed point (Lane std::uint32_t or std::uint64_t) is exact: the same bits with every
/// algorithm, strategy and order, in all_reduce and reduce_scatter.
///
/// Floats have the same bits on all ranks; a sum may be +0 where all summands are -0. With `direct`
/// and in reduce_scatter they are added in rank order. Other algorithms add them as plans do, but
/// the first summand depends on where the packed array is divided.
/// recursive_doubling has no such dependence: without sketches, its sums equal those of
/// plan<identity<float>>. all_gather preserves every bit of a shard.
///
/// **NaN and infinity.** Floats carry them unless plan_options::nonfinite is throw_error, which
/// also rejects sums that overflow. Fixed point cannot carry them and always throws. all_gather
/// follows plan_options::nonfinite with all lanes, and checks only the data that it sends.
///
/// **Damage.** With `direct`, and in reduce_scatter and all_gather, damaged data is an error on all
/// ranks. With the other algorithms, only the receiver notices damage of lanes on their last hop,
/// unless plan_options::checksum is on; its x is unchanged. If plan_options::check is off, only the
/// affected rank notices a damaged index, and other ranks may wait for it.
///
/// **Devices.** With a DeviceExecutor, bits, wire bytes and choice equal those of CPUs, and one
/// reduction may mix both kinds of rank. Sketches require fixed point on devices: floats without
/// packing are rejected. Shards pass through host memory, where headers, marks and checksums are
/// written and checked. The host synchronizes with the device where bytes are sent and where their
/// number must be known:
/// - in shards: for the marks of x and of the results, and for NaN and infinity of the results;
/// - with an index: for 24 bytes that describe it, and where plans synchronize;
/// - with a sketch: every 24 rounds of the search for readable values, and for the final check.
///
/// **Cost.** P is the number of ranks.
/// - all_reduce with `direct`: 2 (P - 1) messages, and log2 P small messages before and after;
///   fixed point adds another log2 P. A message of a shard has its lanes and one byte per nonzero
///   value, and 1 / 32 bit per value; or its lanes, and at most one bit per value.
/// - all_reduce with other algorithms: two all-reduces of plans, of a bit per value and of the
///   lanes that choice() reports, and log2 P small messages between them.
/// - reduce_scatter: P - 1 messages directly to the owners, in total (P - 1) / P of this rank's
///   bits and values, and 32 bytes each; log2 P small messages before and after.
/// - all_gather: P - 1 messages directly to the other ranks, each of this rank's shard and 32
///   bytes; log2 P small messages before and after.
///
/// **Memory.** With `direct` nothing is allocated after the first call.
/// - `direct`: 2 lanes and 2 floats per value, touched only for nonzero values, and some bits.
/// - `direct` on devices: 2 lanes and some bits per value, a lane per value of the shard, and in
///   pinned host memory the amount above.
/// - other algorithms: an index, the lanes of one call, and a plan for them, which is recreated
///   when their number changes.
/// - sketches: 8 bytes per cell and per value of the largest sketch so far.
///
/// @tparam Lane  type that ranks add: float, std::uint32_t or std::uint64_t, as for sparse_union
/// Source: Li et al., arXiv 2402.07529, for lossless sums and for sketches.
template <class Lane = float> struct lossless_sparse {
  static_assert(std::is_same_v<Lane, float> || std::is_same_v<Lane, std::uint32_t> ||
                    std::is_same_v<Lane, std::uint64_t>,
                "lanes are float, std::uint32_t or std::uint64_t");

  using value_type = float;
  using lane_type = Lane;
  static constexpr char const* name = "lossless_sparse";
  static constexpr std::uint8_t codec_id = std::is_same_v<Lane, float> ? codec_ids::sparse_float
                                           : sizeof(Lane) == 4         ? codec_ids::sparse_32
                                                                       : codec_ids::sparse_64;

  sparse_strategies strategies = {};  ///< sketches serve only all_reduce, and not `direct`
  lhc_options sketch = {};            ///< options of the sketch, if one is chosen

  std::array<double, 4> parameters() const {
    return {strategies.dense * 4.0 + strategies.packed * 2.0 + strategies.sketched,
            strategies.worthwhile, sketch.cells_per_value, static_cast<double>(sketch.attempts)};
  }
  /// Fixed point and sketches of floats round. Packing takes fewer bytes than a sketch.
  constexpr bool is_lossless() const {
    return std::is_same_v<Lane, float> && (strategies.packed || !strategies.sketched);
  }
};

static_assert(Sparse<lossless_sparse<>>);

}  // namespace hcomp
