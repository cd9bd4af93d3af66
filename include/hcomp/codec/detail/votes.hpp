#pragma once
/// @file
/// What workers find out together about single values: bits of words, and what is largest.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <type_traits>

namespace hcomp::detail {

/// put(h, bits) for all halves h of words: bit j is whether is_set(i, look(i)) for i = 32 h + j, and 0
/// from n on. By workers in warps: neighbours look at neighbouring values, as memory likes it. Since that
/// is far away, they look at several before they judge the first.
template <HasWarps Group, class Look, class IsSet, class Put>
HCOMP_HD void vote_on(Group group, int n, Look const& look, IsSet const& is_set, Put const& put) {
  constexpr int at_once = 8;
  int const lane = group.worker() % 32, halves = (n + 63) / 64 * 2;
  for (int h = group.worker() / 32 * at_once; h < halves; h += Group::workers / 32 * at_once) {
    int const first = h * 32 + lane;
    auto const vote = [&](auto is_whole) {
      auto const is_inside = [&](int k) { return is_whole || first + k * 32 < n; };
      decltype(look(0)) seen[at_once] = {};
      HCOMP_UNROLL
      for (int k = 0; k < at_once; ++k)
        if (is_inside(k)) seen[k] = look(first + k * 32);
      std::uint32_t mine = 0;
      HCOMP_UNROLL
      for (int k = 0; k < at_once; ++k) {
        std::uint32_t const bits = group.vote(is_inside(k) && is_set(first + k * 32, seen[k]));
        if (lane == k) mine = bits;
      }
      if (lane < at_once && h + lane < halves) put(h + lane, mine);
    };
    if ((h + at_once) * 32 <= n)
      vote(std::true_type{});
    else
      vote(std::false_type{});
  }
}

/// What has to see a place before something is put there.
template <class Put>
concept LooksFirst = requires(Put const& put) {
  put.look(0);
};

/// put(i, value_of(count)) for i < n: bit p of count is bit i of plane p, in which half h of words is
/// number p plane_halves + h of `bits`. By workers in warps: one load is for 32 of them, and neighbours
/// have neighbouring values.
/// @param put  if it LooksFirst, called by put(i, value, put.look(i)): several places are looked at
///             before anything is put to the first
template <HasWarps Group, class ValueOf, class Put>
HCOMP_HD void for_counts(Group group, std::byte const* bits, int planes, std::size_t plane_halves,
                         int n, ValueOf const& value_of, Put const& put) {
  constexpr int at_once = 8;
  int const lane = group.worker() % 32, halves = (n + 31) / 32;
  for (int h = group.worker() / 32 * 32; h < halves; h += Group::workers) {
    std::uint32_t counts[32] = {};
    for (int p = 0; p < planes; ++p) {
      std::size_t const at = static_cast<std::size_t>(p) * plane_halves;
      std::uint32_t const mine =
          h + lane < halves
              ? load_aligned<std::uint32_t>(bits, at + static_cast<std::size_t>(h + lane))
              : 0;
      HCOMP_UNROLL_ON_DEVICE
      for (int k = 0; k < 32; ++k)
        counts[k] |= (group.xor_shuffle(mine, lane ^ k) >> lane & 1u) << p;
    }
    int const first = h * 32 + lane;
    auto const give = [&](auto is_whole) {
      auto const is_inside = [&](int k) { return is_whole || first + k * 32 < n; };
      if constexpr (LooksFirst<Put>) {
        HCOMP_UNROLL_ON_DEVICE
        for (int some = 0; some < 32; some += at_once) {
          decltype(put.look(0)) seen[at_once] = {};
          HCOMP_UNROLL
          for (int k = 0; k < at_once; ++k)
            if (is_inside(some + k)) seen[k] = put.look(first + (some + k) * 32);
          HCOMP_UNROLL
          for (int k = 0; k < at_once; ++k)
            if (is_inside(some + k))
              put(first + (some + k) * 32, value_of(counts[some + k]), seen[k]);
        }
      } else {
        HCOMP_UNROLL_ON_DEVICE
        for (int k = 0; k < 32; ++k)
          if (is_inside(k)) put(first + k * 32, value_of(counts[k]));
      }
    };
    if ((h + 32) * 32 <= n)
      give(std::true_type{});
    else
      give(std::false_type{});
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

/// Each number becomes the largest of all workers' there, to all of them.
/// @param bits  numbers are below 2^bits
template <class Group, std::size_t N>
HCOMP_HD void raise_to_largest(Group group, std::uint32_t (&numbers)[N], int bits) {
  if constexpr (requires { group.largest(numbers); })
    group.largest(numbers);
  else if constexpr (Group::workers > 1)
    for (auto& number : numbers) number = largest_in(group, number, bits);
}

}  // namespace hcomp::detail
