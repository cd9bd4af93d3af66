#pragma once
/// @file
/// THC as bare arrays of small integers, for any MPI library and for in-network aggregation.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp {

/// Codec `thc` or `uniform_thc` without headers: weight times level of every coordinate, in lanes
/// that `MPI_Allreduce(MPI_UINT8_T, MPI_SUM)` adds. The mean has the same bits as a plan with full
/// blocks and the same codec and key.
///
///     hcomp::thc_lanes<> sum(hcomp::fit(hcomp::thc{}, ranks), rank, ranks);
///     hcomp::mpi::all_reduce_native(sum, x, {.seed = 1, .step = t}, lanes, comm);  // x: the mean
///
/// The norms are reduced first, as maxima of 32-bit words: MPI_UINT32_T and MPI_MAX.
/// @tparam Lane  std::uint8_t or std::uint16_t, according to the codec's lane_bytes()
/// Size: one lane per value, with the last transform padded, plus 4 bytes per transform.
/// Source: Li et al., THC, NSDI 2024.
template <class Lane = std::uint8_t, class C = thc<float>> class thc_lanes {
 public:
  using value_type = typename C::value_type;
  using lane_type = Lane;
  static constexpr char const* name = "thc_lanes";
  static constexpr native_operation operation = native_operation::sum;

  /// @param codec         fitted to the total weight
  /// @param rank          number of this rank, for its random draws
  /// @param total_weight  of all ranks
  /// @param weight        of this rank
  /// @throws std::invalid_argument  wrong lane size, or lanes too small for the total weight
  thc_lanes(C const& codec, std::uint32_t rank, std::uint32_t total_weight,
            std::uint32_t weight = 1)
      : codec_(codec), rank_(rank), weight_(weight), total_weight_(total_weight) {
    if (codec.lane_bytes() != static_cast<int>(sizeof(Lane)))
      throw std::invalid_argument(
          detail::error_text({name, ": lanes of ", sizeof(Lane), " bytes, codec '", C::name,
                              "' needs ", codec.lane_bytes()}));
    if (weight == 0 || weight > total_weight || total_weight > codec.max_summands())
      throw std::invalid_argument(detail::error_text(
          {name, ": weight ", weight, " of ", total_weight, ", codec '", C::name, "' holds 1 to ",
           codec.max_summands(), "; fit it with the total weight"}));
  }

  C const& codec() const { return codec_; }

  /// Number of lanes of `values` values, including those that pad the last transform.
  std::size_t lanes(std::size_t values) const {
    auto const layout = layout_of(codec_, values);
    if (values == 0) return 0;
    std::size_t const last = layout.blocks() - 1;
    return last * C::block_values +
           static_cast<std::size_t>(codec_.coordinates(layout.values_in(last)));
  }

  /// This rank's norms; the last word is 1 if x has NaN or infinity.
  std::vector<std::uint32_t> measure(std::span<value_type const> x) const {
    auto const layout = layout_of(codec_, x.size());
    std::vector<std::uint32_t> words(statistics_words(codec_, layout) + 1);
    measure_blocks<C, value_type const*> const work{codec_, layout, x.data(), words.data()};
    for (std::size_t b = 0; b < layout.blocks(); ++b) work(simd_group{}, b);
    words.back() = std::any_of(x.begin(), x.end(), [](value_type value) {
      return !std::isfinite(static_cast<accumulator_t<value_type>>(value));
    });
    return words;
  }
  /// @param words  elementwise maximum over all ranks
  /// @throws nonfinite_error  some rank has NaN or infinity; on all ranks
  void calibrate(std::vector<std::uint32_t> words) {
    if (words.empty() || words.back() != 0)
      throw nonfinite_error(
          detail::error_text({name, ": NaN or infinity on some rank; x is unchanged"}));
    words.pop_back();
    norms_ = std::move(words);
  }

  /// @throws std::invalid_argument  not calibrated for x.size() values, or `out` has the wrong size
  void encode_lanes(std::span<value_type const> x, std::span<Lane> out, std::uint64_t key) const {
    auto const layout = require(x.size(), out.size());
    auto const levels = codec_.levels();
    std::array<std::uint8_t, C::block_values> indices;
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      int const n = layout.values_in(b);
      codec_.encode_indices(simd_group{}, x.data() + b * C::block_values, n, indices.data(),
                            origin_of(b, key, weight_));
      Lane* const lanes = out.data() + b * C::block_values;
      for (int i = 0; i < codec_.coordinates(n); ++i)
        lanes[i] = static_cast<Lane>(levels[indices[static_cast<std::size_t>(i)]] * weight_);
    }
  }

  /// x = the weighted mean.
  /// @throws nonfinite_error  the mean overflows; on all ranks, and x is unchanged
  void decode_lanes(std::span<Lane const> reduced, std::span<value_type> x,
                    std::uint64_t key) const {
    auto const layout = require(x.size(), reduced.size());
    for (std::size_t b = 0; b < layout.blocks(); ++b) require_finite(reduced, layout, b);
    for (std::size_t b = 0; b < layout.blocks(); ++b) {
      auto const origin = origin_of(b, key, total_weight_);
      codec_.decode_sums(simd_group{},
                         reinterpret_cast<std::byte const*>(reduced.data() + b * C::block_values),
                         reinterpret_cast<std::byte const*>(origin.statistics), layout.values_in(b),
                         origin, x.data() + b * C::block_values, reduce_op::mean);
    }
  }

 private:
  encoded_layout require(std::size_t values, std::size_t given) const {
    auto const layout = layout_of(codec_, values);
    if (given != lanes(values))
      throw std::invalid_argument(detail::error_text(
          {name, ": ", given, " lanes for ", values, " values, ", lanes(values), " are needed"}));
    if (norms_.size() != statistics_words(codec_, layout))
      throw std::invalid_argument(
          detail::error_text({name, ": calibrated with ", norms_.size(), " norms, ", values,
                              " values have ", statistics_words(codec_, layout)}));
    return layout;
  }
  void require_finite(std::span<Lane const> reduced, encoded_layout const& layout,
                      std::size_t b) const {
    int const n = layout.values_in(b);
    std::size_t const first = b * C::block_values;
    auto const* const sums = reinterpret_cast<std::byte const*>(reduced.data() + first);
    auto const* const norms = reinterpret_cast<std::byte const*>(origin_of(b, 0, 0).statistics);
    if (!detail::may_be_infinite<value_type>(
            codec_.largest_sum(norms, n, total_weight_, reduce_op::mean)) ||
        codec_.sums_stay_finite(simd_group{}, sums, norms, n, total_weight_, reduce_op::mean))
      return;
    throw nonfinite_error(
        detail::error_text({name, ": a mean of finite values overflows, first in values ", first,
                            " to ", first + static_cast<std::size_t>(n) - 1, "; x is unchanged"}));
  }
  block_origin origin_of(std::size_t b, std::uint64_t key, std::uint32_t weight) const {
    return {key, rank_, weight, static_cast<std::uint32_t>(b),
            norms_.data() + b * codec_.statistics_in(C::block_values)};
  }

  C codec_;
  std::uint32_t rank_, weight_, total_weight_;
  std::vector<std::uint32_t> norms_;
};

static_assert(CalibratedNativeSum<thc_lanes<>>);

}  // namespace hcomp
