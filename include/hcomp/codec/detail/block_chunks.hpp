#pragma once
/// @file
/// Chunks that are blocks: what each of them is, for all, and then their payloads, one behind the
/// other. Read by any group, a worker for each block.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/block_part.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail {

/// @tparam Header  of codes, with slot_bytes of a chunk
/// @tparam Block   of up to Block::values values. A `Block::mode` is in front of the payloads, and
///                 says how long its own is: `mode.payload_bytes(n)`; `take(mode, n, in)` reads it.
template <class Header, class Block> struct block_chunks {
  using mode = typename Block::mode;
  using T = typename Header::value_type;
  static constexpr std::size_t most_blocks = detail::blocks_of<Block::values>(Header::chunk_values);

  // ---- Workers that share memory have room for chunks there: payloads are at odd addresses

  /// Of a chunk, 15 bytes before it, and 16 behind it that are read.
  static constexpr std::size_t room_bytes = (Header::slot_bytes + 31 + 15) / 16 * 16;
  static constexpr std::size_t rooms_bytes(std::size_t chunks) { return chunks * room_bytes; }
  /// Room number i; null for workers that share no memory.
  template <class Group> HCOMP_HD static std::byte* room_of(Group group, std::size_t i) {
    if constexpr (SharesMemory<Group>)
      return reinterpret_cast<std::byte*>(group.scratch()) + i * room_bytes;
    else
      return nullptr;
  }
  /// Blocks that the workers of a group have at the same time.
  struct worker_blocks {
    std::size_t block, n;  ///< the worker's own, in the chunk, and its values; 0: it has none
    std::size_t first;     ///< of these, in the vector
  };
  /// Those from block `begin` of chunk i on, of n values.
  template <class Group>
  HCOMP_HD static worker_blocks blocks_at(Group group, std::size_t i, std::size_t n,
                                          std::size_t begin) {
    std::size_t const k = begin + static_cast<std::size_t>(group.worker());
    bool const is_here = k < detail::blocks_of<Block::values>(n);
    return {k, is_here ? detail::values_of_block<Block::values>(k, n) : 0,
            i * Header::chunk_values + k * Block::values};
  }

  /// Takes the blocks of a chunk of a sound code, as many at a time as there are workers.
  template <class Group> struct reader {
    std::byte const* chunk = nullptr;
    std::size_t n = 0, at = 0;

    /// @param in    null: there is nothing to take
    /// @param room  for the chunk, if the workers share memory
    HCOMP_HD reader(Group group, std::byte const* in, std::size_t i, std::size_t values,
                    [[maybe_unused]] std::byte* room) {
      if (!in) return;
      auto const part = part_of_code<Header>(in, i, chunks_of<Header>(values));
      chunk = in + part.begin;
      n = values_of_chunk<Header>(i, values);
      at = detail::blocks_of<Block::values>(n) * sizeof(mode);
      if constexpr (SharesMemory<Group>) {
        chunk = bring_bytes(group, in, part.begin, part.end, room);
        group.sync();
      }
    }
    /// v = the worker's next block; as it was, if there are not so many.
    /// @param k  which that is: in every call, as many as there are workers more than before
    HCOMP_HD void take(Group group, std::size_t k, Block& v) {
      bool const is_here = k < detail::blocks_of<Block::values>(n);
      std::size_t const here = is_here ? detail::values_of_block<Block::values>(k, n) : 0;
      auto const what = is_here ? load<mode>(chunk, k) : mode{};
      auto const bytes = group.running_sum(what.payload_bytes(here));
      if (is_here) v.take(what, here, chunk + at + bytes.before);
      at += bytes.all;
    }
  };
  /// f(worker_blocks, block) by all workers, for the blocks of chunk i. Those without one have any.
  template <class Group, class F>
  HCOMP_HD static void for_blocks(Group group, std::byte const* in, std::size_t i,
                                  std::size_t values, F const& f) {
    reader<Group> from(group, in, i, values, room_of(group, 0));
    for (std::size_t begin = 0; begin < detail::blocks_of<Block::values>(from.n);
         begin += Group::workers) {
      auto const at = blocks_at(group, i, from.n, begin);
      Block v;
      from.take(group, at.block, v);
      f(at, v);
    }
  }

  // ---- Blocks of several lanes each

  template <class Group> using part = block_part<Group, T, Block::values, most_blocks>;

  static constexpr std::size_t parts_bytes(std::size_t chunks) {
    return rooms_bytes(chunks) + most_blocks * sizeof(std::uint32_t);
  }
  /// Where payloads are in the room of a chunk, in bits.
  struct places {
    std::uint32_t own, end;  ///< that of the lane's block, and where all end
  };
  /// @param begin  of the first payload
  /// @param bytes  of the payload of block `lane`, 0 if there is none
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
  /// Of lengths that all blocks have said: each lane that of its block.
  class shared_lengths {
   public:
    /// @param room  behind the rooms of chunks
    HCOMP_HD explicit shared_lengths(std::byte* room)
        : lengths_(reinterpret_cast<std::uint32_t*>(room)) {}
    /// For all workers, before their next sync.
    template <class Group> HCOMP_HD void say(part<Group> const& mine, std::size_t bytes) const {
      if (mine.part() == 0) lengths_[mine.block] = static_cast<std::uint32_t>(bytes);
    }
    /// After it.
    template <class Group>
    HCOMP_HD places find(Group group, part<Group> const& mine, std::uint32_t begin) const {
      return places_of(group, mine, begin, mine.lane < most_blocks ? lengths_[mine.lane] : 0);
    }

   private:
    std::uint32_t* lengths_;
  };

  /// Takes the parts of the blocks of a chunk of a sound code.
  template <class Group> struct part_reader {
    std::byte const* room = nullptr;

    /// Brings the chunk. For all workers, before their next sync.
    /// @param in  null: there is nothing to take
    HCOMP_HD part_reader(Group group, std::byte const* in, std::size_t i, std::size_t values,
                         std::byte* to) {
      if (!in) return;
      auto const part = part_of_code<Header>(in, i, chunks_of<Header>(values));
      skipped_ = bring_chunk(group, in, part.begin, part.end, to);
      room = to;
    }
    // ---- After it

    HCOMP_HD mode mode_of(std::size_t k) const { return load<mode>(room + skipped_, k); }
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

  /// The codes that a chunk is made of, each in a room of its own. For all workers.
  template <class Reader> struct sources {
    Reader a, b;
    std::size_t rooms;  ///< that they have

    template <class Group>
    HCOMP_HD sources(Group group, code_sources<T> const& from, std::size_t i)
        : a(group, from.a, i, from.values, room_of(group, 0)),
          b(group, from.b, i, from.values, room_of(group, from.a ? 1 : 0)),
          rooms(std::size_t{from.a != nullptr} + (from.b != nullptr)) {}
  };
  /// The same by parts, and behind them the room where the chunk is put together, all bits 0. Before the
  /// workers' next sync.
  template <class Group> struct part_sources : sources<part_reader<Group>> {
    std::byte* chunk;
    shared_lengths lengths;

    HCOMP_HD part_sources(Group group, code_sources<T> const& from, std::size_t i)
        : sources<part_reader<Group>>(group, from, i),
          chunk(room_of(group, this->rooms)),
          lengths(room_of(group, this->rooms + 1)) {
      clear_room(group, chunk, room_bytes);
    }
  };

  // ---- Blocks by vectors, which read and write up to 64 bytes behind a payload

  static constexpr std::size_t behind_payload = 64;

  /// A chunk of a sound code, behind which so many bytes may be read.
  class readable {
   public:
    /// @param in  null: there is no code
    readable(std::byte const* in, std::size_t i, std::size_t values) {
      if (!in) return;
      auto const part = part_of_code<Header>(in, i, chunks_of<Header>(values));
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
    /// Of the first block.
    std::byte const* payload() const { return payload_; }
    /// Finds all payloads. `Payload` is {where it begins, its mode}.
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
    /// The longest chunk, damaged or not.
    static constexpr std::size_t most_bytes = most_blocks * (sizeof(mode) + Block::most_bytes);

    std::byte const *modes_ = nullptr, *payload_ = nullptr;
    std::size_t n_ = 0;
    std::byte last_[most_bytes + behind_payload];  ///< a copy, of the last chunk of a code
  };
  /// make(to) writes a chunk of up to slot_bytes at `to` and returns its bytes, which are returned.
  /// The chunk is at `out`, of which `room` bytes may be written.
  template <class Make>
  static std::size_t put_chunk(std::byte* out, std::size_t room, Make const& make) {
    if (room >= Header::slot_bytes + behind_payload) return make(out);
    std::byte last[Header::slot_bytes + behind_payload];
    std::size_t const bytes = make(last);
    memcpy(out, last, bytes);
    return bytes;
  }
};

}  // namespace hcomp::detail
