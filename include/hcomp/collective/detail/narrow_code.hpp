#pragma once
/// @file
/// Codes that travel narrow: pieces of a code as messages, and messages as pieces of a code.

#include <cstddef>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <span>
#include <vector>

namespace hcomp::detail {

/// Finds the places of narrow blocks, which lie one behind the other. After the first use nothing
/// is allocated. Of codecs that are not Narrowable it can be had, but not used.
template <Compressor C> class narrow_code {
 public:
  narrow_code(code_layout const& layout, std::size_t most_blocks) : layout_(layout) {
    places_.reserve(most_blocks);
  }

  /// @param blocks  the first block of the range
  /// @param out     layout.bytes(range) bytes, apart from the blocks
  /// @return  the bytes written
  template <Executor E>
  std::size_t narrow(C const& codec, E& executor, block_range range, std::byte const* blocks,
                     std::byte* out) {
    static_assert(E::space == memory_space::host, "headers are read here");
    std::size_t end = 0;
    places_.clear();
    for (std::size_t i = 0; i < range.count; ++i) {
      places_.push_back(end);
      end += codec.narrow_bytes(load<block_header>(blocks + layout_.offset(i)));
    }
    executor.for_each_block(
        range.count, narrow_blocks<C>{codec, blocks, layout_.block_bytes, out, places_.data()});
    executor.synchronize();
    return end;
  }

  /// Of a message that is none of this code's blocks, blocks are made that nothing can be merged
  /// with (block_fault::format).
  /// @param blocks  where the first block of the range goes, apart from the message
  template <Executor E>
  void widen(C const& codec, E& executor, block_range range, std::span<std::byte const> message,
             std::byte* blocks) {
    static_assert(E::space == memory_space::host, "headers are read here");
    if (find_places(codec, range, message))
      executor.for_each_block(range.count, widen_blocks<C>{codec, message.data(), places_.data(),
                                                           blocks, layout_.block_bytes});
    else
      for (std::size_t i = 0; i < range.count; ++i)
        for (std::size_t j = 0; j < block_header_bytes; ++j)
          blocks[layout_.offset(i) + j] = std::byte{0};
    executor.synchronize();
  }

 private:
  bool find_places(C const& codec, block_range range, std::span<std::byte const> message) {
    std::size_t end = 0;
    places_.clear();
    for (std::size_t i = 0; i < range.count; ++i) {
      if (message.size() - end < block_header_bytes) return false;
      auto const header = load<block_header>(message.data() + end);
      std::size_t const bytes = codec.narrow_bytes(header);
      if (header.values != layout_.values_in(range.first + i) || message.size() - end < bytes)
        return false;
      places_.push_back(end);
      end += bytes;
    }
    return end == message.size();
  }

  code_layout layout_;
  std::vector<std::size_t> places_;
};

}  // namespace hcomp::detail
