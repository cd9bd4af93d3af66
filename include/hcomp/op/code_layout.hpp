#pragma once
/// @file
/// Where the blocks of one encoded vector lie: arithmetic only.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp {

/// Consecutive blocks of a code.
struct block_range {
  std::size_t first = 0;
  std::size_t count = 0;

  constexpr std::size_t end() const { return first + count; }
  friend constexpr bool operator==(block_range const&, block_range const&) = default;
};

/// A vector of `values` values cut into blocks. All blocks but the last are full; the last one ends
/// with its last value. Plain numbers: a kernel can take it by value.
struct code_layout {
  std::size_t values = 0;
  std::size_t block_values = 1;
  std::size_t block_bytes = 0;       ///< of a full block
  std::size_t last_block_bytes = 0;  ///< of the last block

  HCOMP_HD constexpr std::size_t blocks() const {
    return (values + block_values - 1) / block_values;
  }
  constexpr block_range all() const { return {0, blocks()}; }

  /// Values in block `b`.
  HCOMP_HD constexpr int values_in(std::size_t b) const {
    std::size_t const left = values - b * block_values;
    return static_cast<int>(left < block_values ? left : block_values);
  }
  /// First byte of block `b`.
  HCOMP_HD constexpr std::size_t offset(std::size_t b) const { return b * block_bytes; }

  /// Bytes of a range of blocks.
  constexpr std::size_t bytes(block_range range) const {
    if (range.count == 0) return 0;
    bool const has_last = range.end() == blocks();
    return (range.count - 1) * block_bytes + (has_last ? last_block_bytes : block_bytes);
  }
  /// Bytes of the whole code.
  constexpr std::size_t bytes() const { return bytes(all()); }
};

/// The layout of `values` values encoded by `codec`.
template <Compressor C> constexpr code_layout layout_of(C const& codec, std::size_t values) {
  constexpr auto full = static_cast<std::size_t>(C::block_values);
  auto const last = values == 0 ? 0 : (values - 1) % full + 1;
  return {values, full, codec.block_bytes(C::block_values),
          codec.block_bytes(static_cast<int>(last))};
}

}  // namespace hcomp
