#pragma once
/// @file
/// What a codec is: the concepts all of hcomp is written against.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/core/group.hpp>
#include <string_view>
#include <type_traits>

namespace hcomp {

/// What decoding gives: the weighted sum over the ranks, or that sum divided by the total weight.
enum class reduce_op { sum, mean };

/// What happens when some rank puts NaN or infinity in, or a sum of finite values overflows. The
/// same on all ranks, always.
enum class nonfinite_policy {
  throw_error,  ///< nonfinite_error on every rank; x and all compensation stay as they were
  propagate,    ///< the values concerned are NaN on every rank; with codecs that cannot carry NaN
                ///< all values of the encoded block concerned
  ignore,       ///< the codec's documented encoding of NaN and infinity stands
};

/// A codec is a small value: its parameters, equal on all ranks, and what to do with one block.
///
/// A block holds `block_header` and payload. Values come from anything with `x[i]` (a pointer, or a
/// sum of two vectors that is never stored). Blocks may lie at any address.
/// `encode_block` writes exactly `block_bytes(n)` bytes, sets the header, and reports NaN and
/// infinity in the header's flags. All functions are templates over the group that executes them
/// and give the same bytes for every group. `decode_block` may write any arithmetic type.
/// A codec that cannot carry NaN and infinity to the result says so in `passes_nonfinite`.
template <class C>
concept Compressor = std::is_trivially_copyable_v<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::byte* block, int n,
             block_origin origin, reduce_op r) {
  { C::name } -> std::convertible_to<std::string_view>;  // registry and messages
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
/// `merge_block(group, acc, in)` makes `acc` the sum of both; the two hold disjoint sets of ranks.
/// It gives the same bytes when the two change places. Blocks that must not be merged leave `acc`
/// marked block_is_damaged, which survives all later merges and makes decoding fail on every rank.
template <class C>
concept HomomorphicSum = Compressor<C> &&
    requires(C const c, serial_group g, std::byte* acc, std::byte const* in) {
  { c.merge_block(g, acc, in) } -> std::same_as<void>;
  { c.max_summands() } -> std::same_as<std::uint32_t>;  // largest total weight
  { C::sum_is_exact } -> std::convertible_to<bool>;     // same bytes for every merge order
};

/// A codec whose blocks consist of pieces that groups can encode and decode apart from each other, of
/// `piece_values()` values each, but for the last one: so a device has work for all of it where a vector
/// has few blocks.
///
/// `encode_piece(group, x, n, block, origin, k)` writes what `encode_block` writes of piece k, which may have
/// no values, and returns in every worker whether NaN or infinity was met. When all pieces are there,
/// `close_block(group, n, block, nonfinite, origin)` writes the header, and the block is that of `encode_block`.
/// `decode_piece(group, block, n, origin, x, r, k)` needs no header: `origin` has what it would say. Of a piece
/// alone are `x`, and `largest_of_piece`, as largest_decoded of MayOverflow.
/// A group of `piece_workers` needs piece_scratch_bytes(sizeof(source[i])) if the source TracksResidual, otherwise
/// piece_scratch_bytes(0).
template <class C>
concept Piecewise = Compressor<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::byte* block, int n,
             block_origin origin, reduce_op r) {
  { C::piece_workers } -> std::convertible_to<int>;
  { c.piece_values() } -> std::same_as<int>;
  { c.piece_scratch_bytes(std::size_t{}) } -> std::same_as<std::size_t>;
  { c.encode_piece(g, x, n, block, origin, n) } -> std::same_as<bool>;
  { c.close_block(g, n, block, true, origin) } -> std::same_as<void>;
  { c.decode_piece(g, block, n, origin, x, r, n) } -> std::same_as<void>;
  { c.largest_of_piece(block, n, origin, r, n) } -> std::same_as<double>;
};

/// A codec whose values are encoded one by one, so that what is lost of each is known at once.
///
/// By workers in warps `encode_block` calls source.note(i, source[i]) for all i < n, where the source
/// has such a function. `decoded_alone(value, weight)` is what the value decodes to, as a mean, when
/// nothing is added to it.
template <class C>
concept ElementwiseEncode = Compressor<C> &&
    requires(C const c, typename C::value_type value, std::uint32_t weight) {
  {c.decoded_alone(value, weight)};
};

/// A source that wants to know what encoding loses of its values.
template <class Source>
concept TracksResidual = requires(Source const& x) {
  x.losses[0] = x[0];
};

/// A codec that has its values at hand when it knows what they decode to.
///
/// By workers in warps `encode_block` writes source.losses[i] for all i < n, if the source TracksResidual:
/// source[i] minus what value i decodes to, as a mean, when nothing is added to it. For that it needs
/// scratch_bytes(sizeof(source[i])).
template <class C>
concept ReportsResidual = Compressor<C> && requires(C const c, std::size_t value_bytes) {
  { c.scratch_bytes(value_bytes) } -> std::same_as<std::size_t>;
};

/// A codec that workers in warps decode value by value: `decode_each(group, block, n, r, put)` calls
/// put(i, value i) for all i < n, as accumulator_t of its values; put(i, value i, put.look(i)) if there is
/// such a function, which is called for several values before the first is put.
template <class C, class Group, class Put>
concept ElementwiseDecode = HasWarps<Group> && Compressor<C> &&
    requires(C const c, Group group, std::byte const* block, int n, reduce_op r, Put put) {
  c.decode_each(group, block, n, r, put);
};

/// A codec of one bit per value, whose merged bit is that of one rank, drawn with the probability
/// of its weight by the draws of `sign`: algorithm `sampled` can send that rank's bits alone.
template <class C>
concept SampledSign = HomomorphicSum<C> && C::takes_one_ranks_bit;

/// A codec that encodes in units which all ranks agree on first, such as a norm.
///
/// `measure_block` writes `statistics_in(n)` words about one block of n values; the largest of all
/// ranks' words, word by word, is what `encode_block` finds in `block_origin::statistics`. Floats
/// that are not negative keep their order as words. NaN and infinity in x must not spoil the words:
/// they are reported in the block's flags, as ever.
template <class C>
concept Calibrated = Compressor<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::uint32_t* words, int n) {
  { c.statistics_in(n) } -> std::same_as<std::size_t>;
  { c.measure_block(g, x, n, words) } -> std::same_as<void>;
};

/// A Calibrated codec that can tell where few values decide the unit of many.
///
/// `measure_block(group, x, n, words, dominances)` also writes a float per word, from 0 to 1; see
/// report::dominance.
template <class C>
concept MeasuresDominance = Calibrated<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::uint32_t* words, int n,
             float* dominances) {
  { c.measure_block(g, x, n, words, dominances) } -> std::same_as<void>;
};

/// A codec whose blocks travel in fewer bytes than they have in memory, where merging wants room.
///
/// `narrow_block(group, block, out)` writes narrow_bytes(header) bytes, at most block_bytes(n),
/// that begin with the header; `widen_block(group, in, block)` makes the same block of them, byte
/// for byte, unless the codec HopRounding. A block marked block_is_damaged keeps only its header.
/// Headers may say anything: no more is read or written than they, limited to a full block, have
/// room for.
/// A value has a lane of `lane_bits()` in memory and of `narrow_bits(weight)` in a sum of that
/// weight, to which no rank of weight 1 adds more than `granularity()`.
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

/// A Narrowable codec that can be set to round sums on their way: if `hop_bits()` is not 0, no sum
/// has more bits than that there. `hop_variance(weight)` is what rounding one adds to a value's
/// lane, always right on average.
///
/// `round_block(group, block)` makes the block what narrow_block and widen_block would make of it,
/// all but its checksum. A rounded block is narrowed without loss, so that who passes it on changes
/// nothing. Blocks of different ranks or weights are rounded independently of each other.
template <class C>
concept HopRounding = Narrowable<C> && requires(C const c, serial_group g, std::byte* block) {
  { c.hop_bits() } -> std::same_as<int>;
  { c.hop_variance(std::uint32_t{}) } -> std::same_as<double>;
  { c.round_block(g, block) } -> std::same_as<void>;
};

/// A codec that may decode finite values to infinity: their sum overflows, or their rounding does.
///
/// `largest_decoded(block, n, r)`: no value of a sound block of n values decodes to more; cheap.
/// `stays_finite(group, block, n, r)`: in every worker, whether all decode to finite `value_type`s.
template <class C>
concept MayOverflow = Compressor<C> &&
    requires(C const c, serial_group g, std::byte const* block, int n, reduce_op r) {
  { c.largest_decoded(block, n, r) } -> std::same_as<double>;
  { c.stays_finite(g, block, n, r) } -> std::same_as<bool>;
};

/// Settings of a codec that depend on how many ranks are summed, where it has such settings.
template <class C>
concept FitsRanks = requires(C const c, std::uint32_t total_weight) {
  { c.fitted(total_weight) } -> std::same_as<C>;
};

/// `codec` with room for a total weight of `total_weight`, where it can make room.
template <Compressor C> constexpr C fit(C const& codec, std::uint32_t total_weight) {
  if constexpr (FitsRanks<C>)
    return codec.fitted(total_weight);
  else
    return codec;
}

/// The part of every merge of C's blocks that is the same for all codecs: check, merge the payload,
/// then the header. `payload(acc_header, in_header)` merges the payloads; it may return a
/// block_fault, the same in every worker, if it found that they must not be merged and left `acc`
/// as it was.
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
