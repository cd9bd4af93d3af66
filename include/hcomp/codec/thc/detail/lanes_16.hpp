#pragma once
/// @file
/// SIMD arithmetic on 16-bit lanes, in a 64-bit word or in a vector of std::uint16_t. Lanes are
/// numbers modulo 2^16.

#include <cstdint>
#include <cstring>
#include <hcomp/codec/thc/detail/kernels.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail::thc {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

HCOMP_HD constexpr std::uint64_t in_all_lanes(std::uint32_t number) {
  return 0x0001000100010001u * std::uint64_t{number & 0xffffu};
}
template <class Word> inline constexpr bool is_word = std::is_same_v<Word, std::uint64_t>;

template <class Lanes> [[gnu::always_inline]] HCOMP_HD inline void add(Lanes& a, Lanes const& b) {
  if constexpr (is_word<Lanes>)
    a = lane_sums<std::uint16_t>(a, b);
  else
    a += b;
}
template <class Lanes> [[gnu::always_inline]] HCOMP_HD inline void shift_up(Lanes& a, int by) {
  if constexpr (is_word<Lanes>)
    a = (a << by) & in_all_lanes(0xffffu << by);
  else
    a = a << static_cast<std::uint16_t>(by);
}
template <class Lanes> [[gnu::always_inline]] HCOMP_HD inline void shift_down(Lanes& a, int by) {
  if constexpr (is_word<Lanes>)
    a = (a >> by) & in_all_lanes(0xffffu >> by);
  else
    a = a >> static_cast<std::uint16_t>(by);
}
template <class Lanes>
[[gnu::always_inline]] HCOMP_HD inline void fill(Lanes& a, std::uint32_t number) {
  if constexpr (is_word<Lanes>) {
    a = in_all_lanes(number);
  } else {
    std::uint16_t lanes[sizeof(Lanes) / 2];
    for (auto& lane : lanes) lane = static_cast<std::uint16_t>(number);
    memcpy(&a, lanes, sizeof(a));
  }
}
/// Clips the lanes as signed numbers.
template <class Lanes>
[[gnu::always_inline]] HCOMP_HD inline void clamp(Lanes& a, int least, int most) {
  if constexpr (is_word<Lanes>) {
    std::uint64_t clamped = 0;
    for (int at = 0; at < 64; at += 16) {
      int lane = static_cast<std::int16_t>(static_cast<std::uint16_t>(a >> at));
      lane = lane < least ? least : lane;
      lane = lane < most ? lane : most;
      clamped |= std::uint64_t{static_cast<std::uint16_t>(lane)} << at;
    }
    a = clamped;
  } else {
    using numbers = typename simd_vector<std::int16_t, static_cast<int>(sizeof(Lanes) / 2)>::type;
    Lanes low, high;
    fill(low, static_cast<std::uint32_t>(least));
    fill(high, static_cast<std::uint32_t>(most));
    numbers n = (numbers)a;
    n = n > (numbers)low ? n : (numbers)low;
    n = n < (numbers)high ? n : (numbers)high;
    a = (Lanes)n;
  }
}

#pragma GCC diagnostic pop

}  // namespace hcomp::detail::thc
