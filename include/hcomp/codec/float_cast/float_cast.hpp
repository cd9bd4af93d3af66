#pragma once
/// @file
/// Codec `float_cast`: values sent unchanged or as a narrower float, the exact baseline and the 2x
/// codec.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/detail/four_values.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>
#include <limits>
#include <type_traits>

namespace hcomp {
namespace detail {

template <class Wire> struct wire_float;
template <> struct wire_float<float> {
  static constexpr char const* name = "float_cast:fp32";
  static constexpr std::uint8_t codec_id = codec_ids::float32;
};
template <> struct wire_float<double> {
  static constexpr char const* name = "float_cast:fp64";
  static constexpr std::uint8_t codec_id = codec_ids::float64;
};
template <> struct wire_float<float16> {
  static constexpr char const* name = "float_cast:fp16";
  static constexpr std::uint8_t codec_id = codec_ids::float16;
};
template <> struct wire_float<bfloat16> {
  static constexpr char const* name = "float_cast:bf16";
  static constexpr std::uint8_t codec_id = codec_ids::bfloat16;
};

}  // namespace detail

/// Values of type T sent as Wire. Merging adds in float (double for double) and rounds to Wire.
///
/// Error of one value: half a unit in the last place of Wire, plus the same per merge, or once for
/// all merges of a `wide_sum`. The error is zero if Wire is T and one rank holds all values.
/// `sum_is_exact` is false: float addition depends on the order. fp16 overflows to infinity above
/// 65504, in input or sum; such blocks count as non-finite.
///
/// NaN and infinity propagate as in plain addition, independent of the nonfinite_policy of other
/// codecs.
/// Size: sizeof(Wire) per value and 32 bytes per 4096 values.
template <class Wire, class T = float> class float_cast {
  /// The type of a sum.
  using sum_type = accumulator_t<std::conditional_t<std::is_same_v<Wire, double>, double, T>>;
  static constexpr bool sums_are_wider = sizeof(sum_type) > sizeof(Wire);

 public:
  using value_type = detail::value_t<T>;
  using wire_type = detail::value_t<Wire>;
  static constexpr char const* name =
      std::is_same_v<Wire, T> ? "identity" : detail::wire_float<wire_type>::name;
  static constexpr std::uint8_t codec_id = detail::wire_float<wire_type>::codec_id;
  static constexpr int block_values = 4096;
  static constexpr bool sum_is_exact = false;
  static constexpr bool passes_nonfinite = true;

  static constexpr std::array<double, 0> parameters() { return {}; }
  static constexpr bool is_lossless() { return std::is_same_v<Wire, T>; }

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
    std::byte* const to = block + block_header_bytes;
    if constexpr (has_vectors<Group> && std::is_same_v<T, float>) {
      auto const weight = static_cast<float>(origin.weight);
      finite = !run_at(best_simd_level(), detail::encode_floats<Wire, Source>{x, n, weight, to});
      if (!finite) unify_nans(to, n);
    } else {
      auto const weight = static_cast<sum_type>(origin.weight);
      for_values(
          group, n, detail::has_fours(x) && fours::can_be_at(to),
          [&](std::size_t i) { return detail::four_of(x, i); },
          [&](std::size_t i, auto const& four) {
            finite &= put(to, i, [&](int j) { return static_cast<sum_type>(four[j]) * weight; });
          },
          [&](int i) { finite &= put(to, i, static_cast<sum_type>(x[i]) * weight); });
    }
    bool const nonfinite = group.any(!finite);
    if (group.worker() == 0) store_aligned(block, 0, make_header(codec_id, n, nonfinite, origin));
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    bool finite = true;
    merge_checked<float_cast>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      std::byte* const sums = acc + block_header_bytes;
      finite = add<Wire, Wire>(group, sums, in + block_header_bytes, sums, mine.values);
    });
    note_whether(group, acc, finite);
  }

  static constexpr std::size_t wide_bytes(int n) requires(sums_are_wider) {
    return static_cast<std::size_t>(n) * sizeof(sum_type);
  }
  template <class Group>
  HCOMP_HD void merge_wide(Group group, std::byte* acc, std::byte const* in,
                           wide_sum const& wide) const requires(sums_are_wider) {
    bool finite = true;
    merge_checked<float_cast>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      if (mine.flags & block_is_damaged) return;  // then `wide` may never have been written
      std::byte* const sums = acc + block_header_bytes;
      std::byte const* const more = in + block_header_bytes;
      int const n = mine.values;
      if (wide.starts && wide.ends)
        finite = add<Wire, Wire>(group, sums, more, sums, n);
      else if (wide.starts)
        add<Wire, sum_type>(group, sums, more, wide.values, n);
      else if (wide.ends)
        finite = add<sum_type, Wire>(group, wide.values, more, sums, n);
      else
        add<sum_type, sum_type>(group, wide.values, more, wide.values, n);
    });
    note_whether(group, acc, finite);
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    auto const whole = static_cast<sum_type>(load_aligned<block_header>(block).weight);
    std::byte const* const from = block + block_header_bytes;
    if constexpr (has_vectors<Group> && std::is_same_v<Out, float>) {
      float const divisor = r == reduce_op::mean ? whole : 1;
      run_at(best_simd_level(), detail::decode_floats<Wire>{from, n, divisor, x});
    } else {
      auto const decoded = [&](Wire wire) {
        auto const sum = detail::converted<sum_type>(wire);
        return detail::converted<Out>(r == reduce_op::mean ? detail::divided(sum, whole) : sum);
      };
      for_values(
          group, n, fours::can_be_at(from) && detail::four_values<Out>::can_be_at(x),
          [&](std::size_t i) { return fours::at(from + i * sizeof(fours)); },
          [&](std::size_t i, fours const& four) {
            detail::four_values<Out>::of([&](int j) { return decoded(four[j]); }).put(x + 4 * i);
          },
          [&](int i) { x[i] = decoded(load_aligned<Wire>(from, static_cast<std::size_t>(i))); });
    }
    group.sync();
  }

 private:
  /// Whether the vectorized implementation applies: on a CPU, with float as the type of the sum.
#if defined(__CUDA_ARCH__)  // nvcc compiles the host code of a .cu file as device code, too
  template <class Group> static constexpr bool has_vectors = false;
#else
  template <class Group>
  static constexpr bool has_vectors =
      std::is_same_v<Group, simd_group>&& std::is_same_v<sum_type, float>;
#endif

  using fours = detail::four_values<Wire>;

  /// Workers in warps call use(i, load(i)) for the values 4 i to 4 i + 3 if groups of four can be
  /// loaded at once. The remaining values use one(i).
  template <class Group, class Load, class Use, class One>
  HCOMP_HD static void for_values(Group group, int n, [[maybe_unused]] bool have_fours,
                                  [[maybe_unused]] Load const& load,
                                  [[maybe_unused]] Use const& use, One const& one) {
    int first = 0;
    if constexpr (HasWarps<Group>) {
      unsigned const count = have_fours ? static_cast<unsigned>(n) / 4 : 0;
      detail::for_each_loaded<4>(
          group, count,
          [&](unsigned i, unsigned k) { return load(std::size_t{i + k * Group::workers}); },
          [&](unsigned i, unsigned k, auto const& four) {
            use(std::size_t{i + k * Group::workers}, four);
          });
      first = static_cast<int>(4 * count);
    }
    for (int i = first + group.worker(); i < n; i += Group::workers) one(i);
  }

  /// Stores `acc`, n values of type From, plus `in` in `to`, as values of type To. Returns whether
  /// this worker's sums are finite.
  /// @param to  may be `acc`
  template <class From, class To, class Group>
  HCOMP_HD static bool add(Group group, std::byte const* acc, std::byte const* in, std::byte* to,
                           int n) {
    bool finite = true;
    if constexpr (has_vectors<Group>) {
      finite = !run_at(best_simd_level(), detail::merge_floats<Wire, From, To>{acc, in, to, n});
      if (!finite) unify_nans<To>(to, n);
    } else {
      using four_from = detail::four_values<From>;
      struct pair {
        four_from mine;
        fours other;
      };
      for_values(
          group, n,
          four_from::can_be_at(acc) && fours::can_be_at(in) &&
              detail::four_values<To>::can_be_at(to),
          [&](std::size_t i) {
            return pair{four_from::at(acc + i * sizeof(four_from)),
                        fours::at(in + i * sizeof(fours))};
          },
          [&](std::size_t i, pair const& both) {
            finite &= put<To>(to, i, [&](int j) {
              return static_cast<sum_type>(both.mine[j]) + static_cast<sum_type>(both.other[j]);
            });
          },
          [&](int i) { finite &= put<To>(to, i, get<From>(acc, i) + get(in, i)); });
    }
    return finite;
  }
  /// Sets the block's flag if a worker has met a sum that is not finite.
  template <class Group>
  HCOMP_HD static void note_whether(Group group, std::byte* block, bool finite) {
    bool const nonfinite = group.any(!finite);
    if (nonfinite && group.worker() == 0) {
      auto header = load_aligned<block_header>(block);
      header.flags |= block_has_nonfinite;
      store_aligned(block, 0, header);
    }
    group.sync();
  }

  template <class From = Wire> HCOMP_HD static sum_type get(std::byte const* values, int i) {
    return static_cast<sum_type>(load_aligned<From>(values, static_cast<std::size_t>(i)));
  }
  /// Canonicalizes NaN: the NaN that survives an addition depends on operand order and processor.
  template <class To> HCOMP_HD static To rounded(sum_type value) {
    return detail::converted<To>(detail::with_one_nan(value));
  }
  /// Stores the value; returns whether the stored value is finite.
  template <class To = Wire> HCOMP_HD static bool put(std::byte* values, int i, sum_type value) {
    To const stored = rounded<To>(value);
    store_aligned(values, static_cast<std::size_t>(i), stored);
    return is_finite(static_cast<sum_type>(stored));
  }
  /// Stores value(j) as value 4 i + j, for j = 0 to 3.
  template <class To = Wire, class F>
  HCOMP_HD static bool put(std::byte* values, std::size_t i, F const& value) {
    auto const four = detail::four_values<To>::of([&](int j) { return rounded<To>(value(j)); });
    four.put(values + i * sizeof(four));
    bool finite = true;
    HCOMP_UNROLL
    for (int j = 0; j < 4; ++j) finite &= is_finite(static_cast<sum_type>(four[j]));
    return finite;
  }
  /// Canonicalizes the NaNs among values that vector instructions stored.
  template <class To = Wire> static void unify_nans(std::byte* values, int n) {
    for (int i = 0; i < n; ++i)
      if (auto const value = get<To>(values, i); value != value) put<To>(values, i, value);
  }
};

}  // namespace hcomp
