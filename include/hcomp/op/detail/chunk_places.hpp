#pragma once
/// @file
/// Chunks whose lengths depend on the data: from where each was encoded to its place in a code.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

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
    for (std::size_t i = first; i < end; i += Group::workers) {
      std::size_t const mine = i + static_cast<std::size_t>(group.worker());
      auto const sums = group.running_sum(mine < end ? words[mine] : 0);
      if (mine < end) before[mine] = static_cast<std::uint32_t>(sum + sums.before);
      sum += sums.all;
    }
    if (group.worker() == 0) all[block] = static_cast<std::uint32_t>(sum);
  }
};

/// Words that sum_words adds up in one block.
inline constexpr std::size_t words_per_sum = 256;

/// Chunks from their slots to their places in a code, four by four, with its table and header.
/// @tparam Header  of `chunks` chunks and `bytes` bytes; a chunk has slot_bytes or less
template <class Header> struct put_chunks {
  static constexpr std::size_t at_once = 4;

  Header header;           ///< whose `bytes` are not known yet
  std::size_t first, end;  ///< chunks to be put
  std::byte const* slots;  ///< of those
  std::uint32_t const* lengths;
  std::uint32_t const* before;  ///< what the chunks before each take, within one sum's
  std::uint32_t const* sums;    ///< what all the sums before each come to
  std::byte* out;
  std::uint64_t* bytes;  ///< of the code

  HCOMP_HD static constexpr std::size_t blocks(std::size_t chunks) {
    return chunks == 0 ? 1 : (chunks + at_once - 1) / at_once;
  }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    constexpr std::size_t parts = Group::workers % at_once == 0 ? at_once : 1;
    constexpr std::size_t workers = Group::workers / parts;
    auto const worker = static_cast<std::size_t>(group.worker());
    for (std::size_t k = worker / workers; k < at_once; k += parts)
      put(worker % workers, workers, first + block * at_once + k);
  }

 private:
  HCOMP_HD void put(std::size_t worker, std::size_t workers, std::size_t i) const {
    std::size_t at_end = first_chunk_at<Header>(header.chunks);
    if (i < end) {
      std::size_t const at = at_end + before[i] + (i < words_per_sum ? 0 : sums[i / words_per_sum]);
      if (worker == 0) store_aligned(out + sizeof(header), i, static_cast<std::uint32_t>(at));
      copy_words(worker, workers, out + at, slots + (i - first) * Header::slot_bytes, lengths[i]);
      at_end = at + lengths[i];
    }
    bool const is_last = i + 1 == header.chunks || (i == 0 && header.chunks == 0);
    if (!is_last || worker != 0) return;
    auto whole = header;
    whole.bytes = at_end;
    store_aligned(out, 0, whole);
    *bytes = at_end;
  }
};

}  // namespace hcomp::detail
