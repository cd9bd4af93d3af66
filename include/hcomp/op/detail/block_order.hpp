#pragma once
/// @file
/// A prefix sum over the blocks of one launch.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// A prefix sum of one number per block, each below 2^62 as is their sum, computed while the blocks
/// run. On devices, blocks are numbered as they begin, so a block waits only for blocks that have
/// begun. For groups without `ticket`, the executor must run one block after the other, from 0 on;
/// see Executor.
struct block_order {
  std::uint64_t* words;  ///< words_for(blocks), must be 0 before a launch

  static constexpr std::size_t words_for(std::size_t blocks) { return blocks + 1; }

  /// The number of this block. All its workers call it once.
  /// @param place  the index that the executor passes
  template <class Group> HCOMP_HD std::size_t number(Group group, std::size_t place) const {
    if constexpr (requires { group.ticket(words); })
      return group.ticket(words);
    else
      return place;
  }
  /// Publishes the number of block i earlier than sum_before does, because other blocks may wait
  /// for it.
  template <class Group>
  HCOMP_HD void announce([[maybe_unused]] Group group, [[maybe_unused]] std::size_t i,
                         [[maybe_unused]] std::uint64_t value) const {
    if constexpr (requires { group.announce(words, i, value); })
      group.announce(words + 1, i, value);
  }
  /// The sum of the numbers of blocks 0 to i - 1. All workers of block i call it once.
  /// @param value  the number of block i
  template <class Group>
  HCOMP_HD std::uint64_t sum_before(Group group, std::size_t i, std::uint64_t value) const {
    if constexpr (requires { group.sum_before(words, i, value); }) {
      return group.sum_before(words + 1, i, value);
    } else {
      std::uint64_t const before = sum_of_done(i);
      group.sync();
      if (group.worker() == 0) words[1 + i] = before + value;
      group.sync();
      return before;
    }
  }
  /// The same sum before the block's own number is known. Only if blocks run one after the other.
  HCOMP_HD std::uint64_t sum_of_done(std::size_t i) const { return i == 0 ? 0 : words[i]; }
};

/// Writes zeros, `run` words per block.
struct clear_words {
  static constexpr std::size_t run = 1024;

  std::uint64_t* words;
  std::size_t count;

  HCOMP_HD std::size_t runs() const { return (count + run - 1) / run; }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const end = (i + 1) * run < count ? (i + 1) * run : count;
    for (auto w = i * run + static_cast<std::size_t>(group.worker()); w < end; w += Group::workers)
      words[w] = 0;
  }
};

}  // namespace hcomp::detail
