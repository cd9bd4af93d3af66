#pragma once
/// @file
/// Codes that travel narrow: pieces of a code as messages, and messages as pieces of a code.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <span>

namespace hcomp::detail {

/// Headers of blocks that lie at `stride`, or at `places`.
struct copy_headers {
  std::byte const* blocks;
  std::size_t stride;
  std::size_t const* places;  ///< or null
  block_header* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (group.worker() == 0)
      out[i] = load_aligned<block_header>(blocks + (places ? places[i] : i * stride));
  }
};

/// Blocks that nothing can be merged with (block_fault::format).
struct spoil_blocks {
  std::byte* blocks;
  std::size_t stride;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    for (auto j = static_cast<std::size_t>(group.worker()); j < block_header_bytes;
         j += Group::workers)
      blocks[i * stride + j] = std::byte{0};
  }
};

/// Finds the places of narrow blocks, which lie one behind the other. The work is given to the
/// executor, not waited for. After construction nothing is allocated. Of codecs that are not
/// Narrowable it can be had, but not used.
template <Compressor C, Executor E> class narrow_code {
 public:
  narrow_code(code_layout const& layout, std::size_t most_blocks)
      : layout_(layout), places_(most_blocks), headers_(DeviceExecutor<E> ? most_blocks : 0) {}

  /// @param blocks  the first block of the range
  /// @param out     layout.bytes(range) bytes, apart from the blocks
  /// @return  the bytes written
  std::size_t narrow(C const& codec, E& executor, block_range range, std::byte const* blocks,
                     std::byte* out) {
    if constexpr (DeviceExecutor<E>) fetch_headers(executor, range.count, blocks, nullptr);
    std::size_t end = 0;
    for (std::size_t i = 0; i < range.count; ++i) {
      places_.for_host()[i] = end;
      end += codec.narrow_bytes(DeviceExecutor<E> ? headers_.for_host()[i]
                                                  : load<block_header>(blocks + layout_.offset(i)));
    }
    places_.send(executor, range.count);
    executor.for_each_block(
        range.count, narrow_blocks<C>{codec, blocks, layout_.block_bytes, out, places_.for_work()});
    return end;
  }

  /// Of a message that is none of this code's blocks, blocks are made that nothing can be merged
  /// with.
  /// @param blocks  where the first block of the range goes, apart from the message
  void widen(C const& codec, E& executor, block_range range, std::span<std::byte const> message,
             std::byte* blocks) {
    if (find_places(codec, executor, range, message))
      executor.for_each_block(
          range.count,
          widen_blocks<C>{codec, message.data(), places_.for_work(), blocks, layout_.block_bytes});
    else
      executor.for_each_block(range.count, spoil_blocks{blocks, layout_.block_bytes});
  }

 private:
  void fetch_headers(E& executor, std::size_t count, std::byte const* blocks,
                     std::size_t const* places) {
    executor.for_each_block(count,
                            copy_headers{blocks, layout_.block_bytes, places, headers_.for_work()});
    headers_.fetch(executor, count);
  }

  /// Where a block begins is known when the one before it is, whose weight says how long it is.
  bool find_places(C const& codec, E& executor, block_range range,
                   std::span<std::byte const> message) {
    if constexpr (DeviceExecutor<E>) {
      return guess_places(codec, executor, range, message);
    } else {
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
  }

  /// On a device it is guessed that all blocks of a message weigh what the first does, as they do
  /// in every sum of whole vectors. Then they are looked at.
  bool guess_places(C const& codec, E& executor, block_range range,
                    std::span<std::byte const> message) {
    if (range.count == 0 || message.size() < block_header_bytes)
      return range.count == 0 && message.empty();
    fetch_headers(executor, 1, message.data(), nullptr);
    auto const first = headers_.for_host()[0];
    auto const guessed_bytes = [&](std::size_t i) {
      auto header = first;
      header.values = static_cast<std::uint16_t>(layout_.values_in(range.first + i));
      return codec.narrow_bytes(header);
    };
    std::size_t end = 0;
    for (std::size_t i = 0; i < range.count; ++i) {
      std::size_t const bytes = guessed_bytes(i);
      if (message.size() - end < bytes) return false;
      places_.for_host()[i] = end;
      end += bytes;
    }
    if (end != message.size()) return false;
    places_.send(executor, range.count);
    fetch_headers(executor, range.count, message.data(), places_.for_work());
    for (std::size_t i = 0; i < range.count; ++i) {
      auto const& header = headers_.for_host()[i];
      if (header.values != layout_.values_in(range.first + i) ||
          codec.narrow_bytes(header) != guessed_bytes(i))
        return false;
    }
    return true;
  }

  code_layout layout_;
  mirror<std::size_t, E> places_;
  mirror<block_header, E> headers_;
};

}  // namespace hcomp::detail
