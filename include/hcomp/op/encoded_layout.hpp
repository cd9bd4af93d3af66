#pragma once
/// @file
/// The positions of the blocks of an encoded vector: arithmetic only.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp {

/// A range of values of a vector.
struct value_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// A range of blocks of an encoded vector.
struct block_range {
  std::size_t first = 0;
  std::size_t count = 0;

  HCOMP_HD constexpr std::size_t end() const { return first + count; }
  friend constexpr bool operator==(block_range const&, block_range const&) = default;
};

/// A vector of `values` values split into blocks. All blocks but the last have `block_values`
/// values. A plain struct: kernels take it by value.
struct encoded_layout {
  std::size_t values = 0;
  std::size_t block_values = 1;
  std::size_t block_bytes = 0;       ///< of every block but the last
  std::size_t last_block_bytes = 0;  ///< of the last block

  HCOMP_HD constexpr std::size_t blocks() const {
    return (values + block_values - 1) / block_values;
  }
  constexpr block_range all() const { return {0, blocks()}; }
  /// The number of blocks closest to `bytes` bytes; at least one. Rounding down would give 15
  /// instead of 16 blocks because of their headers, and leave a small remainder of most vectors.
  constexpr std::size_t blocks_per(std::size_t bytes) const {
    std::size_t const whole = block_bytes > 0 ? bytes / block_bytes : 0;
    std::size_t const nearest = whole + (bytes - whole * block_bytes >= (block_bytes + 1) / 2);
    return nearest > 0 ? nearest : 1;
  }

  /// Values in block `b`.
  HCOMP_HD constexpr int values_in(std::size_t b) const {
    std::size_t const left = values - b * block_values;
    return static_cast<int>(left < block_values ? left : block_values);
  }
  /// First byte of block `b`.
  HCOMP_HD constexpr std::size_t offset(std::size_t b) const { return b * block_bytes; }

  /// Bytes of a range of blocks.
  HCOMP_HD constexpr std::size_t bytes(block_range range) const {
    if (range.count == 0) return 0;
    bool const has_last = range.end() == blocks();
    return (range.count - 1) * block_bytes + (has_last ? last_block_bytes : block_bytes);
  }
  /// Bytes of the whole encoded vector.
  constexpr std::size_t bytes() const { return bytes(all()); }
  /// The values in a range of blocks.
  constexpr value_range values_of(block_range range) const {
    auto const at = [&](std::size_t b) {
      return b * block_values < values ? b * block_values : values;
    };
    return {at(range.first), at(range.end()) - at(range.first)};
  }
};

/// Size of a codec's blocks.
struct block_size {
  std::size_t values = 1;  ///< of a full block
  std::size_t bytes = 0;   ///< of a full block
  std::size_t header_bytes = 0;
  std::size_t unit = 1;  ///< smaller blocks have a multiple of this number of values
};

/// Minimum payload of a block: below it, the header would exceed 6 % of the block.
inline constexpr std::size_t least_block_payload = 512;

/// Values per block such that `ranks` ranks share `values` values evenly: full blocks for long
/// vectors, smaller ones for short vectors, down to least_block_payload bytes.
///
/// An empty shard saves a ring no hop, so every rank should have a shard.
constexpr std::size_t shared_block_values(std::size_t values, int ranks, block_size const& full) {
  auto const parts = static_cast<std::size_t>(ranks);
  auto const rounded_up = [](std::size_t n, std::size_t unit) {
    return (n + unit - 1) / unit * unit;
  };
  std::size_t const blocks = (values + full.values - 1) / full.values;
  if (parts <= 1 || blocks == 0 || blocks >= 8 * parts) return full.values;
  std::size_t const payload = full.bytes - full.header_bytes,
                    least = (least_block_payload * full.values + payload - 1) / payload,
                    even = (values + rounded_up(blocks, parts) - 1) / rounded_up(blocks, parts);
  std::size_t const wanted = rounded_up(even > least ? even : least, full.unit);
  return wanted < full.values ? wanted : full.values;
}

/// The block size of `codec`.
template <Compressor C> constexpr block_size block_size_of(C const& codec) {
  block_size full{static_cast<std::size_t>(C::block_values), codec.block_bytes(C::block_values),
                  block_header_bytes, 64};
  if constexpr (requires { codec.block_unit(); })
    full.unit = static_cast<std::size_t>(codec.block_unit());
  return full;
}

/// The layout of `values` values encoded by `codec`.
/// @param ranks  number of ranks that share the vector in a collective; 1: full blocks
template <Compressor C>
constexpr encoded_layout layout_of(C const& codec, std::size_t values, int ranks = 1) {
  std::size_t const block = shared_block_values(values, ranks, block_size_of(codec));
  auto const last = values == 0 ? 0 : (values - 1) % block + 1;
  return {values, block, codec.block_bytes(static_cast<int>(block)),
          codec.block_bytes(static_cast<int>(last))};
}

/// The layout of a message that carries a sum of weight `weight`: blocks of a Narrowable codec are
/// shorter then, and contiguous.
template <Compressor C>
constexpr encoded_layout travelling_layout([[maybe_unused]] C const& codec, encoded_layout layout,
                                           [[maybe_unused]] std::uint32_t weight) {
  if constexpr (Narrowable<C>) {
    block_header header;
    header.weight = weight;
    header.values = static_cast<std::uint16_t>(layout.block_values);
    layout.block_bytes = codec.narrow_bytes(header);
    header.values =
        static_cast<std::uint16_t>(layout.blocks() > 0 ? layout.values_in(layout.blocks() - 1) : 0);
    layout.last_block_bytes = codec.narrow_bytes(header);
  }
  return layout;
}

}  // namespace hcomp
