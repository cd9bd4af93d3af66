#pragma once
/// @file
/// Chunks of error_bounded by the workers of a group, a worker for each block of 32 values. A device
/// has these in registers: all loops over them are written out.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
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

// ---- What workers share

/// Of a chunk that is read, by blocks.
struct block_places {
  std::uint32_t payloads[most_blocks];  ///< where they are, in the chunk
  std::uint32_t before[most_blocks];    ///< the integer that the differences of a block begin with
};
/// What the workers of a group share while they work on a chunk. One worker has its own; workers
/// that share memory also have room for chunks, since payloads are at odd addresses, and are put
/// together and taken apart there.
template <class Group> class chunk_sharing {
 public:
  struct words {
    block_places first, second;
    std::uint32_t sums[most_blocks + 1];         ///< while places are found
    alignas(16) std::int32_t last[most_blocks];  ///< integer of every block
  };
  /// Of a chunk, 15 bytes before it, and 16 behind it that are read.
  static constexpr std::size_t room = (header::slot_bytes + 31 + 15) / 16 * 16;
  static_assert(room >= own_block<serial_group, float, block_values, most_blocks>::room_bytes);
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
  /// Room number i; null for one worker.
  HCOMP_HD std::byte* chunk(std::size_t i) const {
    return Group::workers == 1 ? nullptr : shared_ + sizeof(words) + i * room;
  }

 private:
  struct nothing {};
  std::conditional_t<Group::workers == 1, words, nothing> own_;
  std::byte* shared_ = nullptr;
};
/// Shared memory with room for so many chunks, the last of which takes turns with values.
constexpr std::size_t sharing_bytes(std::size_t chunks) {
  using sharing = chunk_sharing<serial_group>;
  return sizeof(sharing::words) + chunks * sharing::room;
}

// ---- Bits of a block's values

/// One step of a transposition, of two words that are `distance` apart.
/// @param lower  bits whose number has no `distance` in it
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
/// Bit b of words[j] becomes bit j of words[b], by this and by transpose_half of both halves, in any
/// order.
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
/// Words `First` to `End` of `count` to any address.
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
/// And back; behind them, anything.
/// @param reads_whole  there are words on both sides
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
/// Bits 0 to `width` - 1 of all words, a word for each. Seldom are there more than 16.
HCOMP_HD inline void put_planes(std::uint32_t (&words)[block_values], std::size_t width,
                                std::byte* out) {
  exchange_halves(words);
  transpose_half<0>(words);
  put_words<0, 16>(words, width, out);
  if (width <= 16) return;
  transpose_half<16>(words);
  put_words<16, 32>(words, width, out);
}
/// And back; above them, anything.
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

/// As put_block, of a worker's own values.
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

/// Takes the blocks of a chunk of a sound code, in any order.
template <class Group> class worker_reader {
 public:
  /// For all workers.
  /// @param in      at a multiple of 4
  /// @param i       chunk of a code of `values` values
  /// @param places  of this chunk; this and `sums` are memory of these workers
  /// @param room    for the chunk, or null
  HCOMP_HD void open(Group group, std::byte const* in, std::size_t i, std::size_t values,
                     block_places& places, std::uint32_t (&sums)[most_blocks + 1],
                     std::byte* room) {
    auto const part = part_of_code<header>(in, i, chunks_of<header>(values));
    chunk_ = in + part.begin;
    values_ = values_of_chunk<header>(i, values);
    places_ = &places;
    if (room) {
      chunk_ = room + bring_chunk(group, in, part.begin, part.end, room);
      group.sync();
    }
    find_payloads(group, sums);
    find_integers_before(group, sums);
  }

  /// v = block k; behind the last one, zeros. Its integers are set in any case.
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
      for (std::size_t j = 0; j < block_values; ++j)  // the highest bit is the sign
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

  /// All blocks but sparse ones say how long they are. Those lie one behind the other, so one worker
  /// finds them.
  /// @param more  bytes of the sparse blocks up to each of them
  HCOMP_HD void find_payloads(Group group, std::uint32_t (&more)[most_blocks + 1]) const {
    auto* const payloads = places_->payloads;
    auto* const sparse_before = places_->before;  // which are found later
    std::size_t const blocks = blocks_of(values_);
    auto const worker = static_cast<std::size_t>(group.worker());
    auto bytes_before = static_cast<std::uint32_t>(front_bytes(values_));
    std::uint32_t sparse = 0;
    for (std::size_t first = 0; first < blocks; first += Group::workers) {
      std::size_t const k = first + worker;
      bool const is_here = k < blocks;
      block_mode const mode{is_here ? mode_of(k) : std::uint8_t{0}, 0};
      bool const is_sparse = mode.kind() == block_kind::sparse;
      auto const bytes = static_cast<std::uint32_t>(
          is_here && !is_sparse ? payload_bytes(mode.byte, chunk_, values_of_block(k, values_))
                                : 0);
      static_assert(header::slot_bytes < 1 << 16);
      auto const sums = group.running_sum(std::uint32_t{is_sparse} << 16 | bytes);
      auto const before = static_cast<std::uint32_t>(sums.before),
                 all = static_cast<std::uint32_t>(sums.all);
      if (is_here) {
        std::uint32_t const number = sparse + (before >> 16);
        payloads[k] = bytes_before + (before & 0xffffu);
        sparse_before[k] = number;
        if (is_sparse) more[number] = static_cast<std::uint32_t>(k);
      }
      bytes_before += all & 0xffffu;
      sparse += all >> 16;
      if (Group::workers >= most_blocks) break;
    }
    if (sparse == 0) return;  // every worker has found the places of its blocks
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

  /// Blocks that do not depend on those before them begin runs. What a block of differences begins
  /// with is what the integers at the ends of blocks come to from the beginning of its run on.
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
      bool const is_here = k < blocks, begins_run = is_here && !is_difference(k);
      auto const sums =
          group.running_sum(std::uint64_t{is_here ? end_of(k) : 0} << 32 | (begins_run ? 1u : 0u));
      std::uint32_t const before = ends + static_cast<std::uint32_t>(sums.before >> 32),
                          run = runs + static_cast<std::uint32_t>(sums.before);
      if (begins_run) bases[run + 1] = before;
      ends += static_cast<std::uint32_t>(sums.all >> 32);
      runs += static_cast<std::uint32_t>(sums.all);
      group.sync();
      if (is_here && !begins_run) places_->before[k] = before - bases[run];
      if (Group::workers >= most_blocks) break;
    }
    group.sync();
  }
  /// The last integer of block k; of differences, their sum.
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

/// other += a block.
/// @param own  its integers or words, as bits of floats
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
    // rare and long: written out once, while the registers change places
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
