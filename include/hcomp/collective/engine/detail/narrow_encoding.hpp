#pragma once
/// @file
/// Narrow messages: converts blocks to messages, and messages to blocks.

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

/// Makes a block unfit for merging (block_fault::format).
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

/// Finds the positions of narrow blocks, which are contiguous, from the headers of the blocks.
/// Enqueues the work and does not wait for it. After construction nothing is allocated. Codecs that
/// are not Narrowable can construct it, but not use it.
template <Compressor C, Executor E> class narrow_encoding {
 public:
  narrow_encoding(encoded_layout const& layout, std::size_t most_blocks)
      : layout_(layout), places_(most_blocks) {}

  /// @param blocks  the first block of the range
  /// @param out     layout.bytes(range) bytes; must not overlap the blocks
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

  /// If the message does not consist of these blocks, the result is blocks that cannot be merged.
  /// Returns the weight of the first block.
  /// @param blocks  destination of the first block of the range; must not overlap the message
  std::uint32_t widen(C const& codec, E& executor, block_range range,
                      std::span<std::byte const> message, std::byte const* /*in_host*/,
                      std::byte* blocks, std::uint32_t /*weight*/ = 0) {
    if (find_places(codec, range, message))
      executor.for_each_block(
          range.count,
          widen_blocks<C>{codec, message.data(), places_.for_work(), blocks, layout_.block_bytes});
    else
      executor.for_each_block(range.count, spoil_blocks{blocks, layout_.block_bytes});
    return message.size() < block_header_bytes ? 0 : load<block_header>(message.data()).weight;
  }

 private:
  /// A block starts where the previous one ends; the weight in its header determines its length.
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

// ---- On a device all blocks of a message have the weight of the first block, as in every
// reduction of complete vectors. So the host knows their positions without waiting for them.

/// Narrows blocks first, first + 1, .... A block of another weight cannot be merged: its header
/// reports this, and its values are omitted.
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

/// The inverse. A block of a length or number of values that does not match its position becomes
/// one that cannot be merged.
template <Narrowable C> struct widen_alike {
  C codec;
  encoded_layout wide, narrow;
  std::size_t first;
  std::uint32_t weight;  ///< of the message's first block; determines the positions
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

template <Compressor C, DeviceExecutor E> class narrow_encoding<C, E> {
 public:
  narrow_encoding(encoded_layout const& layout, std::size_t most_blocks)
      : layout_(layout), first_(most_blocks > 0 ? sizeof(block_header) : 0) {}

  /// @param weight  of the blocks
  std::size_t narrow(C const& codec, E& executor, block_range range, std::byte const* blocks,
                     std::byte* out, std::uint32_t weight) {
    auto const narrow = travelling_layout(codec, layout_, weight);
    executor.for_each_block(
        range.count, narrow_alike<C>{codec, layout_, narrow, range.first, weight, blocks, out});
    return narrow.bytes(range);
  }

  /// @param in_host  the message in host memory; null: it is not there
  /// @param weight   of the blocks; 0: unknown. Then the function reads a header, without `in_host`
  ///                 from the device, and waits for it
  std::uint32_t widen(C const& codec, E& executor, block_range range,
                      std::span<std::byte const> message, std::byte const* in_host,
                      std::byte* blocks, std::uint32_t weight = 0) {
    encoded_layout narrow;
    bool fits = false;
    if (message.size() >= block_header_bytes) {
      if (weight == 0 && !in_host) {
        executor.wait(executor.read(first_.data(), message.data(), sizeof(block_header)));
        in_host = first_.data();
      }
      if (weight == 0) weight = load<block_header>(in_host).weight;
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
