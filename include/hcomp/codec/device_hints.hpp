#pragma once
/// @file
/// Optional concepts for devices, error feedback and algorithm `sampled`. A codec needs none of
/// them; compressor.hpp has the concepts that every codec models.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/group.hpp>
#include <string>

namespace hcomp {

/// A codec whose blocks consist of pieces that groups encode and decode independently. Each piece
/// has `piece_values()` values, the last one possibly fewer. Pieces give a device enough parallel
/// work when a vector has few blocks.
///
/// `encode_piece(group, x, n, block, origin, k)` writes the part of `encode_block` that belongs to
/// piece k, which may be empty. In every worker it returns whether it met NaN or infinity. After
/// all pieces, `close_block(group, n, block, nonfinite, origin)` writes the header; the block then
/// equals that of `encode_block`.
///
/// `decode_piece(group, block, n, origin, x, r, k)` takes the header's values from `origin` and
/// does not read the header. Its `x` holds only the values of the piece. `largest_of_piece` is
/// largest_decoded of MayOverflow for one piece.
///
/// A group of `piece_workers` needs piece_scratch_bytes(sizeof(source[i])) if the source
/// TracksResidual, otherwise piece_scratch_bytes(0).
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

/// A codec that encodes values independently, so the error of each value is known at once.
///
/// With workers in warps, `encode_block` calls source.note(i, source[i]) for all i < n if the
/// source has this function. `decoded_alone(value, weight)` is the decoded mean of a value to which
/// nothing was added.
template <class C>
concept ElementwiseEncode = Compressor<C> &&
    requires(C const c, typename C::value_type value, std::uint32_t weight) {
  {c.decoded_alone(value, weight)};
};

/// A source that receives the encoding error of each value in `losses`.
template <class Source>
concept TracksResidual = requires(Source const& x) {
  x.losses[0] = x[0];
};

/// A codec that knows the decoded values while it still holds the source values.
///
/// With workers in warps, `encode_block` writes source.losses[i] for all i < n if the source
/// TracksResidual: source[i] minus the decoded mean of value i when nothing was added to it. This
/// needs scratch_bytes(sizeof(source[i])).
template <class C>
concept ReportsResidual = Compressor<C> && requires(C const c, std::size_t value_bytes) {
  { c.scratch_bytes(value_bytes) } -> std::same_as<std::size_t>;
};

/// A codec that refuses error feedback with some of its settings, because the residual would grow.
///
/// `feedback_refusal()` returns the reason, a sentence with the settings; empty: none.
template <class C>
concept RefusesFeedback = requires(C const c) {
  { c.feedback_refusal() } -> std::same_as<std::string>;
};
template <class C> std::string feedback_refusal_of([[maybe_unused]] C const& codec) {
  if constexpr (RefusesFeedback<C>)
    return codec.feedback_refusal();
  else
    return {};
}

/// A codec that workers in warps decode value by value.
///
/// `decode_each(group, block, n, r, put)` calls put(i, value i) for all i < n, with the value as
/// accumulator_t. If `put.look` exists, it calls put(i, value i, put.look(i)) instead, and calls
/// `look` for several values before the first `put`.
template <class C, class Group, class Put>
concept ElementwiseDecode = HasWarps<Group> && Compressor<C> &&
    requires(C const c, Group group, std::byte const* block, int n, reduce_op r, Put put) {
  c.decode_each(group, block, n, r, put);
};

/// A codec of one bit per value that merges by sampling: each merged bit is the bit of one rank,
/// drawn with probability proportional to its weight by the draws of `sign`. Algorithm `sampled`
/// can therefore send only the bits of the drawn rank.
template <class C>
concept SampledSign = HomomorphicSum<C> && C::takes_one_ranks_bit;

/// A Calibrated codec that detects blocks in which few values determine the unit of many.
///
/// `measure_block(group, x, n, words, dominances)` also writes one float per word, from 0 to 1; see
/// report::dominance.
template <class C>
concept MeasuresDominance = Calibrated<C> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::uint32_t* words, int n,
             float* dominances) {
  { c.measure_block(g, x, n, words, dominances) } -> std::same_as<void>;
};

/// A Narrowable codec that can round sums before each hop. If `hop_bits()` is not 0, every lane on
/// the wire has at most this number of bits. `hop_variance(weight)` is the variance that one
/// rounding adds to a value's lane; the rounding is unbiased.
///
/// `round_block(group, block)` has the effect of narrow_block followed by widen_block, except for
/// the checksum. Narrowing a rounded block is lossless, so a rank that forwards it changes nothing.
/// Blocks of different ranks or weights are rounded independently.
template <class C>
concept HopRounding = Narrowable<C> && requires(C const c, serial_group g, std::byte* block) {
  { c.hop_bits() } -> std::same_as<int>;
  { c.hop_variance(std::uint32_t{}) } -> std::same_as<double>;
  { c.round_block(g, block) } -> std::same_as<void>;
};

}  // namespace hcomp
