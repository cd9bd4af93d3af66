#pragma once
/// @file
/// What workers find out together about single values: bits of words, and what is largest.

#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail {

/// put(h, bits) for all halves h of words: bit j is whether is_set(32 h + j), and 0 from n on. By
/// workers in warps: neighbours look at neighbouring values, as memory likes it, several at once,
/// since it is far away.
template <HasWarps Group, class IsSet, class Put>
HCOMP_HD void vote_on(Group group, int n, IsSet const& is_set, Put const& put) {
  constexpr int at_once = 4;
  int const lane = group.worker() % 32, halves = (n + 63) / 64 * 2;
  for (int h = group.worker() / 32 * at_once; h < halves; h += Group::workers / 32 * at_once) {
    bool votes[at_once];
    HCOMP_UNROLL
    for (int k = 0; k < at_once; ++k) {
      int const i = (h + k) * 32 + lane;
      votes[k] = i < n && is_set(i);
    }
    std::uint32_t mine = 0;
    HCOMP_UNROLL
    for (int k = 0; k < at_once; ++k) {
      std::uint32_t const bits = group.vote(votes[k]);
      if (lane == k) mine = bits;
    }
    if (lane < at_once && h + lane < halves) put(h + lane, mine);
  }
}

/// The largest of all workers' numbers, below 2^bits, to all of them.
template <class Group>
HCOMP_HD std::uint32_t largest_in(Group group, std::uint32_t number, int bits) {
  std::uint32_t largest = 0;
  for (int bit = bits; bit-- > 0;) {
    std::uint32_t const more = largest | std::uint32_t{1} << bit;
    if (group.any(number >= more)) largest = more;
  }
  return largest;
}

}  // namespace hcomp::detail
