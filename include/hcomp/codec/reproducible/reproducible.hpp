#pragma once
/// @file
/// Codec `reproducible`: sums of floats whose bits depend only on the summands, not on ranks,
/// order, algorithm or MPI library.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/reproducible/detail/bins.hpp>
#include <hcomp/codec/reproducible/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/half.hpp>
#include <type_traits>

namespace hcomp {

/// Reproducible sums: the same summands give the same bits, for every distribution over the ranks.
///
/// A value of the sum depends only on the multiset of numbers added at its index. It does not
/// depend on the number of ranks, their order, additional zeros, the algorithm, the MPI library,
/// the machine, or other values of the vector. A rank of weight w counts as w ranks. If a rank has
/// several summands, encode each separately; a float sum made before encoding is not reproducible.
///
/// Error of a sum of P numbers: half a unit in its last place, plus P - 1 times 2^-26 (2^-54 for
/// doubles) of the largest summand; only summands below the largest one contribute to it. A single
/// number has no error. Denormals count fully. A sum is never -0. A mean is the sum divided once. A
/// sum beyond the largest value overflows only if the final result does. NaN and infinity propagate
/// as in plain addition.
///
/// Size: 12 bytes per value (16 for doubles) and 64 bytes per 4096 values. At most 32767 summands
/// (8191 for doubles). 16-bit values are summed as floats.
/// Source: Demmel and Nguyen, IEEE Trans. Computers 64 (2015) 2060-2070; see detail/bins.hpp.
template <class T = float> struct reproducible {
  using value_type = detail::value_t<T>;
  using sum_type = accumulator_t<value_type>;  ///< float or double
  static constexpr char const* name = "reproducible";
  static constexpr std::uint8_t codec_id = std::is_same_v<sum_type, float>
                                               ? codec_ids::reproducible_float
                                               : codec_ids::reproducible_double;
  static constexpr int block_values = 4096;
  static constexpr bool sum_is_exact = true;  // in its bytes, for every order
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
    // bound of the sum: a mean is computed from it
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

  /// Follows the header, and aligns the tiles to multiples of 64 bytes from the block's start.
  struct preface {
    std::uint32_t place = 0;  ///< the highest place of a finite value of any rank
    std::uint32_t nothing[7] = {};
  };
  static constexpr std::size_t tiles_at = block_header_bytes + sizeof(preface);

  /// Whether the vectorized implementation applies: on a CPU.
#if defined(__CUDA_ARCH__)  // nvcc compiles the host code of a .cu file as device code, too
  template <class Group> static constexpr bool has_vectors = false;
#else
  template <class Group> static constexpr bool has_vectors = std::is_same_v<Group, simd_group>;
#endif

  /// Vectorized decoding of doubles uses float sums that the compiler must not reorder.
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
  /// Returns the highest place of this worker's finite values; clears `finite` at NaN or infinity.
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
    return divisor != 1 ? detail::divided(sum, divisor) : sum;
  }
};

}  // namespace hcomp
