#pragma once
/// @file
/// Lossless sums of sparse vectors: what is zero on all ranks does not travel.

#include <array>
#include <cstdint>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <type_traits>

namespace hcomp {

/// Sums of vectors that are mostly zeros, by hcomp's own collectives:
///
///     hcomp::plan sum(gradient.size(), hcomp::lossless<std::uint32_t>{}, transport, executor);
///     sum.all_reduce(gradient);   // and sum.choice().text() tells how
///     sum.reduce_scatter(other);  // of which sum.shard() is this rank's,
///     sum.all_gather(other);      // until all ranks have all shards
///
/// Algorithm direct, that of a plan without options: ranks send the owner of every shard what they
/// have of it, and owners send the sums to all, each time the values that are not zero and their
/// places, in as few bytes as that takes. Others: two all_reduce of a plan, first of an index of a
/// bit per value, then of the values that are not zero on some rank. reduce_scatter and all_gather
/// go by shards with every algorithm; they need no index and no sketch, and all_gather sends zeros
/// too, since parameters are not sparse.
///
/// Fixed point (Lane std::uint32_t or std::uint64_t) is exact: the same bits by every algorithm,
/// way and order, from all_reduce and reduce_scatter alike. Floats have the same bits on all ranks:
/// by direct, and in shards of reduce_scatter, added up in the order of the ranks; by others as
/// plans add them, but whose value comes first depends on where the packed array is cut. With
/// algorithm recursive_doubling it does not, and without sketches sums equal those of plan<identity<float>>.
/// all_gather gives every bit of a shard as it is.
///
/// NaN and infinity: floats carry them unless plan_options::nonfinite is throw_error, which also
/// refuses sums that overflow; fixed point cannot carry them and always throws. all_gather follows
/// plan_options::nonfinite with all lanes, and looks only at what travels.
///
/// Damage: by direct, and in reduce_scatter and all_gather, it is an error on all ranks. By other
/// algorithms what the lanes suffer on their last way is noticed by its receivers alone, unless
/// plan_options::checksum is on; their x is unchanged. With plan_options::check off a damaged index
/// too is noticed only by the rank that has it, and others may wait for it.
///
/// On a device (DeviceExecutor) bits, bytes and choice are those of hosts, also with ranks of
/// either kind in one sum; but sketches take fixed point: floats without packing are refused.
/// Shards go through host memory, where headers, marks and checksums are written and checked. The
/// host waits where bytes leave and where their number must be known: for the marks of x, of sums,
/// and what sums have of NaN and infinity; by an index for 24 bytes that say what it has, and where
/// plans do; of a sketch some times: every 24 rounds in which it is found out what can be read, and
/// for the check.
///
/// Cost of all_reduce by direct: 2 (P - 1) messages; of a shard they have a byte, or 4 with the
/// value, per value that is not zero and 1 / 32 bit per value, or at most one bit per value; and
/// log2 P small messages before and after, with fixed point another time. By others: two all_reduce
/// of plans, of a bit per value and of the lanes that choice() tells, and log2 P small messages
/// between them. Of reduce_scatter: P - 1 messages straight to the owners, together (P - 1) / P of
/// this rank's bits and values and 32 bytes each; of all_gather: P - 1 messages straight to the
/// others, each of this rank's shard and 32 bytes; both log2 P small messages before and after.
/// Memory: by direct 2 lanes and 2 floats per value, of which only what is not zero is touched, and
/// some bits; on devices 2 lanes and some bits, a lane more per value of the shard, and in pinned
/// host memory what hosts have; otherwise an index, the lanes of one call, and a plan for as many,
/// which is made anew when their number changes; and where sketches are chosen, 8 bytes per cell
/// and per value in them, of the largest so far. Nothing else is allocated after the first call.
/// @tparam Lane  what is added up: float, std::uint32_t or std::uint64_t, as for sparse_union
/// Source: Li et al., arXiv 2402.07529, for sums that lose nothing and for sketches.
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

  sparse_strategies strategies =
      {};                   ///< of which sketches serve all_reduce alone, and not by `direct`
  lhc_options sketch = {};  ///< if it comes to that

  std::array<double, 4> parameters() const {
    return {strategies.dense * 4.0 + strategies.packed * 2.0 + strategies.sketched,
            strategies.worthwhile, sketch.cells_per_value, static_cast<double>(sketch.attempts)};
  }
};

static_assert(Sparse<lossless_sparse<>>);

}  // namespace hcomp
