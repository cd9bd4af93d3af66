#pragma once
/// @file
/// Chunks of error_bounded for groups of workers, one worker per block of 32 values. Devices keep a
/// block in registers, so all loops over its values are unrolled.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/codec/error_bounded/detail/header.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <type_traits>

namespace hcomp::detail::error_bounded {

inline constexpr std::size_t most_blocks = chunk_values / block_values;

// ---- Memory shared by workers

/// Places of the blocks of a chunk that is read.
struct block_places {
  std::uint32_t payloads[most_blocks];  ///< offsets of the payloads in the chunk
  std::uint32_t before[most_blocks];    ///< integer before the first value, for differences
};
/// Memory that the workers of a group share while they process a chunk. It also has buffers for
/// chunks: payloads are at odd addresses, so workers assemble and split chunks in shared memory. A
/// group of one worker has its own memory and no buffers.
template <class Group> class chunk_sharing {
 public:
  struct words {
    block_places first, second;
    std::uint32_t sums[most_blocks + 1];         ///< scratch of worker_reader::open
    alignas(16) std::int32_t last[most_blocks];  ///< last integer of each block
  };
  /// Size of a buffer: a chunk, up to 15 bytes before it, and 16 bytes that are read after it.
  static constexpr std::size_t area_bytes_of_chunk = (header::slot_bytes + 31 + 15) / 16 * 16;
  static_assert(area_bytes_of_chunk >=
                own_block<serial_group, float, block_values, most_blocks>::area_bytes);
  static_assert(sizeof(words) % 16 == 0);
  HCOMP_HD explicit chunk_sharing(Group group) {
    if constexpr (Group::workers > 1) {
      static_assert(SharesMemory<Group>);
      shared_ = reinterpret_cast<std::byte*>(group.scratch());
    }
  }
  HCOMP_HD words& operator*() {
    if constexpr (Group::workers == 1)
      return own_;
    else
      return *reinterpret_cast<words*>(shared_);
  }
  HCOMP_HD words* operator->() { return &**this; }
  /// Buffer number i; null for a group of one worker.
  HCOMP_HD std::byte* chunk(std::size_t i) const {
    return Group::workers == 1 ? nullptr : shared_ + sizeof(words) + i * area_bytes_of_chunk;
  }

 private:
  struct nothing {};
  std::conditional_t<Group::workers == 1, words, nothing> own_;
  std::byte* shared_ = nullptr;
};
/// Size in bytes of shared memory with this number of buffers. Values share the last buffer.
constexpr std::size_t sharing_bytes(std::size_t chunks) {
  using sharing = chunk_sharing<serial_group>;
  return sizeof(sharing::words) + chunks * sharing::area_bytes_of_chunk;
}

// ---- Bit planes of a block

/// One step of the transposition of a bit matrix, for two rows that are `distance` apart.
/// @param lower  mask of the columns whose index does not contain bit `distance`
HCOMP_HD inline void exchange_parts(std::uint32_t& low, std::uint32_t& high, int distance,
                                    std::uint32_t lower) {
#if defined(__CUDA_ARCH__)
  if (distance >= 8) {
    std::uint32_t const first = pick_bytes(low, high, distance == 16 ? 0x5410 : 0x6240);
    high = pick_bytes(low, high, distance == 16 ? 0x7632 : 0x7351);
    low = first;
    return;
  }
#endif
  std::uint32_t const first = chosen_bits(lower, low, high << distance);
  high = chosen_bits(lower, low >> distance, high);
  low = first;
}
/// Together with transpose_half of both halves, in any order, transposes the bit matrix: bit b of
/// words[j] becomes bit j of words[b].
HCOMP_HD inline void exchange_halves(std::uint32_t (&words)[block_values]) {
  HCOMP_UNROLL_ON_DEVICE
  for (int i = 0; i < 16; ++i) exchange_parts(words[i], words[i + 16], 16, 0x0000ffffu);
}
template <int First> HCOMP_HD void transpose_half(std::uint32_t (&words)[block_values]) {
  std::uint32_t lower = 0x00ff00ffu;
  HCOMP_UNROLL_ON_DEVICE
  for (int distance = 8; distance > 0; distance /= 2) {
    HCOMP_UNROLL_ON_DEVICE
    for (int i = First; i < First + 16; ++i)
      if ((i & distance) == 0) exchange_parts(words[i], words[i + distance], distance, lower);
    lower ^= lower << distance / 2;
  }
}

HCOMP_HD inline bool is_whole(std::byte const* at) {
  return reinterpret_cast<std::uintptr_t>(at) % 4 == 0;
}
/// Stores words `First` to `End` - 1 that are below `count`, at any address.
template <std::size_t First, std::size_t End>
HCOMP_HD void put_words(std::uint32_t const (&words)[block_values], std::size_t count,
                        std::byte* out) {
  if (is_whole(out)) {
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = First; j < End; ++j)
      if (j < count) store_aligned(out, j, words[j]);
  } else {
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = First; j < End; ++j)
      if (j < count) store(out, j, words[j]);
  }
}
/// Inverse of put_words; words from `count` on are unspecified.
/// @param reads_whole  aligned words that overlap the begin and the end of `in` may be read
template <std::size_t First, std::size_t End>
HCOMP_HD void take_words(std::byte const* in, std::size_t count, bool reads_whole,
                         std::uint32_t (&words)[block_values]) {
  if (!reads_whole) {
    for (std::size_t j = First; j < End; ++j) words[j] = j < count ? load<std::uint32_t>(in, j) : 0;
    return;
  }
  auto const odd = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(in) % 4);
  std::byte const* const from = in - odd;
  auto next = load_aligned<std::uint32_t>(from, First);
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t j = First; j < End; ++j) {
    std::uint32_t const low = next;
    if (j < count) next = load_aligned<std::uint32_t>(from, j + 1);
    words[j] = moved_down(low, next, 8 * odd);
  }
}
/// Stores bit planes 0 to `width` - 1 of the words, 32 bits each. Widths above 16 are rare.
HCOMP_HD inline void put_planes(std::uint32_t (&words)[block_values], std::size_t width,
                                std::byte* out) {
  exchange_halves(words);
  transpose_half<0>(words);
  put_words<0, 16>(words, width, out);
  if (width <= 16) return;
  transpose_half<16>(words);
  put_words<16, 32>(words, width, out);
}
/// Inverse of put_planes; bits from `width` on are unspecified.
HCOMP_HD inline void take_planes(std::byte const* in, std::size_t width, bool reads_whole,
                                 std::uint32_t (&words)[block_values]) {
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t j = 16; j < 32; ++j) words[j] = 0;
  if (width > 16) {
    take_words<16, 32>(in, width, reads_whole, words);
    transpose_half<16>(words);
  }
  take_words<0, 16>(in, width, reads_whole, words);
  transpose_half<0>(words);
  exchange_halves(words);
}

/// put_block for the values of one worker.
HCOMP_HD inline void put_own_block(std::int32_t const (&q)[block_values], std::int32_t before,
                                   std::size_t n, block_mode mode, std::uint32_t nonzero,
                                   std::byte* out) {
  std::uint32_t words[block_values];
  if (mode.kind() == block_kind::sparse) {
    store(out, 0, nonzero);
    std::byte* at = out + 4;
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) {
      auto const value = static_cast<std::uint32_t>(q[j]);
      if (value == 0) continue;
      at[0] = static_cast<std::byte>(value);
      if (mode.width() > 1) at[1] = static_cast<std::byte>(value >> 8);
      if (mode.width() > 2) {
        at[2] = static_cast<std::byte>(value >> 16);
        at[3] = static_cast<std::byte>(value >> 24);
      }
      at += mode.width();
    }
  } else if (mode.kind() == block_kind::words) {
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) words[j] = word_of(q[j]);
    put_words<0, block_values>(words, n, out);
  } else {
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) words[j] = static_cast<std::uint32_t>(q[j]);
    if (mode.kind() == block_kind::difference) {
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j < block_values; ++j)
        words[j] = static_cast<std::uint32_t>(difference_at(q, before, j));
    }
    put_planes(words, static_cast<std::size_t>(mode.width()), out);
  }
}

// ---- Blocks of a chunk

/// Reads the blocks of a valid chunk in any order.
template <class Group> class worker_reader {
 public:
  /// Finds the places of all blocks. All workers call it.
  /// @param in      encoded vector of `values` values, 4-byte aligned
  /// @param i       index of the chunk
  /// @param places  becomes the places; this and `sums` are memory shared by the workers
  /// @param area_bytes_of_chunk    buffer for the chunk in shared memory, or null
  HCOMP_HD void open(Group group, std::byte const* in, std::size_t i, std::size_t values,
                     block_places& places, std::uint32_t (&sums)[most_blocks + 1],
                     std::byte* area_bytes_of_chunk) {
    auto const part = part_of_encoded<header>(in, i, chunks_of<header>(values));
    chunk_ = in + part.begin;
    values_ = values_of_chunk<header>(i, values);
    places_ = &places;
    if (area_bytes_of_chunk) {
      chunk_ =
          area_bytes_of_chunk + bring_chunk(group, in, part.begin, part.end, area_bytes_of_chunk);
      group.sync();
    }
    find_payloads(group, sums);
    find_integers_before(group, sums);
  }

  /// v = block k; zeros after the last block. Sets v.q in any case.
  HCOMP_HD void take(std::size_t k, value_block& v) const {
    using state = value_block::state;
    v.is = state::zeros;
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) v.q[j] = 0;
    if (k >= blocks_of(values_) || mode_of(k) == 0) return;
    block_mode const mode{mode_of(k), 0};
    std::byte const* const at = chunk_ + places_->payloads[k];
    std::uint32_t words[block_values];
    if (mode.byte == words_mode) {
      v.is = state::words;
      auto const n = values_of_block(k, values_);
      take_words<0, block_values>(at, n, reads_whole, words);
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j < block_values; ++j) v.set_word(j, j < n ? words[j] : 0);
      return;
    }
    v.is = state::integers;
    if (mode.kind() == block_kind::sparse) return take_sparse(at, mode.width(), v);
    if (mode.width() > 0) {
      take_planes(at, static_cast<std::size_t>(mode.width()), reads_whole, words);
      int const unused = 32 - mode.width();
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j < block_values; ++j)  // the highest plane is the sign
        v.set_word(j, same_sign(words[j] << unused, unused));
    }
    if (mode.kind() != block_kind::difference) return;
    std::uint32_t before = places_->before[k];
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) v.set_word(j, before += v.word(j));
  }

 private:
  static constexpr bool reads_whole = Group::workers > 1;

  HCOMP_HD std::uint8_t mode_of(std::size_t k) const {
    return static_cast<std::uint8_t>(chunk_[sizeof(std::int32_t) + k]);
  }
  HCOMP_HD bool is_difference(std::size_t k) const {
    return block_mode{mode_of(k), 0}.kind() == block_kind::difference;
  }
  HCOMP_HD static std::uint32_t same_sign(std::uint32_t word, int by) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(word) >> by);
  }
  HCOMP_HD static std::uint32_t sparse_value(std::byte const* at, int width) {
    auto value = static_cast<std::uint32_t>(at[0]);
    if (width > 1) value |= static_cast<std::uint32_t>(at[1]) << 8;
    if (width > 2)
      value |= static_cast<std::uint32_t>(at[2]) << 16 | static_cast<std::uint32_t>(at[3]) << 24;
    return same_sign(value << (32 - 8 * width), 32 - 8 * width);
  }
  HCOMP_HD static void take_sparse(std::byte const* in, int width, value_block& v) {
    auto const nonzero = load<std::uint32_t>(in);
    std::byte const* at = in + 4;
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) {
      std::uint32_t value = 0;
      if ((nonzero >> j & 1) != 0) {
        value = sparse_value(at, width);
        at += width;
      }
      v.set_word(j, value);
    }
  }

  /// Finds the payloads. The mode byte gives the size of a payload, except for sparse blocks: their
  /// size is in the payload, so one worker visits them in order.
  /// @param more  scratch; becomes the total size of the sparse payloads up to each sparse block
  HCOMP_HD void find_payloads(Group group, std::uint32_t (&more)[most_blocks + 1]) const {
    auto* const payloads = places_->payloads;
    auto* const sparse_before = places_->before;  // scratch until find_integers_before
    std::size_t const blocks = blocks_of(values_);
    auto const worker = static_cast<std::size_t>(group.worker());
    auto bytes_before = static_cast<std::uint32_t>(front_bytes(values_));
    std::uint32_t sparse = 0;
    for (std::size_t first = 0; first < blocks; first += Group::workers) {
      std::size_t const k = first + worker;
      bool const has_block = k < blocks;
      block_mode const mode{has_block ? mode_of(k) : std::uint8_t{0}, 0};
      bool const is_sparse = mode.kind() == block_kind::sparse;
      auto const bytes = static_cast<std::uint32_t>(
          has_block && !is_sparse ? payload_bytes(mode.byte, chunk_, values_of_block(k, values_))
                                  : 0);
      static_assert(header::slot_bytes < 1 << 16);
      auto const sums = group.running_sum(std::uint32_t{is_sparse} << 16 | bytes);
      auto const before = static_cast<std::uint32_t>(sums.before),
                 all = static_cast<std::uint32_t>(sums.all);
      if (has_block) {
        std::uint32_t const number = sparse + (before >> 16);
        payloads[k] = bytes_before + (before & 0xffffu);
        sparse_before[k] = number;
        if (is_sparse) more[number] = static_cast<std::uint32_t>(k);
      }
      bytes_before += all & 0xffffu;
      sparse += all >> 16;
      if (Group::workers >= most_blocks) break;
    }
    if (sparse == 0) return;  // each worker knows the places of its blocks
    group.sync();
    if (worker == 0) {
      std::uint32_t bytes = 0;
      for (std::uint32_t s = 0; s < sparse; ++s) {
        std::uint32_t const k = more[s];
        bytes += static_cast<std::uint32_t>(
            payload_bytes(mode_of(k), chunk_ + payloads[k] + bytes, block_values));
        more[s] = bytes;
      }
    }
    group.sync();
    for (std::size_t k = worker; k < blocks; k += Group::workers) {
      if (sparse_before[k] > 0) payloads[k] += more[sparse_before[k] - 1];
      if (Group::workers >= most_blocks) break;
    }
    group.sync();
  }

  /// Finds the integer before each block of differences. A block that does not depend on earlier
  /// blocks begins a run. The integer before a block is the total of end_of over its run so far.
  HCOMP_HD void find_integers_before(Group group, std::uint32_t (&bases)[most_blocks + 1]) const {
    std::size_t const blocks = blocks_of(values_);
    auto const worker = static_cast<std::size_t>(group.worker());
    bool some = false;
    for (std::size_t k = worker; k < blocks; k += Group::workers) {
      some |= is_difference(k);
      if (Group::workers >= most_blocks) break;
    }
    if (!group.any(some)) return;
    if (worker == 0) bases[0] = 0u - load<std::uint32_t>(chunk_);
    std::uint32_t ends = 0, runs = 0;
    for (std::size_t first = 0; first < blocks; first += Group::workers) {
      std::size_t const k = first + worker;
      bool const has_block = k < blocks, begins_run = has_block && !is_difference(k);
      auto const sums = group.running_sum(std::uint64_t{has_block ? end_of(k) : 0} << 32 |
                                          (begins_run ? 1u : 0u));
      std::uint32_t const before = ends + static_cast<std::uint32_t>(sums.before >> 32),
                          run = runs + static_cast<std::uint32_t>(sums.before);
      if (begins_run) bases[run + 1] = before;
      ends += static_cast<std::uint32_t>(sums.all >> 32);
      runs += static_cast<std::uint32_t>(sums.all);
      group.sync();
      if (has_block && !begins_run) places_->before[k] = before - bases[run];
      if (Group::workers >= most_blocks) break;
    }
    group.sync();
  }
  /// Last integer of block k; for differences, their total.
  HCOMP_HD std::uint32_t end_of(std::size_t k) const {
    block_mode const mode{mode_of(k), 0};
    std::byte const* const at = chunk_ + places_->payloads[k];
    if (mode.kind() == block_kind::words) return 0;
    if (mode.kind() == block_kind::sparse) {
      auto const nonzero = load<std::uint32_t>(at);
      if (nonzero >> 31 == 0) return 0;
      return sparse_value(at + 4 + mode.width() * (ones(nonzero) - 1), mode.width());
    }
    bool const is_difference = mode.kind() == block_kind::difference;
    std::uint32_t end = 0;
    for (int b = 0; b < mode.width(); ++b) {
      auto const plane = load<std::uint32_t>(at, static_cast<std::size_t>(b));
      std::uint32_t const bits =
          is_difference ? static_cast<std::uint32_t>(ones(plane)) : plane >> 31;
      end += (b + 1 < mode.width() ? bits : 0u - bits) << b;
    }
    return end;
  }

  std::byte const* chunk_ = nullptr;
  std::size_t values_ = 0;
  block_places* places_ = nullptr;
};

/// Adds a block to `other`.
/// @param own  integers or words of the block, as bits of floats
template <class Own>
HCOMP_HD void add_block(step_grid const& grid, value_block::state is, Own const& own,
                        value_block& other, word_sums& sums) {
  using state = value_block::state;
  auto const each = [&](auto const& use) {  // use(j, q)
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Own::runs; ++r) {
      auto const some = own.get(r);
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned e = 0; e < Own::in_run; ++e)
        use(Own::in_run * r + e, same_bits<std::int32_t>(some.values[e]));
    }
  };
  if (is == state::zeros) return;
  if (other.is == state::zeros) {
    other.is = is;
    each([&](unsigned j, std::int32_t q) { other.q[j] = q; });
  } else if (is == state::integers && other.is == state::integers) {
    each([&](unsigned j, std::int32_t q) { other.q[j] = add_wrapping(q, other.q[j]); });
  } else {
    if (other.is == state::integers) other.make_words();
    // rare and long: one copy of the code; the loop rotates the registers
    for (std::size_t turn = 0; turn < block_values; ++turn) {
      auto const q = same_bits<std::int32_t>(own[turn]);
      auto const mine = is == state::integers ? word_of(q) : static_cast<std::uint32_t>(q);
      auto const sum = static_cast<std::int32_t>(sum_of_words(grid, mine, other.word(0), sums));
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j + 1 < block_values; ++j) other.q[j] = other.q[j + 1];
      other.q[block_values - 1] = sum;
    }
  }
}

}  // namespace hcomp::detail::error_bounded
