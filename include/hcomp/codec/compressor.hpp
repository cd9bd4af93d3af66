#pragma once
/// @file
/// The concepts that every codec of hcomp models.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/core/group.hpp>
#include <string_view>
#include <type_traits>

namespace hcomp {

/// The result of decoding: the weighted sum over the ranks, or that sum divided by the total
/// weight.
enum class reduce_op { sum, mean };

/// The effect of NaN or infinity in the input of some rank, and of a sum of finite values that
/// overflows. The effect is the same on all ranks.
enum class nonfinite_policy {
  throw_error,  ///< nonfinite_error on every rank; x and every residual stay unchanged
  propagate,    ///< the affected values are NaN on every rank; if the codec cannot carry NaN, all
                ///< values of the affected block are NaN
  ignore,       ///< the result follows the codec's documented encoding of NaN and infinity
};

/// A codec: a small value that holds its parameters, equal on all ranks, and encodes and decodes
/// one block at a time.
///
/// A block is a `block_header` and a payload, and may lie at any address. The source of the values
/// is anything with `x[i]`: a pointer, or the sum of two vectors that is never stored.
/// `encode_block` writes exactly `block_bytes(n)` bytes, sets the header, and reports NaN and
/// infinity in its flags. `decode_block` may write any arithmetic type.
///
/// All functions are templates over the group that executes them, and give the same bytes for every
/// group. `passes_nonfinite` is false for a codec that cannot carry NaN and infinity to the result.
template <class C>
concept Compressor = std::is_trivially_copyable_v<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::byte* block, int n,
             block_origin origin, reduce_op r) {
  { C::name } -> std::convertible_to<std::string_view>;  // for the registry and messages
  { C::codec_id } -> std::convertible_to<std::uint8_t>;  // on the wire
  { C::block_values } -> std::convertible_to<int>;       // values in a full block
  { C::passes_nonfinite } -> std::convertible_to<bool>;
  { c.parameters().size() } -> std::convertible_to<std::size_t>;  // doubles, at most 4
  { c.block_bytes(n) } -> std::same_as<std::size_t>;              // header included
  { c.encode_block(g, x, n, block, origin) } -> std::same_as<void>;
  { c.decode_block(g, block, n, x, r) } -> std::same_as<void>;
};

/// A codec whose encoded blocks can be added without decoding them.
///
/// `merge_block(group, acc, in)` replaces `acc` by the sum of both blocks, which hold disjoint sets
/// of ranks. The result has the same bytes when `acc` and `in` are exchanged. If the blocks must
/// not be merged, it marks `acc` block_is_damaged. This mark survives all later merges and makes
/// decoding fail on every rank.
template <class C>
concept HomomorphicSum = Compressor<C> &&
    requires(C const c, serial_group g, std::byte* acc, std::byte const* in) {
  { c.merge_block(g, acc, in) } -> std::same_as<void>;
  { c.max_summands() } -> std::same_as<std::uint32_t>;  // largest total weight
  { C::sum_is_exact } -> std::convertible_to<bool>;     // same bytes for every merge order
};

/// Where a DefersRounding codec keeps the sum of one block between merges.
struct wide_sum {
  std::byte* values = nullptr;  ///< wide_bytes(n) bytes, at a multiple of 16
  bool starts = true;           ///< the sum consists of the two blocks of this merge
  bool ends = true;             ///< no merge follows: the sum is rounded to `acc`
};

/// A codec that rounds in every merge, unless one rank has all summands: it can keep their sum in a
/// wider type and round once.
///
/// `merge_wide(group, acc, in, wide)` adds the block `in` to `wide`, and its header to `acc`. Only
/// the last merge writes the payload of `acc`. A single merge has the result of merge_block.
template <class C>
concept DefersRounding = HomomorphicSum<C> &&
    requires(C const c, serial_group g, std::byte* acc, std::byte const* in, wide_sum wide, int n) {
  { c.wide_bytes(n) } -> std::same_as<std::size_t>;
  { c.merge_wide(g, acc, in, wide) } -> std::same_as<void>;
};

/// A codec whose ranks agree on units, such as a norm, before they encode.
///
/// `measure_block` writes `statistics_in(n)` words about one block of n values. `encode_block`
/// finds the element-wise maximum of these words over all ranks in `block_origin::statistics`.
/// Floats that are not negative keep their order when compared as words. NaN and infinity in x must
/// not affect the words; the block's flags report them.
template <class C>
concept Calibrated = Compressor<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::uint32_t* words, int n) {
  { c.statistics_in(n) } -> std::same_as<std::size_t>;
  { c.measure_block(g, x, n, words) } -> std::same_as<void>;
};

/// A codec whose blocks are shorter on the wire than in memory, where merging needs wider lanes.
///
/// `narrow_block(group, block, out)` writes narrow_bytes(header) bytes, at most block_bytes(n),
/// that begin with the header. `widen_block(group, in, block)` restores the block byte for byte,
/// except with HopRounding. A block marked block_is_damaged keeps only its header. Headers are not
/// trusted: neither function accesses more bytes than the header implies, limited to a full block.
///
/// In memory each value has a lane of `lane_bits()`. On the wire it has `narrow_bits(weight)` in a
/// sum of this weight. A rank of weight 1 adds at most `granularity()` to a lane.
template <class C>
concept Narrowable = Compressor<C> &&
    requires(C const c, serial_group g, block_header header, std::byte const* in, std::byte* out) {
  { c.narrow_bytes(header) } -> std::same_as<std::size_t>;
  { c.narrow_block(g, in, out) } -> std::same_as<void>;
  { c.widen_block(g, in, out) } -> std::same_as<void>;
  { c.lane_bits() } -> std::same_as<int>;
  { c.narrow_bits(header.weight) } -> std::same_as<int>;
  { c.granularity() } -> std::same_as<int>;
};

/// A codec that may decode finite inputs to infinity, because their sum or its rounding overflows.
///
/// `largest_decoded(block, n, r)` is a cheap upper bound on the decoded values of a valid block of
/// n values. `stays_finite(group, block, n, r)` returns in every worker whether all values decode
/// to finite `value_type`s.
template <class C>
concept MayOverflow = Compressor<C> &&
    requires(C const c, serial_group g, std::byte const* block, int n, reduce_op r) {
  { c.largest_decoded(block, n, r) } -> std::same_as<double>;
  { c.stays_finite(g, block, n, r) } -> std::same_as<bool>;
};

/// A codec with settings that depend on the total weight of a sum.
template <class C>
concept FitsRanks = requires(C const c, std::uint32_t total_weight) {
  { c.fitted(total_weight) } -> std::same_as<C>;
};

/// Returns `codec` with capacity for a total weight of `total_weight`, if it has such a setting.
template <Compressor C> constexpr C fit(C const& codec, std::uint32_t total_weight) {
  if constexpr (FitsRanks<C>)
    return codec.fitted(total_weight);
  else
    return codec;
}

/// The codec-independent part of merging blocks of C: checks both headers, merges the payloads,
/// then the headers.
///
/// `payload(acc_header, in_header)` merges the payloads. It may return a block_fault, the same in
/// every worker, if the payloads must not be merged; it then leaves `acc` unchanged.
template <class C, class Group, class Payload>
HCOMP_HD void merge_checked(Group group, std::byte* acc, std::byte const* in,
                            std::uint32_t max_weight, Payload const& payload) {
  auto const mine = load_header(acc), other = load_header(in);
  block_fault fault = merge_fault(mine, other, max_weight);
  if (fault == block_fault::none && (mine.codec != C::codec_id || mine.values > C::block_values))
    fault = mine.codec != C::codec_id ? block_fault::codec : block_fault::length;
  if (fault == block_fault::none) {
    if constexpr (std::is_void_v<decltype(payload(mine, other))>)
      payload(mine, other);
    else
      fault = payload(mine, other);
  }
  auto header = merged_header(mine, other);
  if (fault != block_fault::none) {
    header = mine;
    header.flags |= block_is_damaged;
    if (header.fault == block_fault::none) header.fault = fault;
  }
  group.sync();
  if (group.worker() == 0) store_aligned(acc, 0, header);
  group.sync();
}

}  // namespace hcomp
