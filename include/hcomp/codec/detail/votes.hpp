#pragma once
/// @file
/// Collective operations of workers on values: bit masks, transposition and maxima.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Calls put(h, bits) for all 32-bit halves h of words. Bit j is is_set(i, look(i)) for i = 32 h +
/// j, and 0 from n on. Workers in warps read neighbouring values, which coalesces accesses. Each
/// issues several reads before it uses the first, to hide memory latency.
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

/// Bit k of lane j's word becomes bit j of lane k's word. All lanes of a warp call it.
template <HasWarps Group> HCOMP_HD std::uint32_t transposed_bits(Group group, std::uint32_t word) {
  auto const lane = static_cast<unsigned>(group.worker());
  std::uint32_t lower = 0x0000ffffu;  // bits whose index does not contain `apart`
  HCOMP_UNROLL
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    std::uint32_t const other = group.xor_shuffle(word, static_cast<int>(apart));
    bool const is_upper = lane & apart;
    std::uint32_t const kept = is_upper ? ~lower : lower;
    word = (word & kept) | ((is_upper ? other >> apart : other << apart) & ~kept);
    lower ^= lower << apart / 2;
  }
  return word;
}

/// A `put` that reads a location before it writes there.
template <class Put>
concept ReadModifyWrite = requires(Put const& put) {
  put.look(0);
};

/// Calls put(i, value_of(k)) for i = 32 (h + k) + lane and all k < 32 with i < n. All lanes of a
/// warp call it, for neighbouring values; they call value_of together.
/// @param put  if it is ReadModifyWrite, the call is put(i, value, put.look(i)), with several reads
///             before the first write
template <HasWarps Group, class ValueOf, class Put>
HCOMP_HD void put_columns(Group group, int h, int n, ValueOf const& value_of, Put const& put) {
  constexpr int at_once = 8;
  int const first = h * 32 + group.worker() % 32;
  auto const give = [&](auto is_whole) {
    auto const is_inside = [&](int k) { return is_whole || first + k * 32 < n; };
    if constexpr (ReadModifyWrite<Put>) {
      HCOMP_UNROLL_ON_DEVICE
      for (int some = 0; some < 32; some += at_once) {
        decltype(put.look(0)) seen[at_once] = {};
        HCOMP_UNROLL
        for (int k = 0; k < at_once; ++k)
          if (is_inside(some + k)) seen[k] = put.look(first + (some + k) * 32);
        HCOMP_UNROLL
        for (int k = 0; k < at_once; ++k) {
          auto const value = value_of(some + k);
          if (is_inside(some + k)) put(first + (some + k) * 32, value, seen[k]);
        }
      }
    } else {
      HCOMP_UNROLL_ON_DEVICE
      for (int k = 0; k < 32; ++k) {
        auto const value = value_of(k);
        if (is_inside(k)) put(first + k * 32, value);
      }
    }
  };
  if ((h + 32) * 32 <= n)
    give(std::true_type{});
  else
    give(std::false_type{});
}

/// Calls put(i, value_of(bit i of `bits`)) for i < n, as put_columns. One load serves 32 workers.
template <HasWarps Group, class ValueOf, class Put>
HCOMP_HD void for_bits(Group group, std::byte const* bits, int n, ValueOf const& value_of,
                       Put const& put) {
  int const lane = group.worker() % 32, halves = (n + 31) / 32;
  for (int h = group.worker() / 32 * 32; h < halves; h += Group::workers) {
    std::uint32_t const word =
        h + lane < halves ? load_aligned<std::uint32_t>(bits, static_cast<std::size_t>(h + lane))
                          : 0;
    std::uint32_t const mine = transposed_bits(group, word);
    put_columns(
        group, h, n, [&](int k) { return value_of(mine >> k & 1u); }, put);
  }
}

/// The same for counts: bit p of count i is bit i of plane p. Half h of plane p's words is word p *
/// plane_halves + h of `bits`.
/// @param value_of  behind the last value it receives unspecified counts below 2^planes
template <HasWarps Group, class ValueOf, class Put>
HCOMP_HD void for_counts(Group group, std::byte const* bits, int planes, std::size_t plane_halves,
                         int n, ValueOf const& value_of, Put const& put) {
  constexpr int at_once = 4;  // planes loaded before the first is used
  int const lane = group.worker() % 32, halves = (n + 31) / 32;
  for (int h = group.worker() / 32 * 32; h < halves; h += Group::workers) {
    std::uint32_t counts[32] = {};
    for (int left = planes; left > 0; left -= at_once) {  // from the highest plane down
      std::uint32_t words[at_once] = {};
      HCOMP_UNROLL
      for (int p = 0; p < at_once; ++p)
        if (p < left && h + lane < halves)
          words[p] = load_aligned<std::uint32_t>(
              bits, static_cast<std::size_t>(left - 1 - p) * plane_halves +
                        static_cast<std::size_t>(h + lane));
      HCOMP_UNROLL
      for (int p = 0; p < at_once; ++p) {
        if (p >= left) break;
        std::uint32_t const mine = transposed_bits(group, words[p]);
        HCOMP_UNROLL_ON_DEVICE
        for (int k = 0; k < 32; ++k) counts[k] = 2 * counts[k] + (mine >> k & 1u);
      }
    }
    put_columns(
        group, h, n, [&](int k) { return value_of(counts[k]); }, put);
  }
}

/// Maximum of all workers' numbers, which are below 2^bits; returned in all workers.
template <class Group>
HCOMP_HD std::uint32_t largest_in(Group group, std::uint32_t number, int bits) {
  std::uint32_t largest = 0;
  for (int bit = bits; bit-- > 0;) {
    std::uint32_t const more = largest | std::uint32_t{1} << bit;
    if (group.any(number >= more)) largest = more;
  }
  return largest;
}

/// Replaces each number by the maximum of all workers' numbers at its index, in all workers.
/// @param bits  numbers are below 2^bits
template <class Group, std::size_t N>
HCOMP_HD void raise_to_largest(Group group, std::uint32_t (&numbers)[N], int bits) {
  if constexpr (requires { group.largest(numbers); })
    group.largest(numbers);
  else if constexpr (Group::workers > 1)
    for (auto& number : numbers) number = largest_in(group, number, bits);
}

}  // namespace hcomp::detail
