#pragma once
/// @file
/// Chunks that consist of blocks: first the mode of every block, then the payloads, contiguously.
/// Any group reads them, with one worker per block.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/block_part.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail {

/// @tparam Header  header of encoded vectors, with slot_bytes of a chunk
/// @tparam Block   a block of up to Block::values values. A `Block::mode` precedes the payloads and
///                 determines the length of its own: `mode.payload_bytes(n)`; `take(mode, n, in)`
///                 reads it.
template <class Header, class Block> struct block_chunks {
  using mode = typename Block::mode;
  using T = typename Header::value_type;
  static constexpr std::size_t most_blocks = detail::blocks_of<Block::values>(Header::chunk_values);

  // ---- Workers with shared memory stage chunks there, because payloads are at odd addresses

  /// Bytes of a chunk, 15 bytes before it, and 16 readable bytes behind it.
  static constexpr std::size_t area_bytes = (Header::slot_bytes + 31 + 15) / 16 * 16;
  static constexpr std::size_t all_staging_bytes(std::size_t chunks) { return chunks * area_bytes; }
  /// Staging area number i; null for workers without shared memory.
  template <class Group> HCOMP_HD static std::byte* staging_of(Group group, std::size_t i) {
    if constexpr (SharesMemory<Group>)
      return reinterpret_cast<std::byte*>(group.scratch()) + i * area_bytes;
    else
      return nullptr;
  }
  /// The blocks that the workers of a group process concurrently.
  struct worker_blocks {
    std::size_t block, n;  ///< index of the worker's block in the chunk, and its number of values;
                           ///< 0: it has none
    std::size_t first;     ///< index of its first value in the vector
  };
  /// The blocks from `begin` on of chunk i, which has n values.
  template <class Group>
  HCOMP_HD static worker_blocks blocks_at(Group group, std::size_t i, std::size_t n,
                                          std::size_t begin) {
    std::size_t const k = begin + static_cast<std::size_t>(group.worker());
    bool const has_block = k < detail::blocks_of<Block::values>(n);
    return {k, has_block ? detail::values_of_block<Block::values>(k, n) : 0,
            i * Header::chunk_values + k * Block::values};
  }

  /// Reads the blocks of a chunk of a valid encoded vector, one per worker at a time.
  template <class Group> struct reader {
    std::byte const* chunk = nullptr;
    std::size_t n = 0, at = 0;

    /// @param in    null: reads nothing
    /// @param area  staging area for the chunk, if the workers share memory
    HCOMP_HD reader(Group group, std::byte const* in, std::size_t i, std::size_t values,
                    [[maybe_unused]] std::byte* area) {
      if (!in) return;
      auto const part = part_of_encoded<Header>(in, i, chunks_of<Header>(values));
      chunk = in + part.begin;
      n = values_of_chunk<Header>(i, values);
      at = detail::blocks_of<Block::values>(n) * sizeof(mode);
      if constexpr (SharesMemory<Group>) {
        chunk = bring_bytes(group, in, part.begin, part.end, area);
        group.sync();
      }
    }
    /// Reads the worker's next block into v; leaves v unchanged if the chunk has no such block.
    /// @param k  index of the block; each call increases it by the number of workers
    HCOMP_HD void take(Group group, std::size_t k, Block& v) {
      bool const has_block = k < detail::blocks_of<Block::values>(n);
      std::size_t const count = has_block ? detail::values_of_block<Block::values>(k, n) : 0;
      auto const what = has_block ? load<mode>(chunk, k) : mode{};
      auto const bytes = group.running_sum(what.payload_bytes(count));
      if (has_block) v.take(what, count, chunk + at + bytes.before);
      at += bytes.all;
    }
  };
  /// All workers call f(worker_blocks, block) for the blocks of chunk i. For workers without a
  /// block, its content is unspecified.
  template <class Group, class F>
  HCOMP_HD static void for_blocks(Group group, std::byte const* in, std::size_t i,
                                  std::size_t values, F const& f) {
    reader<Group> from(group, in, i, values, staging_of(group, 0));
    for (std::size_t begin = 0; begin < detail::blocks_of<Block::values>(from.n);
         begin += Group::workers) {
      auto const at = blocks_at(group, i, from.n, begin);
      Block v;
      from.take(group, at.block, v);
      f(at, v);
    }
  }

  // ---- Blocks processed by several lanes each

  template <class Group> using part = block_part<Group, T, Block::values, most_blocks>;

  static constexpr std::size_t parts_bytes(std::size_t chunks) {
    return all_staging_bytes(chunks) + most_blocks * sizeof(std::uint32_t);
  }
  /// Positions of payloads in the staging area of a chunk, in bits.
  struct places {
    std::uint32_t own, end;  ///< payload of the lane's block, and end of all payloads
  };
  /// @param begin  of the first payload
  /// @param bytes  size of the payload of block `lane`, 0 if there is none
  template <class Group>
  HCOMP_HD static places places_of(Group group, part<Group> const& mine, std::uint32_t begin,
                                   std::uint32_t bytes) {
    static_assert(most_blocks <= 32);
    std::uint32_t through = bytes;
    HCOMP_UNROLL
    for (unsigned distance = 1; distance < most_blocks; distance *= 2) {
      std::uint32_t const below =
          group.lane_value(through, static_cast<int>((mine.lane - distance) % 32));
      through += mine.lane >= distance ? below : 0;
    }
    constexpr int last = static_cast<int>(most_blocks) - 1;
    return {begin + 8 * group.lane_value(through - bytes, static_cast<int>(mine.block)),
            begin + 8 * group.lane_value(through, last)};
  }
  /// Exchanges payload lengths: all blocks announce theirs, and each lane finds the position of its
  /// block.
  class shared_lengths {
   public:
    /// @param area  memory behind the staging areas of chunks
    HCOMP_HD explicit shared_lengths(std::byte* area)
        : lengths_(reinterpret_cast<std::uint32_t*>(area)) {}
    /// Announces a length. All workers call it before their next sync.
    template <class Group> HCOMP_HD void say(part<Group> const& mine, std::size_t bytes) const {
      if (mine.part() == 0) lengths_[mine.block] = static_cast<std::uint32_t>(bytes);
    }
    /// Returns the positions; called after that sync.
    template <class Group>
    HCOMP_HD places find(Group group, part<Group> const& mine, std::uint32_t begin) const {
      return places_of(group, mine, begin, mine.lane < most_blocks ? lengths_[mine.lane] : 0);
    }

   private:
    std::uint32_t* lengths_;
  };

  /// Reads the parts of the blocks of a chunk of a valid encoded vector.
  template <class Group> struct part_reader {
    std::byte const* area = nullptr;

    /// Stages the chunk. All workers call it before their next sync.
    /// @param in  null: reads nothing
    HCOMP_HD part_reader(Group group, std::byte const* in, std::size_t i, std::size_t values,
                         std::byte* to) {
      if (!in) return;
      auto const part = part_of_encoded<Header>(in, i, chunks_of<Header>(values));
      skipped_ = bring_chunk(group, in, part.begin, part.end, to);
      area = to;
    }
    // ---- After that sync

    HCOMP_HD mode mode_of(std::size_t k) const { return load<mode>(area + skipped_, k); }
    /// @param n  values of the chunk
    HCOMP_HD places find(Group group, part<Group> const& mine, unsigned n) const {
      auto const blocks = static_cast<unsigned>(detail::blocks_of<Block::values>(n));
      std::size_t bytes = 0;
      if (mine.lane < blocks)
        bytes =
            mode_of(mine.lane).payload_bytes(detail::values_of_block<Block::values>(mine.lane, n));
      return places_of(group, mine, 8 * (skipped_ + blocks * static_cast<unsigned>(sizeof(mode))),
                       static_cast<std::uint32_t>(bytes));
    }

   private:
    unsigned skipped_ = 0;
  };

  /// The encoded vectors from which a chunk is made, each with its own staging area. All workers
  /// construct it.
  template <class Reader> struct sources {
    Reader a, b;
    std::size_t areas;  ///< number of staging areas in use

    template <class Group>
    HCOMP_HD sources(Group group, encoded_sources<T> const& from, std::size_t i)
        : a(group, from.a, i, from.values, staging_of(group, 0)),
          b(group, from.b, i, from.values, staging_of(group, from.a ? 1 : 0)),
          areas(std::size_t{from.a != nullptr} + (from.b != nullptr)) {}
  };
  /// The same by parts, followed by a cleared staging area in which the new chunk is assembled.
  /// Constructed before the workers' next sync.
  template <class Group> struct part_sources : sources<part_reader<Group>> {
    std::byte* chunk;
    shared_lengths lengths;

    HCOMP_HD part_sources(Group group, encoded_sources<T> const& from, std::size_t i)
        : sources<part_reader<Group>>(group, from, i),
          chunk(staging_of(group, this->areas)),
          lengths(staging_of(group, this->areas + 1)) {
      clear_area(group, chunk, area_bytes);
    }
  };

  // ---- Vectorized blocks, which read and write up to 64 bytes behind a payload

  static constexpr std::size_t behind_payload = 64;

  /// A chunk of a valid encoded vector, with behind_payload readable bytes behind it.
  class readable {
   public:
    /// @param in  null: there is no encoded vector
    readable(std::byte const* in, std::size_t i, std::size_t values) {
      if (!in) return;
      auto const part = part_of_encoded<Header>(in, i, chunks_of<Header>(values));
      modes_ = in + part.begin;
      if (load<Header>(in).bytes - part.end < behind_payload) {
        memcpy(last_, modes_, part.end - part.begin);
        modes_ = last_;
      }
      n_ = values_of_chunk<Header>(i, values);
      payload_ = modes_ + detail::blocks_of<Block::values>(n_) * sizeof(mode);
    }
    readable(readable const&) = delete;

    std::byte const* modes() const { return modes_; }
    /// Payload of the first block.
    std::byte const* payload() const { return payload_; }
    /// Finds all payloads. `Payload` is {its first byte, its mode}.
    template <class Payload> void take(Payload (&all)[most_blocks]) const {
      std::byte const* at = payload_;
      std::size_t const whole = n_ / Block::values;
      for (std::size_t k = 0; k < whole; ++k) {
        all[k] = {at, load<mode>(modes_, k)};
        at += all[k].mode.payload_bytes(Block::values);
      }
      if (whole < most_blocks)
        all[whole] = n_ % Block::values == 0 ? Payload{} : Payload{at, load<mode>(modes_, whole)};
    }

   private:
    /// Upper bound on the bytes of a chunk, damaged or not.
    static constexpr std::size_t most_bytes = most_blocks * (sizeof(mode) + Block::most_bytes);

    std::byte const *modes_ = nullptr, *payload_ = nullptr;
    std::size_t n_ = 0;
    std::byte last_[most_bytes + behind_payload];  ///< copy of the last chunk of an encoded vector
  };
  /// Calls make(to), which writes a chunk of up to slot_bytes at `to`, and returns its bytes. The
  /// chunk ends up at `out`, where `area` bytes are writable.
  template <class Make>
  static std::size_t put_chunk(std::byte* out, std::size_t area, Make const& make) {
    if (area >= Header::slot_bytes + behind_payload) return make(out);
    std::byte last[Header::slot_bytes + behind_payload];
    std::size_t const bytes = make(last);
    memcpy(out, last, bytes);
    return bytes;
  }
};

}  // namespace hcomp::detail
