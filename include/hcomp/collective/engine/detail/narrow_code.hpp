#pragma once
/// @file
/// Codes that travel narrow: pieces of a code as messages, and messages as pieces of a code.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

namespace hcomp::detail {

/// Makes a block one that nothing can be merged with (block_fault::format).
template <class Group> HCOMP_HD void spoil_block(Group group, std::byte* block) {
  for (auto j = static_cast<std::size_t>(group.worker()); j < block_header_bytes;
       j += Group::workers)
    block[j] = std::byte{0};
}

struct spoil_blocks {
  std::byte* blocks;
  std::size_t stride;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    spoil_block(group, blocks + i * stride);
  }
};

/// Finds the places of narrow blocks, which lie one behind the other, by looking at the blocks. The
/// work is given to the executor, not waited for. After construction nothing is allocated. Of codecs
/// that are not Narrowable it can be had, but not used.
template <Compressor C, Executor E> class narrow_code {
 public:
  narrow_code(encoded_layout const& layout, std::size_t most_blocks)
      : layout_(layout), places_(most_blocks) {}

  /// @param blocks  the first block of the range
  /// @param out     layout.bytes(range) bytes, apart from the blocks
  /// @return  the bytes written
  std::size_t narrow(C const& codec, E& executor, block_range range, std::byte const* blocks,
                     std::byte* out, std::uint32_t /*weight*/) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < range.count; ++i) {
      places_.for_host()[i] = end;
      end += codec.narrow_bytes(load<block_header>(blocks + layout_.offset(i)));
    }
    executor.for_each_block(
        range.count, narrow_blocks<C>{codec, blocks, layout_.block_bytes, out, places_.for_work()});
    return end;
  }

  /// Of a message that is none of this code's blocks, blocks are made that nothing can be merged
  /// with. Returns the weight of the first block.
  /// @param blocks  where the first block of the range goes, apart from the message
  std::uint32_t widen(C const& codec, E& executor, block_range range,
                      std::span<std::byte const> message, std::byte const* /*in_host*/,
                      std::byte* blocks) {
    if (find_places(codec, range, message))
      executor.for_each_block(
          range.count,
          widen_blocks<C>{codec, message.data(), places_.for_work(), blocks, layout_.block_bytes});
    else
      executor.for_each_block(range.count, spoil_blocks{blocks, layout_.block_bytes});
    return message.size() < block_header_bytes ? 0 : load<block_header>(message.data()).weight;
  }

 private:
  /// Where a block begins is known when the one before it is, whose weight says how long it is.
  bool find_places(C const& codec, block_range range, std::span<std::byte const> message) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < range.count; ++i) {
      if (message.size() - end < block_header_bytes) return false;
      auto const header = load<block_header>(message.data() + end);
      std::size_t const bytes = codec.narrow_bytes(header);
      if (header.values != layout_.values_in(range.first + i) || message.size() - end < bytes)
        return false;
      places_.for_host()[i] = end;
      end += bytes;
    }
    return end == message.size();
  }

  encoded_layout layout_;
  mirror<std::size_t, E> places_;
};

// ---- On a device all blocks of a message have the weight of the first, as they do in every sum of
// whole vectors: the host knows their places, and need not wait for them.

/// Blocks first, first + 1, ... in their narrow form. One of another weight could not be merged: it
/// goes with its header, which says so, and without its values.
template <Narrowable C> struct narrow_alike {
  C codec;
  encoded_layout wide, narrow;
  std::size_t first;
  std::uint32_t weight;
  std::byte const* blocks;
  std::byte* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte const* const from = blocks + wide.offset(i);
    std::byte* const to = out + narrow.offset(i);
    auto header = load_aligned<block_header>(from);
    int const n = wide.values_in(first + i);
    if (header.weight == weight && header.values == n) return codec.narrow_block(group, from, to);
    std::size_t const bytes = narrow.bytes({first + i, 1});
    for (auto j = block_header_bytes + static_cast<std::size_t>(group.worker()); j < bytes;
         j += Group::workers)
      to[j] = std::byte{0};
    header.weight = weight;
    header.values = static_cast<std::uint16_t>(n);
    header.flags |= block_is_damaged;
    if (header.fault == block_fault::none) header.fault = block_fault::weight;
    if (group.worker() == 0) store_aligned(to, 0, header);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.narrow_scratch_bytes(); }
};

/// And back. One that is not as long as its place, or of another number of values, becomes a block that
/// nothing can be merged with.
template <Narrowable C> struct widen_alike {
  C codec;
  encoded_layout wide, narrow;
  std::size_t first;
  std::uint32_t weight;  ///< of the first block of the message, by which places are
  std::byte const* message;
  std::byte* blocks;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte const* const from = message + narrow.offset(i);
    std::byte* const to = blocks + wide.offset(i);
    auto const header = load_aligned<block_header>(from);
    bool const is_in_place =
        header.values == narrow.values_in(first + i) &&
        (header.weight == weight || codec.narrow_bytes(header) == narrow.bytes({first + i, 1}));
    if (is_in_place)
      codec.widen_block(group, from, to);
    else
      spoil_block(group, to);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.narrow_scratch_bytes(); }
};

template <Compressor C, DeviceExecutor E> class narrow_code<C, E> {
 public:
  narrow_code(encoded_layout const& layout, std::size_t most_blocks)
      : layout_(layout), first_(most_blocks > 0 ? sizeof(block_header) : 0) {}

  /// @param weight  of the blocks
  std::size_t narrow(C const& codec, E& executor, block_range range, std::byte const* blocks,
                     std::byte* out, std::uint32_t weight) {
    auto const narrow = travelling_layout(codec, layout_, weight);
    executor.for_each_block(
        range.count, narrow_alike<C>{codec, layout_, narrow, range.first, weight, blocks, out});
    return narrow.bytes(range);
  }

  /// @param in_host  the message, where the host can read it; null: nowhere, so the executor is
  ///                 waited for, and a header comes from it
  std::uint32_t widen(C const& codec, E& executor, block_range range,
                      std::span<std::byte const> message, std::byte const* in_host,
                      std::byte* blocks) {
    std::uint32_t weight = 0;
    encoded_layout narrow;
    bool fits = false;
    if (message.size() >= block_header_bytes) {
      if (!in_host) {
        executor.wait(executor.read(first_.data(), message.data(), sizeof(block_header)));
        in_host = first_.data();
      }
      weight = load<block_header>(in_host).weight;
      narrow = travelling_layout(codec, layout_, weight);
      fits = narrow.bytes(range) == message.size();
    }
    if (!fits) {
      executor.for_each_block(range.count, spoil_blocks{blocks, layout_.block_bytes});
      return weight;
    }
    executor.for_each_block(range.count, widen_alike<C>{codec, layout_, narrow, range.first, weight,
                                                        message.data(), blocks});
    return weight;
  }

 private:
  encoded_layout layout_;
  typename E::staging first_;
};

}  // namespace hcomp::detail
