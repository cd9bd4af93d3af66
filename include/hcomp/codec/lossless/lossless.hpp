#pragma once
/// @file
/// Codec `lossless`: lossless compression of dense floats and doubles.

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

/// Lossless codec for floats and doubles: results have the same bits as without compression.
///
/// The result is that of adding the values themselves in the order of the algorithm. All NaNs
/// become one NaN. Merging decodes, adds and encodes.
///
/// A block of 64 values stores once what its values share: the sign, the leading bits of the
/// magnitudes, and trailing zero bits. If neighbours differ little, a block stores the differences.
/// A block that would not shrink is stored unchanged.
///
/// Size: at most 1 % larger than the values.
/// Format: a header of 24 bytes, 4 bytes per 1024 values, the blocks: detail::lossless::block_form.
template <class T = float>
  requires std::same_as<T, float> || std::same_as<T, double>
class lossless : public merging_variable_rate_codec<lossless<T>, detail::lossless::chunk_coder<T>> {
 public:
  static constexpr char const* name = detail::lossless::format<T>::name;
  static constexpr std::uint8_t codec_id =
      std::same_as<T, float> ? codec_ids::lossless_float : codec_ids::lossless_double;

  std::array<double, 0> parameters() const { return {}; }
  static constexpr bool is_lossless() { return true; }
  detail::no_options options() const { return {}; }

  // ---- Members that VariableRate requires ----

  using coder_type = detail::lossless::chunk_coder<T>;

  coder_type coder() const { return {}; }
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    return static_cast<std::size_t>(made.bytes);
  }
};

static_assert(MergingVariableRate<lossless<float>>);
static_assert(MergingVariableRate<lossless<double>>);

}  // namespace hcomp
