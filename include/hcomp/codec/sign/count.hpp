#pragma once
/// @file
/// Codec `sign_count`: exact counts of signs, for majority votes and signSGD.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sign/detail/kernels.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>

namespace hcomp {

/// The exact sum of signs. For each value it counts the ranks (by weight) with x >= 0, in the
/// number of bits that the largest total weight needs.
///
/// Counters are stored in bit planes. A merge adds 64 counters at once, with a carry from plane to
/// plane. Decoding gives magnitude * (ranks with x >= 0 minus ranks with x < 0), divided by the
/// total weight for the mean. Its sign is the majority vote; a tie gives 0. NaN counts as negative;
/// the header flags a block with NaN or infinity.
///
/// Size in memory: bit_width(summands) bits per value and 32 bytes per 8192 values. Size on the
/// wire: bit_width(weight) bits per value for a sum of this weight.
/// Source: signSGD with majority vote; Bernstein et al., ICLR 2019.
template <class T = float> struct sign_count {
  using value_type = detail::value_t<T>;
  static constexpr char const* name = "sign_count";
  static constexpr std::uint8_t codec_id = codec_ids::sign_count;
  static constexpr int block_values = 8192;
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = false;

  accumulator_t<T> magnitude = 1;  ///< decoded magnitude of one sign; > 0
  std::uint32_t summands = 255;    ///< largest total weight, >= 1; determines the size

  std::array<double, 2> parameters() const {
    return {static_cast<double>(magnitude), static_cast<double>(summands)};
  }
  constexpr std::uint32_t max_summands() const { return summands; }
  constexpr sign_count fitted(std::uint32_t total_weight) const {
    return {magnitude, total_weight};
  }
  HCOMP_HD constexpr int planes() const { return narrow_bits(summands); }
  constexpr std::size_t block_bytes(int n = block_values) const { return bytes_of(n, planes()); }

  int lane_bits() const { return planes(); }
  static constexpr int granularity() { return 1; }
  /// Bit planes of a sum of total weight `weight`; at most planes(), the capacity of a block.
  HCOMP_HD int narrow_bits(std::uint32_t weight) const {
    return detail::bit_length(weight < summands ? weight : summands);
  }
  HCOMP_HD std::size_t narrow_bytes(block_header const& header) const {
    return bytes_of(header.values < block_values ? header.values : block_values,
                    narrow_bits(header.weight));
  }

  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    std::byte* const counters = block + block_header_bytes;
    bool finite = true;
    if constexpr (HasWarps<Group>) {
      finite = !detail::sign::vote_on_signs(group, x, n, [&](int h, std::uint32_t bits) {
        for (int plane = 0; plane < planes(); ++plane)
          store_aligned(counters, 2 * word_at(n, plane, 0) + static_cast<std::size_t>(h),
                        origin.weight >> plane & 1 ? bits : 0u);
      });
    } else {
      for (int w = group.worker(); w < words_of(n); w += Group::workers) {
        auto const bits =
            detail::sign::word_of_signs(x, w, n - w * 64 < 64 ? n - w * 64 : 64, finite);
        for (int plane = 0; plane < planes(); ++plane)
          store_aligned(counters, word_at(n, plane, w),
                        origin.weight >> plane & 1 ? bits : std::uint64_t{0});
      }
    }
    bool const nonfinite = group.any(!finite);
    if (group.worker() == 0) store_aligned(block, 0, make_header(codec_id, n, nonfinite, origin));
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    merge_checked<sign_count>(group, acc, in, summands, [&](auto const& mine, auto const&) {
      std::byte* const a = acc + block_header_bytes;
      std::byte const* const b = in + block_header_bytes;
      for (int w = group.worker(); w < words_of(mine.values); w += Group::workers) {
        constexpr int at_once = 4;  // planes loaded before the first is stored
        std::uint64_t carry = 0;
        for (int some = 0; some < planes(); some += at_once) {
          std::uint64_t p[at_once] = {}, q[at_once] = {};
          auto const at = [&](int k) { return word_at(mine.values, some + k, w); };
          HCOMP_UNROLL
          for (int k = 0; k < at_once; ++k)
            if (some + k < planes()) p[k] = load_word(a, at(k)), q[k] = load_word(b, at(k));
          HCOMP_UNROLL
          for (int k = 0; k < at_once; ++k) {
            if (some + k < planes()) store_word(a, at(k), p[k] ^ q[k] ^ carry);
            carry = (p[k] & q[k]) | (carry & (p[k] ^ q[k]));
          }
        }
      }
    });
  }

  /// Copies the block without its upper planes, which are zero.
  template <class Group>
  HCOMP_HD void narrow_block(Group group, std::byte const* block, std::byte* out) const {
    copy_bytes(group, out, block, narrow_bytes(load_aligned<block_header>(block)));
  }
  template <class Group>
  HCOMP_HD void widen_block(Group group, std::byte const* in, std::byte* block) const {
    auto const header = load_aligned<block_header>(in);
    int const n = header.values < block_values ? header.values : block_values;
    copy_bytes(group, block, in, narrow_bytes(header));
    for (int w = narrow_bits(header.weight) * words_of(n) + group.worker();
         w < planes() * words_of(n); w += Group::workers)
      store_aligned(block + block_header_bytes, static_cast<std::size_t>(w), std::uint64_t{0});
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    auto const weight = load_aligned<block_header>(block).weight;
    if constexpr (HasWarps<Group>)
      decode_each(group, block, n, r,
                  [&](int i, accumulator_t<T> value) { x[i] = static_cast<Out>(value); });
    else
      for (int i = group.worker(); i < n; i += Group::workers) {
        std::uint32_t count = 0;
        for (int plane = 0; plane < planes(); ++plane) {
          auto const word =
              load_aligned<std::uint64_t>(block + block_header_bytes, word_at(n, plane, i / 64));
          count |= static_cast<std::uint32_t>(word >> (i % 64) & 1) << plane;
        }
        x[i] = static_cast<Out>(worth(count, weight, r));
      }
    group.sync();
  }
  template <HasWarps Group, class Put>
  HCOMP_HD void decode_each(Group group, std::byte const* block, int n, reduce_op r,
                            Put const& put) const {
    auto const weight = load_aligned<block_header>(block).weight;
    auto const decode = [&](auto const& worth_of) {
      detail::for_counts(group, block + block_header_bytes, planes(), 2 * word_at(n, 1, 0), n,
                         worth_of, put);
    };
    if (planes() <= 5) {  // each lane computes one count's value; this avoids one division per
                          // value
      auto const mine = worth(static_cast<std::uint32_t>(group.worker() % 32), weight, r);
      decode([&](std::uint32_t count) { return group.lane_value(mine, static_cast<int>(count)); });
    } else {
      decode([&](std::uint32_t count) { return worth(count, weight, r); });
    }
  }
  template <class V> HCOMP_HD accumulator_t<T> decoded_alone(V value, std::uint32_t weight) const {
    return worth(value >= 0 ? weight : 0, weight, reduce_op::mean);
  }

 private:
  /// Decoded value of `count` ranks with x >= 0 among `all`.
  HCOMP_HD accumulator_t<T> worth(std::uint32_t count, std::uint32_t all, reduce_op r) const {
    auto const more = 2 * static_cast<std::int64_t>(count) - static_cast<std::int64_t>(all);
    auto const sum = magnitude * static_cast<accumulator_t<T>>(more);
    return r == reduce_op::mean ? sum / static_cast<accumulator_t<T>>(all) : sum;
  }
  HCOMP_HD static constexpr int words_of(int n) { return (n + 63) / 64; }
  HCOMP_HD static constexpr std::size_t bytes_of(int n, int planes) {
    return block_header_bytes + static_cast<std::size_t>(words_of(n) * planes) * 8;
  }
  /// Words are ordered by plane: each plane of a block is contiguous.
  HCOMP_HD static constexpr std::size_t word_at(int n, int plane, int word) {
    return static_cast<std::size_t>(plane * words_of(n) + word);
  }
};

}  // namespace hcomp
