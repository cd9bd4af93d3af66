#pragma once
/// @file
/// Codec `lossless_integers`: lossless compression of integers.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/lossless_integers/detail/format.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/core/codec_ids.hpp>

namespace hcomp {

/// Lossless codec for integers: counts, histograms, indexes.
///
/// Results are exact and equal for every order and algorithm. On overflow they wrap modulo 2^32 or
/// 2^64, as MPI_SUM does. Means are not available. Merging decodes, adds and encodes.
///
/// A block of 64 values stores the distance of each value from the smallest value of the block,
/// from 0, or from the value before it, whichever is shortest. All distances of a block have the
/// same number of bits. A block that would not shrink is stored unchanged. Signed and unsigned
/// integers of the same size have the same format.
///
/// Size: at most 0.5 % larger than the values.
/// Format: a header of 24 bytes, 4 bytes per 1024 values, the blocks:
/// detail::lossless_integers::block_form.
template <class T>
  requires std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
      std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>
class lossless_integers
    : public merging_variable_rate_codec<lossless_integers<T>,
                                         detail::lossless_integers::chunk_coder<T>> {
 public:
  static constexpr char const* name = detail::lossless_integers::format<T>::name;
  static constexpr std::uint8_t codec_id =
      sizeof(T) == 4 ? codec_ids::lossless_integers_32 : codec_ids::lossless_integers_64;

  std::array<double, 0> parameters() const { return {}; }
  static constexpr bool is_lossless() { return true; }
  detail::no_options options() const { return {}; }

  // ---- Members that VariableRate requires ----

  using coder_type = detail::lossless_integers::chunk_coder<T>;

  coder_type coder() const { return {}; }
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    return static_cast<std::size_t>(made.bytes);
  }
};

static_assert(MergingVariableRate<lossless_integers<std::int32_t>>);
static_assert(MergingVariableRate<lossless_integers<std::int64_t>>);

}  // namespace hcomp
