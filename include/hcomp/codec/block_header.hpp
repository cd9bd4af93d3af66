#pragma once
/// @file
/// The 32 bytes in front of every encoded block. They make a block self-describing: an MPI library
/// may cut a message between any two blocks, and a block of another version, codec, step or place
/// is noticed where it meets the first block it cannot be merged with.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/version.hpp>

namespace hcomp {

/// What a block says about itself beside its values: bits that merging ORs together, so that in the
/// end all ranks see what any rank saw.
enum block_flag : std::uint8_t {
  block_has_nonfinite = 1,  ///< some rank encoded a NaN or an infinity here
  block_is_damaged = 2,     ///< two blocks met that must not be merged; `fault` says why
  block_has_checksum = 4,   ///< `checksum` is valid
};

/// Why two blocks could not be merged.
enum class block_fault : std::uint8_t {
  none,
  format,    ///< not a block of this wire-format version
  codec,     ///< another codec or other values
  length,    ///< another number of values
  place,     ///< another block of the vector
  key,       ///< another seed, step or tensor
  ranks,     ///< both hold the same rank
  weight,    ///< more summands than the block has room for
  checksum,  ///< bytes changed on the way, or one of two blocks has none
  scale,     ///< in units of different size
};

/// First bytes of an encoded block, little-endian. Layout fixed by `wire_version`.
struct block_header {
  std::uint16_t magic = 0x4368;  ///< "hC"
  std::uint8_t version = static_cast<std::uint8_t>(wire_version);
  std::uint8_t codec = 0;    ///< Codec::codec_id
  std::uint16_t values = 0;  ///< 1 .. block_values, fewer than block_values only in the last
  std::uint8_t flags = 0;    ///< of block_flag
  block_fault fault = block_fault::none;
  std::uint32_t weight = 0;       ///< summed over the ranks this block already holds
  std::uint32_t lowest_rank = 0;  ///< of the ranks this block already holds
  std::uint32_t index = 0;        ///< place of the block in the vector
  std::uint32_t checksum = 0;     ///< of the whole block with this field 0
  std::uint64_t key = 0;          ///< philox_key(seed, step, tensor)
};
static_assert(sizeof(block_header) == 32);

/// Bytes in front of the payload; a multiple of 8, so payload words keep the block's alignment.
inline constexpr std::size_t block_header_bytes = sizeof(block_header);

/// The header of a block, by whole words, on devices two at once where it is at a multiple of 16: of its
/// members, one by one, a device loads the same bytes as often as there are members.
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

/// Who encodes which block of which call.
struct block_origin {
  std::uint64_t key = 0;  ///< philox_key(draw_key), equal on all ranks
  std::uint32_t rank = 0;
  std::uint32_t weight = 1;  ///< share of this rank in the sum, e.g. its number of samples
  std::uint32_t index = 0;   ///< place of the block in the vector
  /// What all ranks agreed on about this block, for codecs that are Calibrated.
  std::uint32_t const* statistics = nullptr;
  bool checksum = false;  ///< the block will be sealed, and must not be read without its checksum
};

/// The header of a block just encoded by one rank.
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

/// Why `a` and `b` are not blocks of one place in one sum, or none. Ranks and weights may differ.
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

/// Why `a` and `b` must not be merged, or none. `max_weight` is what the codec has room for.
HCOMP_HD inline block_fault merge_fault(block_header const& a, block_header const& b,
                                        std::uint32_t max_weight) {
  if (auto const fault = mismatch(a, b); fault != block_fault::none) return fault;
  if (a.lowest_rank == b.lowest_rank) return block_fault::ranks;
  if (b.weight > max_weight || a.weight > max_weight - b.weight) return block_fault::weight;
  return block_fault::none;
}

/// The header of the merged block; sticky flags of both survive.
HCOMP_HD inline block_header merged_header(block_header const& a, block_header const& b) {
  block_header header = a;
  header.flags = static_cast<std::uint8_t>(a.flags | b.flags);
  header.fault = a.fault != block_fault::none ? a.fault : b.fault;
  header.weight = a.weight + b.weight;
  header.lowest_rank = a.lowest_rank < b.lowest_rank ? a.lowest_rank : b.lowest_rank;
  return header;
}

/// Text for people: what `fault` means.
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
