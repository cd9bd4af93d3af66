#pragma once
/// @file
/// Functors of sampled selection: keep the bits drawn from this rank, send them, and scatter the
/// bits of all ranks to their positions.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/sign/detail/packed_bits.hpp>
#include <hcomp/codec/sign/detail/sampling_lots.hpp>
#include <hcomp/codec/sign/detail/sampling_tree.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

namespace hcomp::detail {

/// The possible owners of a bit.
struct owners {
  sampling::node const* tree;  ///< sampling::tree_of for all ranks; null for many ranks
  sampling::lots lots;         ///< for all ranks; used without a tree
  std::size_t ranks;
  std::uint64_t key;

  std::span<sampling::node const> nodes() const { return {tree, ranks - 1}; }
  HCOMP_HD bool draws_lots() const { return ranks > sampling::most_by_masks; }

  HCOMP_HD static constexpr int words_of(int n) { return (n + 63) / 64; }
  /// Number of a block's first word in the complete vector, which selects its draws.
  HCOMP_HD static constexpr std::uint64_t first_word(encoded_layout const& layout, std::size_t b) {
    return b * (layout.block_values / 64);
  }

  /// Calls f(first word, count, owners of their values) for tiles of a block of n values.
  template <class Group, class F>
  void for_drawn_words(Group group, std::uint64_t first_word, int n, F const& f) const {
    constexpr int most = 64;
    std::array<std::uint16_t, most * 64> drawn;
    for (int word = 0; word < words_of(n); word += most) {
      int const count = words_of(n) - word < most ? words_of(n) - word : most;
      sampling::draw_owners(group, lots, first_word + static_cast<unsigned>(word), count, key,
                            drawn.data());
      f(word, count, drawn.data());
    }
  }
  /// Calls f(word, masks of the ranks), like sampling::for_ranks_of_word, for this worker's words
  /// of a block with n values. All workers make the same number of calls, at the end possibly
  /// without bits. Padding has no owner.
  template <class Group, class Begin, class F, class End>
  HCOMP_HD void for_each_word(Group group, std::uint64_t first_word, int n, Begin const& begin,
                              F const& f, End const& end) const {
    for (int word = group.worker(); word - group.worker() < words_of(n); word += Group::workers) {
      int const values = n - word * 64;
      std::uint64_t const all = ~std::uint64_t{0};
      std::uint64_t const wanted = values >= 64 ? all : values > 0 ? all >> (64 - values) : 0;
      std::uint64_t const place = first_word + static_cast<unsigned>(word);
      begin();
      if (draws_lots()) {
        std::uint16_t drawn[64];
        sampling::draw_owners_of_word(lots, place, key, drawn);
        for (std::size_t r = 0; r < ranks; ++r) {
          std::uint64_t mask = 0;
          for (int i = 0; i < 64; ++i) mask |= std::uint64_t{drawn[i] == r} << i;
          f(r, mask & wanted);
        }
      } else {
        sampling::for_ranks_of_word(tree, ranks, wanted, place, key, f);
      }
      end(word);
    }
  }
};

/// Draws the owners of a block's bits, counts the bits per rank, and packs this rank's own bits to
/// the front of its block.
struct pack_owned_bits {
  encoded_layout layout;
  owners whose;
  std::size_t rank;
  std::byte* encoded;     ///< of this rank, a bit per value
  std::uint32_t* counts;  ///< [block][rank]: number of bits that belong to the rank

  /// The packed bits, and a count per rank.
  HCOMP_HD std::size_t scratch_bytes() const {
    return layout.block_values / 8 + whose.ranks * sizeof(std::uint32_t);
  }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    int const n = layout.values_in(b);
    std::byte* const bits = encoded + layout.offset(b) + block_header_bytes;
    if constexpr (HasWarps<Group>)
      by_lanes(group, b, n, bits);
    else if (whose.draws_lots())
      by_lots(group, b, n, bits);
    else
      by_tiles(group, b, n, bits);
  }

 private:
  template <class Group> void by_lots(Group group, std::size_t b, int n, std::byte* bits) const {
    std::uint32_t* const count_of = counts + b * whose.ranks;
    std::fill_n(count_of, whose.ranks, 0u);
    sign::bit_writer out{bits};
    auto const me = static_cast<std::uint16_t>(rank);
    whose.for_drawn_words(group, owners::first_word(layout, b), n,
                          [&](int first, int count, std::uint16_t const* drawn) {
                            std::array<std::uint64_t, 64> mine{};
                            for (int w = 0; w < count; ++w) {
                              int const values = std::min(64, n - (first + w) * 64);
                              std::uint64_t mask = 0;
                              for (int i = 0; i < values; ++i) {
                                ++count_of[drawn[w * 64 + i]];
                                if (drawn[w * 64 + i] == me) mask |= std::uint64_t{1} << i;  // rare
                              }
                              mine[static_cast<std::size_t>(w)] = mask;
                            }
                            sign::gather_bits(bits + first * 8,
                                              reinterpret_cast<std::byte const*>(mine.data()),
                                              count, out);
                          });
    out.flush();
  }

  template <class Group> void by_tiles(Group group, std::size_t b, int n, std::byte* bits) const {
    std::uint32_t* const count_of = counts + b * whose.ranks;
    std::fill_n(count_of, whose.ranks, 0u);
    sign::bit_writer out{bits};
    sampling::for_tiles(
        group, whose.nodes(), whose.ranks, owners::words_of(n), owners::first_word(layout, b),
        whose.key, [&](int word, int tile, auto const& mask_of) {
          if (int const over = (word + tile) * 64 - n; over > 0)  // padding has no owner
            for (std::size_t r = 0; r < whose.ranks; ++r) {
              auto const last = load<std::uint64_t>(mask_of(r), static_cast<std::size_t>(tile - 1));
              store(mask_of(r), static_cast<std::size_t>(tile - 1), last << over >> over);
            }
          for (std::size_t r = 0; r < whose.ranks; ++r)
            count_of[r] += static_cast<std::uint32_t>(sign::count_bits(mask_of(r), tile));
          sign::gather_bits(bits + word * 8, mask_of(rank), tile, out);
        });
    out.flush();
  }

  template <class Group>
  HCOMP_HD void by_lanes(Group group, std::size_t b, int n, std::byte* bits) const {
    auto const worker = static_cast<std::size_t>(group.worker());
    auto const words = static_cast<std::size_t>(owners::words_of(n));
    auto* const packed = reinterpret_cast<std::uint64_t*>(group.scratch());
    auto* const count_of = reinterpret_cast<std::uint32_t*>(packed + layout.block_values / 64);
    for (std::size_t w = worker; w < words; w += Group::workers) packed[w] = 0;
    for (std::size_t r = worker; r < whose.ranks; r += Group::workers) count_of[r] = 0;
    group.sync();
    std::uint64_t mine = 0, before = 0;
    whose.for_each_word(
        group, owners::first_word(layout, b), n, [] {},
        [&](std::size_t r, std::uint64_t mask) {
          if (mask != 0) fetch_add(group, count_of + r, static_cast<std::uint32_t>(ones(mask)));
          if (r == rank) mine = mask;
        },
        [&](int word) {
          auto const counted = group.running_sum(static_cast<std::uint64_t>(ones(mine)));
          if (mine != 0) {
            auto const own = sign::extract_bits(
                load_aligned<std::uint64_t>(bits, static_cast<std::size_t>(word)), mine);
            std::uint64_t const at = before + counted.before;
            add_bits(group, packed + at / 64, own << at % 64);
            if (at % 64 + static_cast<std::uint64_t>(ones(mine)) > 64)
              add_bits(group, packed + at / 64 + 1, own >> (64 - at % 64));
          }
          before += counted.all;
        });
    group.sync();
    for (std::size_t w = worker; w < (before + 63) / 64; w += Group::workers)
      store_aligned(bits, w, packed[w]);
    for (std::size_t r = worker; r < whose.ranks; r += Group::workers)
      counts[b * whose.ranks + r] = count_of[r];
    group.sync();
  }
};

/// The message of one rank for a slice of blocks: a header, then its bits per block, in complete
/// bytes.
struct sampled_message {
  std::size_t begin, bytes;  ///< in a buffer of messages; `begin` is a multiple of 8
};

/// Copies this rank's packed bits of block b into its message.
struct write_owned_bits {
  encoded_layout layout;
  std::size_t ranks, rank;
  std::byte const* encoded;
  std::uint32_t const* counts;  ///< [block][rank]
  std::size_t const* starts;    ///< [block][rank]: first byte of a rank's bits in `messages`
  std::byte* messages;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    std::size_t const i = b * ranks + rank, bytes = (counts[i] + 7) / 8;
    std::byte const* const bits = encoded + layout.offset(b) + block_header_bytes;
    for (auto k = static_cast<std::size_t>(group.worker()); k < bytes; k += Group::workers)
      messages[starts[i] + k] = bits[k];
    group.sync();
  }
};

/// Writes the header of a complete message. It records whether a block had NaN or infinity.
struct close_sampled_message {
  encoded_layout layout;
  block_range blocks;
  std::byte const* encoded;
  sampled_message place;
  std::byte* messages;
  block_header header;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    std::uint64_t nonfinite = 0;
    for (auto b = blocks.first + static_cast<std::size_t>(group.worker()); b < blocks.end();
         b += Group::workers)
      nonfinite |=
          load_aligned<block_header>(encoded + layout.offset(b)).flags & block_has_nonfinite;
    bool const any = group.sum(nonfinite) != 0;
    if (group.worker() == 0) {
      auto whole = header;
      if (any) whole.flags |= block_has_nonfinite;
      store_aligned(messages + place.begin, 0, whole);
    }
    group.sync();
    if (header.flags & block_has_checksum) seal(group, messages + place.begin, place.bytes);
  }
};

/// Findings of one message, for the host.
struct inspected_message {
  block_header header;
  std::uint64_t is_intact;
};

struct inspect_messages {
  sampled_message const* places;
  std::byte const* messages;
  inspected_message* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte const* const message = messages + places[i].begin;
    bool const intact = is_intact(group, message, places[i].bytes);
    if (group.worker() == 0) out[i] = {load_aligned<block_header>(message), intact ? 1u : 0u};
  }
};

/// Scatters all ranks' bits to their positions: the block that merging along the tree would give.
struct unpack_owned_bits {
  encoded_layout layout;
  owners whose;
  block_header header;  ///< of the merged blocks, except index and length
  std::byte const* messages;
  std::size_t const* starts;  ///< [block][rank]: first byte of a rank's bits in `messages`
  std::byte* encoded;

  /// The position of the next bit of every rank.
  HCOMP_HD std::size_t scratch_bytes() const { return whose.ranks * sizeof(std::uint32_t); }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    int const n = layout.values_in(b);
    std::byte* const block = encoded + layout.offset(b);
    if (group.worker() == 0) {
      auto own = header;
      own.index = static_cast<std::uint32_t>(b);
      own.values = static_cast<std::uint16_t>(n);
      store_aligned(block, 0, own);
    }
    if constexpr (HasWarps<Group>)
      by_lanes(group, b, n, block + block_header_bytes);
    else if (whose.draws_lots())
      by_lots(group, b, n, block + block_header_bytes);
    else
      by_tiles(group, b, n, block + block_header_bytes);
  }

 private:
  template <class Group> void by_lots(Group group, std::size_t b, int n, std::byte* bits) const {
    std::array<std::uint64_t, sampling::max_ranks> next;  // bit positions in `messages`
    for (std::size_t r = 0; r < whose.ranks; ++r) next[r] = starts[b * whose.ranks + r] * 8;
    whose.for_drawn_words(group, owners::first_word(layout, b), n,
                          [&](int first, int count, std::uint16_t const* drawn) {
                            for (int w = 0; w < count; ++w) {
                              int const values = std::min(64, n - (first + w) * 64);
                              std::uint64_t merged = 0;
                              for (int i = 0; i < values; ++i) {
                                std::uint64_t const at = next[drawn[w * 64 + i]]++;
                                auto const byte = static_cast<std::uint64_t>(messages[at / 8]);
                                merged |= (byte >> at % 8 & 1) << i;
                              }
                              store(bits, static_cast<std::size_t>(first + w), merged);
                            }
                          });
  }

  template <class Group> void by_tiles(Group group, std::size_t b, int n, std::byte* bits) const {
    int const words = owners::words_of(n);
    std::memset(bits, 0, static_cast<std::size_t>(words) * 8);
    std::array<std::uint32_t, sampling::max_ranks> at;
    std::fill_n(at.begin(), whose.ranks, 0u);
    sampling::for_tiles(
        group, whose.nodes(), whose.ranks, words, owners::first_word(layout, b), whose.key,
        [&](int word, int tile, auto const& mask_of) {
          for (std::size_t r = 0; r < whose.ranks; ++r)
            at[r] = static_cast<std::uint32_t>(sign::scatter_bits(
                messages + starts[b * whose.ranks + r], at[r], mask_of(r), tile, bits + word * 8));
        });
    if (int const over = words * 64 - n; over > 0) {
      auto const last = static_cast<std::size_t>(words - 1);
      store(bits, last, load<std::uint64_t>(bits, last) << over >> over);
    }
  }

  template <class Group>
  HCOMP_HD void by_lanes(Group group, std::size_t b, int n, std::byte* bits) const {
    auto* const at = reinterpret_cast<std::uint32_t*>(group.scratch());
    for (auto r = static_cast<std::size_t>(group.worker()); r < whose.ranks; r += Group::workers)
      at[r] = 0;
    group.sync();
    std::uint64_t merged = 0;
    whose.for_each_word(
        group, owners::first_word(layout, b), n, [&] { merged = 0; },
        [&](std::size_t r, std::uint64_t mask) {
          std::uint32_t const before = at[r];
          auto const counted = group.running_sum(static_cast<std::uint64_t>(ones(mask)));
          merged |= sign::deposit_bits(
              sign::bits_at(messages + starts[b * whose.ranks + r], before + counted.before), mask);
          if (group.worker() == 0) at[r] = before + static_cast<std::uint32_t>(counted.all);
        },
        [&](int word) {
          if (word * 64 < n) store_aligned(bits, static_cast<std::size_t>(word), merged);
          group.sync();  // before the next bits are read
        });
  }
};

/// Marks every block as having NaN or infinity.
struct mark_nonfinite {
  encoded_layout layout;
  std::byte* encoded;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    if (group.worker() == 0) {
      std::byte* const block = encoded + layout.offset(b);
      auto header = load_aligned<block_header>(block);
      header.flags |= block_has_nonfinite;
      store_aligned(block, 0, header);
    }
    group.sync();
  }
};

}  // namespace hcomp::detail
