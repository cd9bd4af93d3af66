#pragma once
/// @file
/// Vectors of integers, exactly.

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

/// Vectors of integers encoded without loss: counts, histograms, indexes. Sums are exact, and wrap
/// around where they overflow, modulo 2^32 or 2^64, as sums of two's complements do and MPI_SUM
/// does; so they are the same for any order and algorithm. There are no means.
///
/// Of 64 values there is how far each is from the least of them, from 0, or from the one before it,
/// in as many bits as the largest of these takes, whatever is shortest. A block that is no shorter
/// then goes as it is, so codes are at most 0.5 % longer than the values. Sums decode, add and
/// encode. See detail::lossless_integers::block_form for the format; 24 bytes are in front, and 4
/// for each 1024 values. The codes of unsigned integers can be read as those of signed ones.
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
  detail::no_options options() const { return {}; }

  // ---- What VariableRate is made of ----

  using coder_type = detail::lossless_integers::chunk_coder<T>;

  coder_type coder() const { return {}; }
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    return static_cast<std::size_t>(made.bytes);
  }
};

static_assert(MergingVariableRate<lossless_integers<std::int32_t>>);
static_assert(MergingVariableRate<lossless_integers<std::int64_t>>);

}  // namespace hcomp
