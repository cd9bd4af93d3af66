#pragma once
/// @file
/// Vectors of values that are alike, exactly.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/lossless/detail/chunk_coder.hpp>
#include <hcomp/codec/lossless/detail/format.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/core/codec_ids.hpp>

namespace hcomp {

/// Vectors encoded without loss, for sums whose bits may not change: they are those of adding the
/// values as they are, in the order of the algorithm. Only NaNs become one NaN.
///
/// What is alike in 64 values is there once: signs, the first bits of magnitudes, zeros at their
/// ends; or of values that change little, differences between neighbours. A block where that is
/// no shorter goes as it is, so codes are at most 1 % longer than the values. Sums decode, add and
/// encode. See detail::lossless::block_form for the format; 24 bytes are in front, and 4 for
/// each 1024 values.
template <class T = float>
  requires std::same_as<T, float> || std::same_as<T, double>
class lossless : public merging_variable_rate_codec<lossless<T>, detail::lossless::chunk_coder<T>> {
 public:
  static constexpr char const* name = detail::lossless::format<T>::name;
  static constexpr std::uint8_t codec_id =
      std::same_as<T, float> ? codec_ids::lossless_float : codec_ids::lossless_double;

  std::array<double, 0> parameters() const { return {}; }
  detail::no_options options() const { return {}; }

  // ---- What VariableRate is made of ----

  using coder_type = detail::lossless::chunk_coder<T>;

  coder_type coder() const { return {}; }
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    return static_cast<std::size_t>(made.bytes);
  }
};

static_assert(MergingVariableRate<lossless<float>>);
static_assert(MergingVariableRate<lossless<double>>);

}  // namespace hcomp
