#pragma once
/// @file
/// Sums of floats whose bits depend on the summands alone: not on ranks, order, algorithm or MPI.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/reproducible/detail/bins.hpp>
#include <hcomp/codec/reproducible/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/half.hpp>
#include <type_traits>

namespace hcomp {

/// Reproducible sums: the same summands give the same bits, however they are shared out.
///
/// A value of the sum depends on the numbers added in its place, as a set with repetitions, and on
/// nothing else: not on how many ranks hold them, their order, zeros beside them, the algorithm, the
/// MPI library, the machine, or on other values of the vector. A rank of weight w counts as w
/// ranks. Several summands of one rank are encoded one by one; what floats add before is theirs.
///
/// Error of a sum of P numbers: half a unit in its last place, and P - 1 times 2^-26 of the largest
/// summand, with doubles 2^-54; only summands below the largest one add to it. Of one number none.
/// Denormals count as they are. A sum is never -0. Means are sums divided once.
/// A sum beyond the largest value is an overflow only if it is one in the end.
/// NaN and infinity pass through as in plain addition.
/// Size: 12 bytes per value, 16 of doubles, and 64 bytes per 4096 values; up to 32767 summands,
/// 8191 of doubles. Values of 16 bits are summed as floats.
/// Source: Demmel and Nguyen, IEEE Trans. Computers 64 (2015) 2060-2070; see detail/bins.hpp.
template <class T = float> struct reproducible {
  using value_type = detail::value_t<T>;
  using sum_type = accumulator_t<value_type>;  ///< float or double
  static constexpr char const* name = "reproducible";
  static constexpr std::uint8_t codec_id = std::is_same_v<sum_type, float>
                                               ? codec_ids::reproducible_float
                                               : codec_ids::reproducible_double;
  static constexpr int block_values = 4096;
  static constexpr bool sum_is_exact = true;  // in its bytes: no order shows
  static constexpr bool passes_nonfinite = true;

  static constexpr std::array<double, 0> parameters() { return {}; }

  static constexpr std::size_t block_bytes(int n = block_values) {
    return tiles_at + detail::binned::tiles_bytes<sum_type>(n);
  }
  static constexpr std::uint32_t max_summands() { return format::most_summands; }

  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    std::uint32_t place = 0;
    bool finite = true, done = false;
    if constexpr (has_vectors<Group> && std::is_same_v<T, sum_type>)
      if (origin.weight == 1) {
        place = run_at(best_simd_level(),
                       detail::encode_bins<sum_type, Source>{x, n, block + tiles_at});
        done = place <= format::highest;
      }
    if (!done) place = encode_values(group, x, n, block + tiles_at, origin.weight, finite);
    bool const nonfinite = group.any(!finite);
    place = largest_of_all(group, place);
    if (group.worker() == 0) {
      store_aligned(block, 0, make_header(codec_id, n, nonfinite, origin));
      store_aligned(block + block_header_bytes, 0, preface{place});
    }
    group.sync();
  }

  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    merge_checked<reproducible>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      if (group.worker() == 0)
        if (auto const other = preface_of(in); other.place > preface_of(acc).place)
          store_aligned(acc + block_header_bytes, 0, other);
      std::byte* const sums = acc + tiles_at;
      std::byte const* const more = in + tiles_at;
      if constexpr (has_vectors<Group>) {
        run_at(best_simd_level(), detail::merge_bins<sum_type>{sums, more, mine.values});
      } else {
        for (int i = group.worker(); i < values_in_tiles(mine.values); i += Group::workers) {
          auto sum = detail::binned::get<sum_type>(sums, i);
          detail::binned::add(sum, detail::binned::get<sum_type>(more, i));
          detail::binned::put<sum_type>(sums, i, sum);
        }
      }
    });
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    sum_type const divisor = divisor_of(block, r);
    bool done = false;
    if constexpr (has_vectors<Group> && exact_vectors && std::is_same_v<Out, sum_type>)
      done =
          run_at(best_simd_level(), detail::decode_bins<sum_type>{block + tiles_at, n, divisor, x});
    if (!done)
      for (int i = group.worker(); i < n; i += Group::workers)
        x[i] = static_cast<Out>(value_at(block, i, divisor));
    group.sync();
  }

  HCOMP_HD double largest_decoded(std::byte const* block, int, reduce_op) const {
    // of the sum: means are made of it
    return detail::binned::largest_at<sum_type>(preface_of(block).place,
                                                load_aligned<block_header>(block).weight);
  }
  template <class Group>
  HCOMP_HD bool stays_finite(Group group, std::byte const* block, int n, reduce_op r) const {
    bool finite = true;
    sum_type const divisor = divisor_of(block, r);
    for (int i = group.worker(); i < n; i += Group::workers)
      finite &= is_finite(static_cast<sum_type>(static_cast<T>(value_at(block, i, divisor))));
    return !group.any(!finite);
  }

 private:
  using format = detail::binned::format<sum_type>;

  /// Between header and sums, so that those lie at multiples of 64 bytes from the block's start.
  struct preface {
    std::uint32_t place = 0;  ///< the highest of a finite value of any rank
    std::uint32_t nothing[7] = {};
  };
  static constexpr std::size_t tiles_at = block_header_bytes + sizeof(preface);

  /// The fast path is there: on a CPU.
#if defined(__CUDA_ARCH__)  // nvcc looks at a .cu file's host code once more as device code
  template <class Group> static constexpr bool has_vectors = false;
#else
  template <class Group> static constexpr bool has_vectors = std::is_same_v<Group, simd_group>;
#endif

  /// Vectors of doubles are decoded by sums of floats that must not be reordered.
#if defined(__FAST_MATH__)
  static constexpr bool exact_vectors = false;
#else
  static constexpr bool exact_vectors = true;
#endif

  HCOMP_HD static preface preface_of(std::byte const* block) {
    return load_aligned<preface>(block + block_header_bytes);
  }
  HCOMP_HD static constexpr int values_in_tiles(int n) {
    constexpr int tile = detail::binned::tile_values;
    return (n + tile - 1) / tile * tile;
  }
  /// Returns the highest place of this worker's finite values; `finite` is that all of them are.
  template <class Group, class Source>
  HCOMP_HD static std::uint32_t encode_values(Group group, Source const& x, int n, std::byte* sums,
                                              std::uint32_t weight, bool& finite) {
    std::uint32_t highest = 0;
    for (int i = group.worker(); i < values_in_tiles(n); i += Group::workers) {
      auto const value = i < n ? static_cast<sum_type>(x[i]) : sum_type{0};
      auto const sum = detail::binned::sum_of(value, weight);
      detail::binned::put<sum_type>(sums, i, sum);
      if (sum.place == format::nonfinite)
        finite = false;
      else if (sum.place > highest)
        highest = sum.place;
    }
    return highest;
  }
  template <class Group>
  HCOMP_HD static std::uint32_t largest_of_all(Group group, std::uint32_t value) {
    if constexpr (Group::workers == 1) return value;
    std::uint32_t largest = 0;
    for (std::uint32_t bit = 64; bit != 0; bit /= 2)
      if (group.any(value >= largest + bit)) largest += bit;
    return largest;
  }
  HCOMP_HD static sum_type divisor_of(std::byte const* block, reduce_op r) {
    return r == reduce_op::mean ? static_cast<sum_type>(load_aligned<block_header>(block).weight)
                                : 1;
  }
  HCOMP_HD static sum_type value_at(std::byte const* block, int i, sum_type divisor) {
    auto const sum =
        detail::binned::value_of<sum_type>(detail::binned::get<sum_type>(block + tiles_at, i));
    return divisor != 1 ? sum / divisor : sum;
  }
};

}  // namespace hcomp
