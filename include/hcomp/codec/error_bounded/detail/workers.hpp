#pragma once
/// @file
/// Chunks of error_bounded by the workers of a group, a worker for each block of 32 values.

#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// What the workers that read a chunk share.
struct chunk_reading {
  std::uint32_t places[most_blocks];  ///< of the payloads, in the chunk
  /// Blocks that do not depend on those before them begin runs. The integers before the blocks of
  /// run r are what all integers at the ends of blocks are together up to there, without this.
  std::uint32_t bases[most_blocks + 1];
};
/// What the workers of a group share while they work on a chunk. One worker has its own; workers
/// that share memory also have room for chunks, since payloads are at odd addresses, and are put
/// together and taken apart there.
template <class Group> class chunk_sharing {
 public:
  struct words {
    chunk_reading first, second;
    std::int32_t last[most_blocks];  ///< integer of every block
  };
  /// Of a chunk, 3 bytes before it, and a word behind it that is read.
  static constexpr std::size_t room = header::slot_bytes + 8;

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
/// Shared memory with room for so many chunks.
constexpr std::size_t sharing_bytes(std::size_t chunks) {
  using sharing = chunk_sharing<serial_group>;
  return sizeof(sharing::words) + chunks * sharing::room;
}

/// Takes the blocks of a chunk of a sound code, as many at a time as there are workers. All
/// workers call the same functions.
template <class Group> class worker_reader {
 public:
  /// @param in      at a multiple of 4
  /// @param i       chunk of a code of `values` values
  /// @param shared  memory of these workers
  /// @param room    for the chunk, or null
  HCOMP_HD void open(Group group, std::byte const* in, std::size_t i, std::size_t values,
                     chunk_reading& shared, std::byte* room) {
    auto const part = part_of_code<header>(in, i, chunks_of<header>(values));
    chunk_ = in + part.begin;
    values_ = values_of_chunk<header>(i, values);
    shared_ = &shared;
    if (room) {
      chunk_ = bring_words(group, in, part.begin, part.end, room);
      group.sync();
    }
    // the payloads of sparse blocks tell their lengths, so one is found after the other
    if (group.worker() == 0) {
      std::size_t at = front_bytes(values_);
      for (std::size_t k = 0; k < blocks_of(values_); ++k) {
        shared.places[k] = static_cast<std::uint32_t>(at);
        at += payload_bytes(mode_of(k), chunk_ + at, values_of_block(k, values_));
      }
      shared.bases[0] = 0u - load<std::uint32_t>(chunk_);
    }
    group.sync();
  }

  /// v = the worker's next block.
  /// @param k  which that is: in every call, one more than that of the worker below, and as many as
  ///           there are workers more than in the call before; zeros, if there are not so many
  HCOMP_HD void take(Group group, std::size_t k, value_block& v) {
    using state = value_block::state;
    bool const is_here = k < blocks_of(values_);
    std::uint8_t const byte = is_here ? mode_of(k) : 0;
    block_mode const mode{byte, 0};
    bool const is_difference = mode.kind() == block_kind::difference;
    std::uint32_t last = 0;
    v.is = state::zeros;
    if (byte == words_mode) {
      std::byte const* const words = chunk_ + shared_->places[k];
      std::size_t const n = values_of_block(k, values_);
      v.is = state::words;
      for (std::size_t j = 0; j < block_values; ++j)
        v.set_word(j, j < n ? load<std::uint32_t>(words, j) : 0);
    } else if (byte != 0) {
      v.is = state::integers;
      last = static_cast<std::uint32_t>(
          unpack_block(mode, chunk_ + shared_->places[k], 0, false, v.q));
    }

    // above, what the ends of blocks are together, and below, how many runs begin
    auto const sums = group.running_sum(std::uint64_t{last} << 32 | (is_difference ? 0u : 1u));
    std::uint32_t const before = ends_ + static_cast<std::uint32_t>(sums.before >> 32);
    std::uint32_t const run =
        runs_ + static_cast<std::uint32_t>(sums.before) + (is_difference ? 0 : 1);
    if (is_here && !is_difference) shared_->bases[run] = before;
    ends_ += static_cast<std::uint32_t>(sums.all >> 32);
    runs_ += static_cast<std::uint32_t>(sums.all);
    group.sync();
    if (!is_difference) return;
    auto const base = static_cast<std::int32_t>(before - shared_->bases[run]);
    for (auto& value : v.q) value = add_wrapping(value, base);
  }

 private:
  HCOMP_HD std::uint8_t mode_of(std::size_t k) const {
    return static_cast<std::uint8_t>(chunk_[sizeof(std::int32_t) + k]);
  }

  std::byte const* chunk_ = nullptr;
  std::size_t values_ = 0;
  chunk_reading* shared_ = nullptr;
  std::uint32_t ends_ = 0, runs_ = 0;  ///< of the calls before
};

/// v += other.
HCOMP_HD inline void add_blocks(step_grid const& grid, value_block& v, value_block& other,
                                word_sums& sums) {
  using state = value_block::state;
  if (other.is == state::zeros) return;
  if (v.is == state::zeros) {
    v = other;
  } else if (v.is == state::integers && other.is == state::integers) {
    for (std::size_t j = 0; j < block_values; ++j) v.q[j] = add_wrapping(v.q[j], other.q[j]);
  } else {
    if (v.is == state::integers) v.make_words();
    if (other.is == state::integers) other.make_words();
    for (std::size_t j = 0; j < block_values; ++j)
      v.set_word(j, sum_of_words(grid, v.word(j), other.word(j), sums));
  }
}

}  // namespace hcomp::detail::error_bounded
