#pragma once
/// @file
/// Built-in reductions as codecs: hcomp's own collectives add lanes or combine them by OR, over any
/// transport.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <limits>

namespace hcomp {

/// Unsigned integers sent unchanged. Merging adds them modulo 2^bits, or combines them by bitwise
/// OR.
///
///     hcomp::plan plan(count, hcomp::native_lanes<std::uint32_t>{}, transport, executor);
///     plan.all_reduce(lanes);
///
/// A sum multiplies the lanes by the rank's weight. Its mean is the sum divided by the total
/// weight, rounded down; it is wrong if a sum wrapped around. An OR ignores the weight, and its
/// mean is the OR.
/// Size: sizeof(T) per lane and 32 bytes per 16 KiB.
/// @tparam T  std::uint32_t or std::uint64_t
template <class T, native_operation Operation = native_operation::sum>
  requires std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>
struct native_lanes {
  using value_type = T;
  static constexpr native_operation operation = Operation;
  static constexpr bool is_sum = Operation == native_operation::sum;
  static constexpr char const* name = is_sum ? "native_lanes:sum" : "native_lanes:bit_or";
  static constexpr std::uint8_t codec_id =
      sizeof(T) == 4 ? (is_sum ? codec_ids::sum_of_32 : codec_ids::or_of_32)
                     : (is_sum ? codec_ids::sum_of_64 : codec_ids::or_of_64);
  static constexpr int block_values = 16384 / sizeof(T);
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = true;  // integers have no NaN or infinity

  static constexpr std::array<double, 0> parameters() { return {}; }
  static constexpr bool is_lossless() { return true; }
  static constexpr std::size_t block_bytes(int n = block_values) {
    return block_header_bytes + static_cast<std::size_t>(n) * sizeof(T);
  }
  static constexpr std::uint32_t max_summands() {
    return std::numeric_limits<std::uint32_t>::max();
  }

  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    T const weight = is_sum ? origin.weight : 1;
    for (int i = group.worker(); i < n; i += Group::workers) put(block, i, x[i] * weight);
    if (group.worker() == 0) store_aligned(block, 0, make_header(codec_id, n, false, origin));
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    merge_checked<native_lanes>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      for (int i = group.worker(); i < mine.values; i += Group::workers)
        put(acc, i, is_sum ? get(acc, i) + get(in, i) : get(acc, i) | get(in, i));
    });
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    T const whole = is_sum && r == reduce_op::mean ? load_aligned<block_header>(block).weight : 1;
    for (int i = group.worker(); i < n; i += Group::workers)
      x[i] = static_cast<Out>(whole == 1 ? get(block, i) : get(block, i) / whole);
    group.sync();
  }

 private:
  HCOMP_HD static T get(std::byte const* block, int i) {
    return load_aligned<T>(block + block_header_bytes, static_cast<std::size_t>(i));
  }
  HCOMP_HD static void put(std::byte* block, int i, T lane) {
    store_aligned(block + block_header_bytes, static_cast<std::size_t>(i), lane);
  }
};

namespace detail {
template <class Lane> struct codec_of_lanes { using type = native_lanes<Lane>; };
template <> struct codec_of_lanes<float> { using type = identity<float>; };
}  // namespace detail

/// The codec that adds lanes of type float, std::uint32_t or std::uint64_t.
template <class Lane> using lane_sum = typename detail::codec_of_lanes<Lane>::type;

static_assert(HomomorphicSum<native_lanes<std::uint64_t, native_operation::bit_or>>);

}  // namespace hcomp
