#pragma once
/// @file
/// What owner selection does with one block: keep the bits drawn from this rank, and put the bits
/// of all ranks back in their places.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/bit_streams.hpp>
#include <hcomp/codec/detail/owner_tree.hpp>
#include <hcomp/codec/sign.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/op/code_layout.hpp>
#include <span>

namespace hcomp::detail {

/// Draws the owners of one block's bits, counts them per rank, and packs this rank's own bits to
/// the front of its block.
struct pack_owned_bits {
  code_layout layout;
  std::span<owner_node const> tree;
  std::size_t ranks;
  std::size_t rank;
  std::uint64_t stream;
  std::byte* code;        ///< signs of this rank, encoded by `sign`
  std::uint32_t* counts;  ///< [block][rank]: bits that belong to the rank

  template <class Group> void operator()(Group group, std::size_t b) const {
    int const n = layout.values_in(b);
    std::byte* const bits = code + layout.offset(b) + block_header_bytes;
    std::uint32_t* const count_of = counts + b * ranks;
    std::fill_n(count_of, ranks, 0u);
    bit_writer out{bits};
    for_owner_tiles(
        group, tree, ranks, sign<>::words_of(n), sign<>::first_word(static_cast<std::uint32_t>(b)),
        stream, [&](int word, int tile, auto const& mask_of) {
          if (int const over = (word + tile) * 64 - n; over > 0)  // no owner for padding
            for (std::size_t r = 0; r < ranks; ++r) {
              auto const last = load<std::uint64_t>(mask_of(r), static_cast<std::size_t>(tile - 1));
              store(mask_of(r), static_cast<std::size_t>(tile - 1), last << over >> over);
            }
          for (std::size_t r = 0; r < ranks; ++r)
            count_of[r] += static_cast<std::uint32_t>(count_bits(mask_of(r), tile));
          gather_bits(bits + word * 8, mask_of(rank), tile, out);
        });
    out.flush();
  }
};

/// Puts all ranks' bits back in their places: the block that merging along the tree would give.
struct unpack_owned_bits {
  code_layout layout;
  std::span<owner_node const> tree;
  std::size_t ranks;
  block_header header;  ///< of the merged blocks, but for place and length
  std::byte const* messages;
  std::size_t const* starts;  ///< [block][rank]: first byte of a rank's bits in `messages`
  std::byte* code;

  template <class Group> void operator()(Group group, std::size_t b) const {
    int const n = layout.values_in(b);
    int const words = sign<>::words_of(n);
    std::byte* const block = code + layout.offset(b);
    std::byte* const bits = block + block_header_bytes;
    auto own = header;
    own.index = static_cast<std::uint32_t>(b);
    own.values = static_cast<std::uint16_t>(n);
    store(block, 0, own);
    std::memset(bits, 0, static_cast<std::size_t>(words) * 8);
    std::array<std::uint32_t, max_owner_ranks> at;
    std::fill_n(at.begin(), ranks, 0u);
    for_owner_tiles(
        group, tree, ranks, words, sign<>::first_word(own.index), own.stream,
        [&](int word, int tile, auto const& mask_of) {
          for (std::size_t r = 0; r < ranks; ++r)
            at[r] = static_cast<std::uint32_t>(scatter_bits(messages + starts[b * ranks + r], at[r],
                                                            mask_of(r), tile, bits + word * 8));
        });
    if (int const over = words * 64 - n; over > 0) {
      auto const last = static_cast<std::size_t>(words - 1);
      store(bits, last, load<std::uint64_t>(bits, last) << over >> over);
    }
  }
};

}  // namespace hcomp::detail
