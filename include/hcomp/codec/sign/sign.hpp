#pragma once
/// @file
/// Codec `sign`: one bit per value on every hop, with Marsit's signs and their unbiased merge.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sign/detail/kernels.hpp>
#include <hcomp/codec/sign/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/half.hpp>
#include <limits>

namespace hcomp {

/// Signs of the values. A merged block holds, for every value, the sign of one rank drawn at
/// random.
///
/// Encoding sets bit = 1 where x >= 0 (+0 and -0 included), otherwise 0. A merge of blocks with
/// weights a and b takes the first block's bit with probability a / (a + b), independently per
/// value. Over any tree of merges, each rank is therefore drawn with probability weight / total
/// weight. The result is an unbiased mean of signs, not the sign of the mean.
///
/// Decoding gives +magnitude or -magnitude for the mean, and that times the total weight for the
/// sum.
///
/// The draws depend on the block headers (key, place, weights, lowest ranks) in canonical rank
/// order. Every rank that performs a merge gets the same bits, in either order of arguments. NaN
/// encodes as 0; the header flags a block with NaN or infinity (see `nonfinite_policy`).
/// Size: 1 bit per value and 32 bytes per 32768 values. At most 2^32 - 1 summands.
/// Source: Wu et al., Marsit, DAC 2022, Algorithm 1; the merge is its operator for any weights.
template <class T = float> struct sign {
  using value_type = detail::value_t<T>;
  static constexpr char const* name = "sign";
  static constexpr std::uint8_t codec_id = codec_ids::sign;
  static constexpr int block_values = 32768;
  static constexpr bool sum_is_exact = false;
  static constexpr bool passes_nonfinite = false;
  static constexpr bool takes_one_ranks_bit = true;
  /// Device threads that encode one block, and that decode it. A vector of some million values has
  /// few blocks, and memory is faster when the active threads write one contiguous range.
  static constexpr int workers = 256, decode_workers = 1024;
  /// Concurrent merges per multiprocessor: the maximum at which all variables of a worker fit in
  /// registers.
  static constexpr int merges_at_once = 8;

  accumulator_t<T> magnitude = 1;  ///< decoded magnitude of one sign; > 0

  std::array<double, 1> parameters() const { return {static_cast<double>(magnitude)}; }

  static constexpr int words_of(int n) { return (n + 63) / 64; }
  static constexpr std::size_t block_bytes(int n = block_values) {
    return block_header_bytes + static_cast<std::size_t>(words_of(n)) * sizeof(std::uint64_t);
  }
  static constexpr std::uint32_t max_summands() {
    return std::numeric_limits<std::uint32_t>::max();
  }

  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    bool const nonfinite =
        group.any(detail::sign::pack_signs(group, x, n, block + block_header_bytes));
    if (group.worker() == 0) store_aligned(block, 0, make_header(codec_id, n, nonfinite, origin));
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    merge_checked<sign>(group, acc, in, max_summands(), [&](auto const& mine, auto const& other) {
      bool const mine_first = mine.lowest_rank < other.lowest_rank;
      auto const& lower = mine_first ? mine : other;
      auto const& upper = mine_first ? other : mine;
      auto const key = detail::sign::merge_key(mine.key, lower.lowest_rank, upper.lowest_rank,
                                               lower.weight, lower.weight + upper.weight);
      detail::sign::merge_signs(group, acc + block_header_bytes, in + block_header_bytes,
                                words_of(mine.values), first_word(mine.index), mine_first, key);
    });
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    decode_part(group, block, 0, n, x, r);
  }
  /// Decodes the values [first, first + n) of a block; `first` is a multiple of 64.
  template <class Group, class Out>
  HCOMP_HD void decode_part(Group group, std::byte const* block, int first, int n, Out* x,
                            reduce_op r) const {
    detail::sign::unpack_signs(group, block + block_header_bytes + first / 8, n,
                               static_cast<Out>(size_of(block, r)), x);
  }

  template <class V>
  HCOMP_HD accumulator_t<T> decoded_alone(V value, std::uint32_t /*weight*/) const {
    return value >= 0 ? magnitude : -magnitude;
  }
  template <HasWarps Group, class Put>
  HCOMP_HD void decode_each(Group group, std::byte const* block, int n, reduce_op r,
                            Put const& put) const {
    auto const size = size_of(block, r);
    detail::for_bits(
        group, block + block_header_bytes, n, [&](std::uint32_t bit) { return bit ? size : -size; },
        put);
  }

  /// Index of a block's first word in the complete vector, which selects its draws.
  HCOMP_HD static constexpr std::uint64_t first_word(std::uint32_t block_index) {
    return std::uint64_t{block_index} * (block_values / 64);
  }

 private:
  HCOMP_HD accumulator_t<T> size_of(std::byte const* block, reduce_op r) const {
    auto const weight = load_aligned<block_header>(block).weight;
    return r == reduce_op::sum ? magnitude * static_cast<accumulator_t<T>>(weight) : magnitude;
  }
};

}  // namespace hcomp
