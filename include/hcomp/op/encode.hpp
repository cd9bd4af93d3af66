#pragma once
/// @file
/// Encodes and decodes whole vectors without a plan: for MPI_Allreduce with hcomp's op, or for your
/// own communication. Host memory, in the calling thread; for device memory use encoded_vector.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Identifies the encoding rank and call.
struct encode_options {
  draw_key key = {};  ///< equal on all ranks; increase the step for every all-reduce
  int rank = 0;       ///< different on every rank; >= 0
  std::uint32_t weight = 1;
  bool checksum = false;
  /// For Calibrated codecs: the elementwise maximum over all ranks of measure(codec, x), for
  /// example from mpi::measure(codec, x, comm). Required: without it, encoded vectors of different
  /// ranks could not be added.
  std::span<std::uint32_t const> statistics = {};
};

/// The calibration words of `x`, for Calibrated codecs; otherwise empty. All ranks must encode with
/// the elementwise maximum: `MPI_Allreduce(MPI_IN_PLACE, s.data(), s.size(), MPI_UINT32_T, MPI_MAX,
/// comm)`.
template <Compressor C>
std::vector<std::uint32_t> measure(C const& codec, std::span<typename C::value_type const> x) {
  detail::float_environment const environment;
  auto const layout = layout_of(codec, x.size());
  std::vector<std::uint32_t> words(statistics_words(codec, layout));
  if constexpr (Calibrated<C>) {
    measure_blocks<C, typename C::value_type const*> const work{codec, layout, x.data(),
                                                                words.data()};
    for (std::size_t b = 0; b < layout.blocks(); ++b) work(simd_group{}, b);
  }
  return words;
}

/// The number of blocks of `values` values: the count argument of MPI.
template <Compressor C> constexpr std::size_t block_count(C const& codec, std::size_t values) {
  return layout_of(codec, values).blocks();
}

/// Bytes of `values` values in blocks of equal size; the last block is padded.
template <Compressor C> constexpr std::size_t encoded_bytes(C const& codec, std::size_t values) {
  return block_count(codec, values) * codec.block_bytes(C::block_values);
}

namespace detail {

/// The block origin that `options` describe.
/// @throws std::invalid_argument  as encode
template <Compressor C>
block_origin origin_of(C const& codec, encoded_layout const& layout,
                       encode_options const& options) {
  if (options.weight == 0 || options.rank < 0)
    throw std::invalid_argument(
        error_text({"encode: rank ", options.rank, ", weight ", options.weight,
                    "; the rank must be at least 0, the weight at least 1"}));
  if constexpr (HomomorphicSum<C>)
    if (options.weight > codec.max_summands())
      throw std::invalid_argument(
          error_text({"encode: codec '", C::name, "' holds ", codec.max_summands(),
                      " summands, this rank alone has weight ", options.weight,
                      "; fit it with the total weight"}));
  std::size_t const words = statistics_words(codec, layout);
  if (options.statistics.empty() && words > 0)
    throw std::invalid_argument(
        error_text({"encode: codec '", C::name,
                    "' encodes in units that all ranks agree on first; give encode "
                    "the ",
                    words,
                    " words of mpi::measure(codec, x, comm) as .statistics, or those of "
                    "measure(codec, x) if no other rank takes part"}));
  if (options.statistics.size() != words)
    throw std::invalid_argument(
        error_text({"encode: codec '", C::name, "' has ", words, " words of statistics for ",
                    layout.values, " values, ", options.statistics.size(), " were given"}));
  return {philox_key(options.key),
          static_cast<std::uint32_t>(options.rank),
          options.weight,
          0,
          options.statistics.empty() ? nullptr : options.statistics.data(),
          options.checksum};
}

}  // namespace detail

/// Encodes `x` into blocks of equal size; pads the last one with zeros.
/// @param encoded  encoded_bytes(codec, x.size()) bytes, at any address
/// @throws std::invalid_argument  `encoded` has another size or overlaps x; weight is 0 or above
///                                codec.max_summands(); rank < 0; statistics of a Calibrated codec
///                                are missing or have another size
template <Compressor C>
void encode(C const& codec, std::span<typename C::value_type const> x, std::span<std::byte> encoded,
            encode_options const& options = {}) {
  detail::float_environment const environment;
  auto const layout = layout_of(codec, x.size());
  detail::require_encoded(
      "encode", C::name, encoded.size(), encoded_bytes(codec, x.size()), x.size(),
      detail::overlap(x.data(), x.size_bytes(), encoded.data(), encoded.size()));
  encode_blocks<C, typename C::value_type const*> const work{
      codec, layout, x.data(), encoded.data(), detail::origin_of(codec, layout, options)};
  for (std::size_t b = 0; b < layout.blocks(); ++b) work(simd_group{}, b);
  std::fill(encoded.begin() + static_cast<std::ptrdiff_t>(layout.bytes()), encoded.end(),
            std::byte{0});
}

/// Encodes into newly allocated memory.
template <Compressor C>
std::vector<std::byte> encode(C const& codec, std::span<typename C::value_type const> x,
                              encode_options const& options = {}) {
  std::vector<std::byte> encoded(encoded_bytes(codec, x.size()));
  encode(codec, x, encoded, options);
  return encoded;
}

/// Options of decode.
struct decode_options {
  draw_key key = {};  ///< with which the blocks were encoded
  reduce_op op = reduce_op::sum;
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  std::uint64_t weight = 0;  ///< expected weight of the sum, for example the number of ranks; 0:
                             ///< any
};

/// Decodes blocks of equal size into `x`. Returns the weight of the sum (0 if x is empty).
/// @throws std::invalid_argument  `encoded` has another size or overlaps x
/// @throws wire_error             blocks are damaged, have another key or weight, or were merged
///                                with incompatible blocks; x is unchanged
/// @throws nonfinite_error        NaN or infinity, also from a sum that overflows, and the policy
///                                is throw_error; x is unchanged
template <Compressor C>
std::uint64_t decode(C const& codec, std::span<std::byte const> encoded,
                     std::span<typename C::value_type> x, decode_options const& options = {}) {
  detail::float_environment const environment;
  auto const layout = layout_of(codec, x.size());
  detail::require_encoded(
      "decode", C::name, encoded.size(), encoded_bytes(codec, x.size()), x.size(),
      detail::overlap(x.data(), x.size_bytes(), encoded.data(), encoded.size()));
  auto const found =
      detail::check_sums(codec, layout, layout.all(), encoded.data(), options.op,
                         detail::check_encoded(C::codec_id, layout, layout.all(), encoded.data(),
                                               philox_key(options.key), options.weight));
  detail::require_sound("decode", C::name, found, options.nonfinite, layout);
  decode_blocks<C> const work{codec,
                              layout,
                              0,
                              encoded.data(),
                              x.data(),
                              options.op,
                              options.nonfinite == nonfinite_policy::propagate};
  for (std::size_t b = 0; b < layout.blocks(); ++b) work(simd_group{}, b);
  return found.weight;
}

}  // namespace hcomp
