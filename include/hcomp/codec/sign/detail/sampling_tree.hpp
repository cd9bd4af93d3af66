#pragma once
/// @file
/// Selects the rank whose sign survives, without communication. It walks the canonical balanced
/// tree of merges from the root. At each merge, the mask assigns a bit to the lower half of the
/// ranks or to the upper half, down to a single rank.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sign/detail/kernels.hpp>
#include <hcomp/codec/sign/detail/simd.hpp>
#include <hcomp/core/bernoulli.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail::sampling {

/// One merge of the tree: ranks [low, middle) and [middle, high).
struct node {
  std::uint32_t low, middle, high;
  std::uint32_t share, whole;  ///< weights of the lower half and of both

  HCOMP_HD mask_key key(std::uint64_t key) const {
    return sign::merge_key(key, low, middle, share, whole);
  }
};

/// The merges of `weights.size()` ranks in pre-order: every node precedes its descendants.
inline std::vector<node> tree_of(std::span<std::uint32_t const> weights) {
  std::vector<node> nodes;
  auto const weigh = [&](std::uint32_t from, std::uint32_t to) {
    std::uint32_t sum = 0;
    for (std::uint32_t r = from; r < to; ++r) sum += weights[r];
    return sum;
  };
  auto const visit = [&](auto const& self, std::uint32_t low, std::uint32_t high) -> void {
    if (high - low < 2) return;
    std::uint32_t const middle = low + (high - low) / 2;
    nodes.push_back({low, middle, high, weigh(low, middle), weigh(low, high)});
    self(self, low, middle);
    self(self, middle, high);
  };
  visit(visit, 0, static_cast<std::uint32_t>(weights.size()));
  return nodes;
}

/// Calls f(word, count, masks) for consecutive tiles of `words` words. masks(rank) points to
/// `count` words: the bits of the tile that this rank owns. Every bit has exactly one owner. Uses
/// 64 KiB of stack and no heap.
template <class Group, class F>
void for_tiles(Group group, std::span<node const> tree, std::size_t ranks, int words,
               std::uint64_t first_word, std::uint64_t key, F const& f) {
  constexpr std::size_t most_masks = 8192;
  alignas(64) std::array<std::uint64_t, most_masks> masks;
  auto const tile = static_cast<int>(most_masks / ranks / 8 * 8);
  auto const of_rank = [&](std::size_t rank) {
    return reinterpret_cast<std::byte*>(masks.data() + rank * static_cast<std::size_t>(tile));
  };
  for (int word = 0; word < words; word += tile) {
    int const count = words - word < tile ? words - word : tile;
    std::memset(of_rank(0), 0xff, static_cast<std::size_t>(count) * 8);
    for (node const& node : tree)
      sign::split_owners(group, of_rank(node.low), of_rank(node.middle), count,
                         first_word + static_cast<unsigned>(word), node.key(key));
    f(word, count, of_rank);
  }
}
inline constexpr std::size_t max_ranks = 1024;

/// As for_tiles, for one word and one worker: calls f(rank, mask) for every rank with the bits of
/// `bits` that it owns. `place` is the index of the word in the complete vector. The order of the
/// ranks is the same for every word.
template <class F>
HCOMP_HD void for_ranks_of_word(node const* tree, std::size_t ranks, std::uint64_t bits,
                                std::uint64_t place, std::uint64_t key, F const& f) {
  if (ranks == 1) return f(std::size_t{0}, bits);
  std::uint64_t left[12];  // bits of pending subtrees: one per level, and one more
  int last = 0;
  left[0] = bits;
  for (std::size_t i = 0; i + 1 < ranks; ++i) {
    node const node = tree[i];
    std::uint64_t const all = left[last--];
    std::uint64_t lower;
    bernoulli_mask(lower, all, place, node.key(key));
    if (node.high - node.middle == 1)
      f(std::size_t{node.middle}, all & ~lower);
    else
      left[++last] = all & ~lower;
    if (node.middle - node.low == 1)
      f(std::size_t{node.low}, lower);
    else
      left[++last] = lower;
  }
}

inline void require_ranks(char const* who, std::size_t ranks) {
  if (ranks < 1 || ranks > max_ranks)
    throw std::invalid_argument(
        error_text({who, ": ", ranks, " ranks, it can choose among 1 to ", max_ranks}));
}

}  // namespace hcomp::detail::sampling
