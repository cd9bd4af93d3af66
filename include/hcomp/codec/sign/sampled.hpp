#pragma once
/// @file
/// Marsit's one-bit all-reduce as a bitwise OR, for any MPI library and for switches with
/// in-network reduction.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sign/detail/sampling_lots.hpp>
#include <hcomp/codec/sign/detail/sampling_tree.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Every rank keeps only the sign bits that the shared draws assign to it. The OR over all ranks is
/// one rank's sign per value, drawn with probability weight / total weight.
///
/// The distribution equals that of codec `sign`. With up to 10 ranks, the bits equal those of
/// `sign` merged along the balanced tree of ranks. The reduction is exact in any order and needs
/// neither headers nor a user-defined op:
/// `MPI_Allreduce(MPI_IN_PLACE, lanes, n, MPI_UINT64_T, MPI_BOR, comm)`.
///
/// NaN counts as negative. Size: 1 bit per value, rounded up to 64.
/// Source: Wu et al., Marsit, DAC 2022. By induction over its merges, the surviving bit of any
/// merge tree is the bit of one rank drawn by weight.
template <class T = float> struct sampled_sign {
  using value_type = detail::value_t<T>;
  using lane_type = std::uint64_t;
  static constexpr char const* name = "sampled_sign";
  static constexpr native_operation operation = native_operation::bit_or;

  std::uint32_t rank = 0;              ///< this rank
  std::vector<std::uint32_t> weights;  ///< of all ranks, each >= 1; equal on all ranks
  accumulator_t<T> magnitude = 1;      ///< decoded magnitude of one sign (mean)

  static constexpr std::size_t lanes(std::size_t values) { return (values + 63) / 64; }

  /// @param key  philox_key(draw_key), equal on all ranks
  /// @throws std::invalid_argument  wrong number of lanes, rank without weight, over 1024 ranks
  void encode_lanes(std::span<T const> x, std::span<lane_type> out, std::uint64_t key) const {
    require_lanes(x.size(), out.size());
    detail::sampling::require_ranks(name, weights.size());
    if (rank >= weights.size())
      throw std::invalid_argument(
          detail::error_text({name, ": rank ", rank, " of ", weights.size(), " ranks"}));
    auto* const bits = reinterpret_cast<std::byte*>(out.data());
    for (std::size_t first = 0; first < x.size(); first += sign<T>::block_values) {
      int const n =
          static_cast<int>(std::min<std::size_t>(sign<T>::block_values, x.size() - first));
      detail::sign::pack_signs(simd_group{}, x.data() + first, n, bits + first / 8);
    }
    if (weights.size() > detail::sampling::most_by_masks) return keep_by_lots(out, key);
    auto const tree = detail::sampling::tree_of(weights);
    for (std::size_t first = 0; first < out.size(); first += 1 << 20) {
      int const count = static_cast<int>(std::min<std::size_t>(1 << 20, out.size() - first));
      detail::sampling::for_tiles(simd_group{}, tree, weights.size(), count, first, key,
                                  [&](int word, int tile, auto const& mask_of) {
                                    auto const* const mine =
                                        reinterpret_cast<std::uint64_t const*>(mask_of(rank));
                                    for (int w = 0; w < tile; ++w)
                                      out[first + static_cast<std::size_t>(word + w)] &= mine[w];
                                  });
    }
  }

  /// Decodes to x = +magnitude or -magnitude.
  void decode_lanes(std::span<lane_type const> reduced, std::span<T> x,
                    std::uint64_t /*key*/ = 0) const {
    require_lanes(x.size(), reduced.size());
    auto const* const bits = reinterpret_cast<std::byte const*>(reduced.data());
    for (std::size_t first = 0; first < x.size(); first += sign<T>::block_values) {
      int const n =
          static_cast<int>(std::min<std::size_t>(sign<T>::block_values, x.size() - first));
      detail::sign::unpack_signs(simd_group{}, bits + first / 8, n, static_cast<T>(magnitude),
                                 x.data() + first);
    }
  }

 private:
  void keep_by_lots(std::span<lane_type> out, std::uint64_t key) const {
    auto const cells = detail::sampling::cells_of(weights);
    auto const lots = detail::sampling::lots_of(cells, weights.size());
    constexpr std::size_t most = 64;
    std::array<std::uint16_t, most * 64> drawn;
    for (std::size_t first = 0; first < out.size(); first += most) {
      std::size_t const count = std::min(most, out.size() - first);
      detail::sampling::draw_owners(simd_group{}, lots, first, static_cast<int>(count), key,
                                    drawn.data());
      for (std::size_t w = 0; w < count; ++w) {
        std::uint64_t mine = 0;
        for (std::size_t i = 0; i < 64; ++i) mine |= std::uint64_t{drawn[w * 64 + i] == rank} << i;
        out[first + w] &= mine;
      }
    }
  }
  static void require_lanes(std::size_t values, std::size_t given) {
    if (given != lanes(values))
      throw std::invalid_argument(detail::error_text(
          {name, ": ", given, " lanes for ", values, " values, ", lanes(values), " are needed"}));
  }
};

static_assert(NativeSum<sampled_sign<>>);

}  // namespace hcomp
