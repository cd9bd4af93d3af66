#pragma once
/// @file
/// Maps parts of a vector to packets: arithmetic only, the same for workers and aggregators.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// A codec whose coordinates are indices into a table of levels, so that an aggregator can add
/// them: `thc` and `uniform_thc`.
template <class C>
concept IndexCodec = Calibrated<C> && HomomorphicSum<C> && FitsRanks<C> &&
    std::constructible_from<C, thc_options> &&
    requires(C const c, serial_group g, typename C::value_type* x, std::uint8_t* indices,
             std::byte const* bytes, int n, block_origin origin, reduce_op r) {
  { c.bits() } -> std::same_as<int>;
  { c.granularity() } -> std::same_as<int>;
  { c.levels() } -> std::same_as<std::span<std::uint8_t const>>;
  { c.coordinates(n) } -> std::same_as<int>;
  { c.encode_indices(g, x, n, indices, origin) } -> std::same_as<bool>;
  { c.decode_sums(g, bytes, bytes, n, origin, x, r) } -> std::same_as<void>;
  { c.largest_sum(bytes, n, origin.weight, r) } -> std::same_as<double>;
  { c.sums_stay_finite(g, bytes, bytes, n, origin.weight, r) } -> std::same_as<bool>;
};

/// How workers and aggregators share the work; equal on all of them.
struct aggregation_options {
  int workers = 1;  ///< ranks 0 to workers - 1; all further ranks of the link are aggregators
  /// Coordinates per packet, a power of two from 64 to 16384.
  ///
  /// | chunk_values | use it for |
  /// |---|---|
  /// | 1024 | Ethernet frames of 1500 bytes: 4-bit indices and 8-bit sums fit |
  /// | 8192 | jumbo frames of 9000 bytes |
  /// | 8192, 16384 | links that split packets themselves and lose none, such as MPI |
  ///
  /// With 16-bit sums half the number fits. Packets smaller than a transform spread a loss over
  /// many values. Each packet has a header of 32 bytes. In long vectors, headers and norms add 6.4
  /// % to the indices and 3.3 % to the partial sums at 1024, 1 % and 0.5 % at 8192.
  std::uint32_t chunk_values = 1024;
};

/// The parts of a vector of `values` values that packets carry. Chunk c, of coordinates or of
/// norms, belongs to aggregator c modulo their number. Each aggregator numbers its chunks from 0.
template <IndexCodec C> class aggregation_layout {
 public:
  static constexpr std::uint32_t chunk_words = 256;  ///< norms per packet, of complete blocks

  /// @throws std::invalid_argument  invalid chunk size, no aggregator, more workers than the
  ///                                codec's sums can hold
  aggregation_layout(std::size_t values, C const& codec, int ranks,
                     aggregation_options const& options)
      : options_(options),
        aggregators_(ranks - options.workers),
        codec_(checked(codec, ranks, options)),
        blocks_(layout_of(codec_, values)) {}

  C const& codec() const { return codec_; }  ///< fitted to the workers
  encoded_layout const& blocks() const { return blocks_; }
  int workers() const { return options_.workers; }
  int aggregators() const { return aggregators_; }
  std::uint32_t chunk_values() const { return options_.chunk_values; }

  std::size_t coordinates() const { return end_of(&C::coordinates, C::block_values); }
  std::size_t words() const { return end_of(&C::statistics_in, words_per_block()); }
  std::size_t words_per_block() const { return codec_.statistics_in(C::block_values); }
  std::size_t chunks() const { return rounded_up(coordinates(), options_.chunk_values); }
  std::size_t word_chunks() const { return rounded_up(words(), chunk_words); }
  std::uint32_t values_in(std::size_t chunk) const {
    return part(coordinates(), chunk, options_.chunk_values);
  }
  std::uint32_t words_in(std::size_t chunk) const { return part(words(), chunk, chunk_words); }

  /// The rank that aggregates a chunk, and the chunk's number there.
  int aggregator_of(std::size_t chunk) const {
    return workers() + static_cast<int>(chunk % static_cast<std::size_t>(aggregators_));
  }
  std::uint32_t number_of(std::size_t chunk) const {
    return static_cast<std::uint32_t>(chunk / static_cast<std::size_t>(aggregators_));
  }
  /// The inverse.
  std::size_t chunk_of(int rank, std::uint32_t number) const {
    return std::size_t{number} * static_cast<std::size_t>(aggregators_) +
           static_cast<std::size_t>(rank - workers());
  }

  /// `wanted` (quota, deadline, width, ...) with all other options set for this layout.
  aggregator_options aggregator(aggregator_options wanted = {}) const {
    auto const levels = codec_.levels();
    auto const share = static_cast<std::size_t>(aggregators_);
    wanted.workers = workers();
    wanted.bits = codec_.bits();
    wanted.levels.assign(levels.begin(), levels.end());
    wanted.chunks = static_cast<std::uint32_t>(rounded_up(chunks(), share));
    wanted.chunk_values = options_.chunk_values;
    wanted.word_chunks = static_cast<std::uint32_t>(rounded_up(word_chunks(), share));
    wanted.chunk_words = chunk_words;
    return wanted;
  }

 private:
  static std::size_t rounded_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }
  static std::uint32_t part(std::size_t all, std::size_t chunk, std::uint32_t unit) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(all - chunk * unit, unit));
  }
  /// All blocks but the last have `per_block` items; `in_block` counts those of the last.
  template <class Count> std::size_t end_of(Count in_block, std::size_t per_block) const {
    std::size_t const count = blocks_.blocks();
    if (count == 0) return 0;
    return (count - 1) * per_block +
           static_cast<std::size_t>((codec_.*in_block)(blocks_.values_in(count - 1)));
  }
  static C checked(C const& codec, int ranks, aggregation_options const& o) {
    if (o.workers < 1 || o.workers >= ranks)
      throw std::invalid_argument(
          detail::error_text({"aggregation: ", o.workers, " workers on ", ranks,
                              " ranks; at least 1 worker and 1 aggregator are needed"}));
    if (o.chunk_values < 64 || o.chunk_values > C::block_values ||
        !detail::is_power_of_two(o.chunk_values))
      throw std::invalid_argument(detail::error_text({"aggregation: chunks of ", o.chunk_values,
                                                      " coordinates; powers of two from 64 to ",
                                                      C::block_values, " are possible"}));
    return codec.fitted(static_cast<std::uint32_t>(o.workers));
  }

  aggregation_options options_;
  int aggregators_;
  C codec_;
  encoded_layout blocks_;
};

}  // namespace hcomp
