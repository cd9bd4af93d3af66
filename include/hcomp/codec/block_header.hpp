#pragma once
/// @file
/// The 32-byte header of every encoded block. It makes a block self-describing: an MPI library may
/// cut a message between any two blocks. A merge detects a block of another version, codec, step or
/// place.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/version.hpp>

namespace hcomp {

/// Flags of a block. Merging combines them by OR, so all ranks finally see the flags of every rank.
enum block_flag : std::uint8_t {
  block_has_nonfinite = 1,  ///< some rank encoded a NaN or an infinity here
  block_is_damaged = 2,     ///< two blocks met that must not be merged; `fault` has the reason
  block_has_checksum = 4,   ///< `checksum` is valid
};

/// The reason why two blocks could not be merged.
enum class block_fault : std::uint8_t {
  none,
  format,    ///< not a block of this wire-format version
  codec,     ///< another codec or value type
  length,    ///< another number of values
  place,     ///< another block of the vector
  key,       ///< another seed, step or tensor
  ranks,     ///< both hold the same rank
  weight,    ///< more summands than the block has room for
  checksum,  ///< bytes changed in transit, or only one of the two blocks has a checksum
  scale,     ///< the blocks have different units
};

/// The first bytes of an encoded block, little-endian. `wire_version` fixes the layout.
struct block_header {
  std::uint16_t magic = 0x4368;  ///< "hC"
  std::uint8_t version = static_cast<std::uint8_t>(wire_version);
  std::uint8_t codec = 0;    ///< Codec::codec_id
  std::uint16_t values = 0;  ///< 1 to block_values; fewer than block_values only in the last block
  std::uint8_t flags = 0;    ///< bits of block_flag
  block_fault fault = block_fault::none;
  std::uint32_t weight = 0;       ///< total weight of the ranks that this block holds
  std::uint32_t lowest_rank = 0;  ///< lowest of the ranks that this block holds
  std::uint32_t index = 0;        ///< place of the block in the vector
  std::uint32_t checksum = 0;     ///< of the whole block, computed with this field set to 0
  std::uint64_t key = 0;          ///< philox_key(seed, step, tensor)
};
static_assert(sizeof(block_header) == 32);

/// Size of the header in bytes. It is a multiple of 8, so payload words keep the block's alignment.
inline constexpr std::size_t block_header_bytes = sizeof(block_header);

/// Loads the header of a block in 8-byte words, on devices in pairs if the block is at a multiple
/// of 16. Loading each member separately would make a device load the same bytes once per member.
HCOMP_HD inline block_header load_header(std::byte const* block) {
  constexpr std::size_t count = block_header_bytes / 8;
  std::uint64_t words[count];
#if defined(__CUDA_ARCH__)
  if (detail::is_multiple_of(16, block)) {
    HCOMP_UNROLL
    for (std::size_t k = 0; k < count; k += 2) {
      auto const two = detail::adjacent<std::uint64_t, 2>::at(block + 8 * k);
      words[k] = two.values[0];
      words[k + 1] = two.values[1];
    }
  } else
#endif
    for (std::size_t k = 0; k < count; ++k) words[k] = load_word(block, k);
  block_header header;
  memcpy(&header, words, sizeof(header));
  return header;
}

/// The identity of a block at encoding: call, rank and place.
struct block_origin {
  std::uint64_t key = 0;  ///< philox_key(draw_key), equal on all ranks
  std::uint32_t rank = 0;
  std::uint32_t weight = 1;  ///< weight of this rank in the sum, for example its number of samples
  std::uint32_t index = 0;   ///< place of the block in the vector
  /// Units of this block on which all ranks agreed, for Calibrated codecs.
  std::uint32_t const* statistics = nullptr;
  bool checksum = false;  ///< the block will be sealed; it must not be read without its checksum
};

/// Returns the header of a block that one rank has just encoded.
HCOMP_HD inline block_header make_header(std::uint8_t codec, int values, bool nonfinite,
                                         block_origin const& origin) {
  block_header header;
  header.codec = codec;
  header.values = static_cast<std::uint16_t>(values);
  header.flags = static_cast<std::uint8_t>((nonfinite ? block_has_nonfinite : 0) |
                                           (origin.checksum ? block_has_checksum : 0));
  header.weight = origin.weight;
  header.lowest_rank = origin.rank;
  header.index = origin.index;
  header.key = origin.key;
  return header;
}

/// Returns why `a` and `b` do not belong to the same place of the same sum, or none. Ranks and
/// weights may differ.
HCOMP_HD inline block_fault mismatch(block_header const& a, block_header const& b) {
  block_header const expected;
  if (a.magic != expected.magic || b.magic != expected.magic || a.version != expected.version ||
      b.version != expected.version)
    return block_fault::format;
  if (a.codec != b.codec) return block_fault::codec;
  if (a.values != b.values) return block_fault::length;
  if (a.index != b.index) return block_fault::place;
  if (a.key != b.key) return block_fault::key;
  if ((a.flags ^ b.flags) & block_has_checksum) return block_fault::checksum;
  return block_fault::none;
}

/// Returns why `a` and `b` must not be merged, or none. `max_weight` is the codec's largest total
/// weight.
HCOMP_HD inline block_fault merge_fault(block_header const& a, block_header const& b,
                                        std::uint32_t max_weight) {
  if (auto const fault = mismatch(a, b); fault != block_fault::none) return fault;
  if (a.lowest_rank == b.lowest_rank) return block_fault::ranks;
  if (b.weight > max_weight || a.weight > max_weight - b.weight) return block_fault::weight;
  return block_fault::none;
}

/// Returns the header of the merged block. Flags and faults of both blocks persist.
HCOMP_HD inline block_header merged_header(block_header const& a, block_header const& b) {
  block_header header = a;
  header.flags = static_cast<std::uint8_t>(a.flags | b.flags);
  header.fault = a.fault != block_fault::none ? a.fault : b.fault;
  header.weight = a.weight + b.weight;
  header.lowest_rank = a.lowest_rank < b.lowest_rank ? a.lowest_rank : b.lowest_rank;
  return header;
}

/// Returns a description of `fault` for error messages.
inline char const* to_text(block_fault fault) {
  switch (fault) {
    case block_fault::none: return "no fault";
    case block_fault::format: return "not a block of this wire-format version";
    case block_fault::codec: return "blocks of different codecs met";
    case block_fault::length: return "blocks of different lengths met";
    case block_fault::place: return "blocks of different places in the vector met";
    case block_fault::key: return "blocks of different seeds, steps or tensors met";
    case block_fault::ranks: return "the same rank was added twice";
    case block_fault::weight: return "more summands than a block has room for";
    case block_fault::checksum: return "the checksum does not match the bytes";
    case block_fault::scale: return "blocks in units of different size met";
  }
  return "unknown fault";
}

}  // namespace hcomp
