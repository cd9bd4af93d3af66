#pragma once
/// @file
/// Chunks whose lengths depend on the data: from where each was encoded to its place in a stream.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// Lanes that share memory.
template <class Group>
concept SharesMemory = requires(Group group) {
  group.scratch();
};

/// Copies bytes from a multiple of 4 to anywhere. Words are read whole: up to the next multiple of
/// 4 behind them.
/// @param lane  of `lanes`, which share the work
HCOMP_HD inline void copy_words(std::size_t lane, std::size_t lanes, std::byte* to,
                                std::byte const* from, std::size_t bytes) {
  std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % 4;  // to the first whole word
  if (head > bytes) head = bytes;
  std::size_t const words = (bytes - head) / 4, tail = head + 4 * words;
  for (std::size_t i = lane; i < head; i += lanes) to[i] = from[i];
  for (std::size_t i = lane; i < words; i += lanes) {
    auto word = load_aligned<std::uint32_t>(from, i);
    if (head > 0)
      word = word >> 8 * head | load_aligned<std::uint32_t>(from, i + 1) << (32 - 8 * head);
    store_aligned(to + head, i, word);
  }
  for (std::size_t i = tail + lane; i < bytes; i += lanes) to[i] = from[i];
}

/// Copies bytes `begin` to `end` of `in` to `to`, which has room for 4 bytes more; both at
/// multiples of 4. Returns where they begin there. For all lanes, after their next sync.
template <class Group>
HCOMP_HD std::byte const* bring_words(Group group, std::byte const* in, std::size_t begin,
                                      std::size_t end, std::byte* to) {
  std::size_t const skipped = begin % 4, bytes = skipped + end - begin;
  std::byte const* const from = in + (begin - skipped);
  auto const lane = static_cast<std::size_t>(group.lane());
  for (std::size_t i = lane; i < bytes / 4; i += Group::lanes)
    store_aligned(to, i, load_aligned<std::uint32_t>(from, i));
  for (std::size_t i = bytes / 4 * 4 + lane; i < bytes; i += Group::lanes) to[i] = from[i];
  return to + skipped;
}

/// Of every `per_block` of `count` words: what those before each add up to, and all of them.
struct sum_words {
  std::size_t count, per_block;
  std::uint32_t const* words;
  std::uint32_t* before;
  std::uint32_t* all;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    std::size_t const first = block * per_block;
    std::size_t const end = first + per_block < count ? first + per_block : count;
    std::uint64_t sum = 0;
    for (std::size_t i = first; i < end; i += Group::lanes) {
      std::size_t const mine = i + static_cast<std::size_t>(group.lane());
      auto const sums = group.running_sum(mine < end ? words[mine] : 0);
      if (mine < end) before[mine] = static_cast<std::uint32_t>(sum + sums.before);
      sum += sums.all;
    }
    if (group.lane() == 0) all[block] = static_cast<std::uint32_t>(sum);
  }
};

/// Words that sum_words adds up in one block.
inline constexpr std::size_t words_per_sum = 256;

/// Chunks from their slots to their places in a stream, four by four, with its table and header.
/// @tparam Header  of a stream of `chunks` chunks and `bytes` bytes, whose first begins at
///                 front(chunks); a chunk has slot_bytes or less
template <class Header> struct put_chunks {
  static constexpr std::size_t at_once = 4;

  Header header;           ///< whose `bytes` are not known yet
  std::size_t first, end;  ///< chunks to be put
  std::byte const* slots;  ///< of those
  std::uint32_t const* lengths;
  std::uint32_t const* before;  ///< what the chunks before each take, within one sum's
  std::uint32_t const* sums;    ///< what all the sums before each come to
  std::byte* out;
  std::uint64_t* bytes;  ///< of the stream

  HCOMP_HD static constexpr std::size_t blocks(std::size_t chunks) {
    return chunks == 0 ? 1 : (chunks + at_once - 1) / at_once;
  }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    constexpr std::size_t parts = Group::lanes % at_once == 0 ? at_once : 1;
    constexpr std::size_t lanes = Group::lanes / parts;
    auto const lane = static_cast<std::size_t>(group.lane());
    for (std::size_t k = lane / lanes; k < at_once; k += parts)
      put(lane % lanes, lanes, first + block * at_once + k);
  }

 private:
  HCOMP_HD void put(std::size_t lane, std::size_t lanes, std::size_t i) const {
    std::size_t at_end = Header::front(header.chunks);
    if (i < end) {
      std::size_t const at = at_end + before[i] + (i < words_per_sum ? 0 : sums[i / words_per_sum]);
      if (lane == 0) store_aligned(out + sizeof(header), i, static_cast<std::uint32_t>(at));
      copy_words(lane, lanes, out + at, slots + (i - first) * Header::slot_bytes, lengths[i]);
      at_end = at + lengths[i];
    }
    bool const is_last = i + 1 == header.chunks || (i == 0 && header.chunks == 0);
    if (!is_last || lane != 0) return;
    auto whole = header;
    whole.bytes = at_end;
    store_aligned(out, 0, whole);
    *bytes = at_end;
  }
};

}  // namespace hcomp::detail
