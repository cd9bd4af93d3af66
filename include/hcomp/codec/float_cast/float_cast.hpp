#pragma once
/// @file
/// Values sent as they are or in a narrower float: the exact baseline and the 2x codec.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/wire_kinds.hpp>
#include <limits>
#include <type_traits>

namespace hcomp {
namespace detail {

template <class Wire> struct wire_float;
template <> struct wire_float<float> {
  static constexpr char const* name = "float_cast:fp32";
  static constexpr std::uint8_t wire_kind = wire_kinds::float32;
};
template <> struct wire_float<double> {
  static constexpr char const* name = "float_cast:fp64";
  static constexpr std::uint8_t wire_kind = wire_kinds::float64;
};
template <> struct wire_float<float16> {
  static constexpr char const* name = "float_cast:fp16";
  static constexpr std::uint8_t wire_kind = wire_kinds::float16;
};
template <> struct wire_float<bfloat16> {
  static constexpr char const* name = "float_cast:bf16";
  static constexpr std::uint8_t wire_kind = wire_kinds::bfloat16;
};

}  // namespace detail

/// Values of type T sent as Wire; merging adds in float (double for double) and rounds to Wire.
///
/// Error of one value: half a unit in the last place of Wire, and as much again per merge; none if
/// Wire is T and one rank holds all. Not exact in sum: float addition depends on the order.
/// fp16 overflows to infinity above 65504, in input or sum; such blocks count as non-finite.
/// NaN and infinity pass through as in plain addition, whatever the policy says of other codecs.
/// Size: sizeof(Wire) per value and 32 bytes per 4096 values.
template <class Wire, class T = float> struct float_cast {
  using value_type = detail::value_t<T>;
  using wire_type = detail::value_t<Wire>;
  static constexpr char const* name =
      std::is_same_v<Wire, T> ? "identity" : detail::wire_float<wire_type>::name;
  static constexpr std::uint8_t wire_kind = detail::wire_float<wire_type>::wire_kind;
  static constexpr int block_values = 4096;
  static constexpr bool sum_is_exact = false;
  static constexpr bool passes_nonfinite = true;

  static constexpr std::array<double, 0> parameters() { return {}; }

  static constexpr std::size_t block_bytes(int n = block_values) {
    return block_header_bytes + static_cast<std::size_t>(n) * sizeof(Wire);
  }
  static constexpr std::uint32_t max_summands() {
    return std::numeric_limits<std::uint32_t>::max();
  }

  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    bool finite = true;
    if constexpr (has_vectors<Group> && std::is_same_v<T, float>) {
      auto const weight = static_cast<float>(origin.weight);
      finite = !run_at(best_simd_level(), detail::encode_floats<Wire, Source>{
                                              x, n, weight, block + block_header_bytes});
    } else {
      for (int i = group.worker(); i < n; i += Group::workers) {
        auto const value = static_cast<sum_type>(x[i]) * static_cast<sum_type>(origin.weight);
        finite &= is_finite(put(block, i, value));
      }
    }
    if (!finite) unify_nans(group, block, n);
    bool const nonfinite = group.any(!finite);
    if (group.worker() == 0) store_aligned(block, 0, make_header(wire_kind, n, nonfinite, origin));
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    bool finite = true;
    merge_checked<float_cast>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      if constexpr (has_vectors<Group>) {
        finite = !run_at(best_simd_level(),
                         detail::merge_floats<Wire>{acc + block_header_bytes,
                                                    in + block_header_bytes, mine.values});
      } else {
        for (int i = group.worker(); i < mine.values; i += Group::workers)
          finite &= is_finite(put(acc, i, get(acc, i) + get(in, i)));
      }
      if (!finite) unify_nans(group, acc, mine.values);
    });
    bool const nonfinite = group.any(!finite);
    if (nonfinite && group.worker() == 0) {
      auto header = load_aligned<block_header>(acc);
      header.flags |= block_has_nonfinite;
      store_aligned(acc, 0, header);
    }
    group.sync();
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduction r) const {
    auto const whole = static_cast<sum_type>(load_aligned<block_header>(block).weight);
    if constexpr (has_vectors<Group> && std::is_same_v<Out, float>) {
      float const divisor = r == reduction::mean ? whole : 1;
      run_at(best_simd_level(),
             detail::decode_floats<Wire>{block + block_header_bytes, n, divisor, x});
    } else {
      for (int i = group.worker(); i < n; i += Group::workers)
        x[i] = static_cast<Out>(r == reduction::mean ? get(block, i) / whole : get(block, i));
    }
    group.sync();
  }

 private:
  using sum_type = accumulator_t<std::conditional_t<std::is_same_v<Wire, double>, double, T>>;
  /// The fast path is there: sums in float, on a CPU.
#if defined(__CUDA_ARCH__)  // nvcc looks at a .cu file's host code once more as device code
  template <class Group> static constexpr bool has_vectors = false;
#else
  template <class Group>
  static constexpr bool has_vectors =
      std::is_same_v<Group, simd_group>&& std::is_same_v<sum_type, float>;
#endif

  HCOMP_HD static sum_type get(std::byte const* block, int i) {
    return static_cast<sum_type>(
        load_aligned<Wire>(block + block_header_bytes, static_cast<std::size_t>(i)));
  }
  /// Returns what a receiver will read.
  HCOMP_HD static sum_type put(std::byte* block, int i, sum_type value) {
    Wire const wire = static_cast<Wire>(value);
    store_aligned(block + block_header_bytes, static_cast<std::size_t>(i), wire);
    return static_cast<sum_type>(wire);
  }
  /// Makes this worker's NaNs one NaN: which of two survives an addition depends on their order and
  /// on the processor.
  template <class Group> HCOMP_HD static void unify_nans(Group group, std::byte* block, int n) {
    constexpr sum_type nan = std::numeric_limits<sum_type>::quiet_NaN();
    for (int i = group.worker(); i < n; i += Group::workers)
      if (auto const value = get(block, i); value != value) put(block, i, nan);
  }
};

}  // namespace hcomp
