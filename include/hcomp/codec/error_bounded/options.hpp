#pragma once
/// @file
/// How far the sum of all ranks may be off; equal on all ranks.

#include <charconv>
#include <cstdint>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace hcomp {

/// Settings of error_bounded; equal on all ranks.
struct error_bounded_options {
  /// Largest error of a value of the answer, the sum of `ranks` ranks. Divided by the ranks, 2^-100
  /// to 2^100, of doubles 2^-900 to 2^900.
  double bound = 1e-3;
  /// Ranks that may be summed, 1 to 2^(28 - magnitude_bits), of doubles to 2^20; every one of them
  /// has its share of the bound.
  std::uint32_t ranks = 1;
  /// 10 to 22. Floats up to 2^magnitude_bits steps, of twice the bound of one rank, become
  /// integers; with larger ones, plans sum by error_bounded_fine. The rounding of the answer to
  /// float takes 2^(magnitude_bits - 23) of the bound: one bit more doubles it. Sums of doubles do
  /// not use it.
  int magnitude_bits = 18;

  friend bool operator==(error_bounded_options const&, error_bounded_options const&) = default;
};

namespace detail::error_bounded {

inline std::string text_of(error_bounded_options const& o) {
  char bound[32];
  return "bound " + std::string(bound, std::to_chars(bound, bound + sizeof(bound), o.bound).ptr) +
         ", ranks " + std::to_string(o.ranks) + ", magnitude bits " +
         std::to_string(o.magnitude_bits);
}
/// For sums of T.
template <class T> bool is_possible(error_bounded_options const& o) {
  if (o.magnitude_bits < 10 || o.magnitude_bits > 22 || !is_finite(o.bound)) return false;
  int const rank_bits = std::is_same_v<T, float> ? 28 - o.magnitude_bits : 20;
  if (o.ranks < 1 || o.ranks > 1u << rank_bits) return false;
  double const share = o.bound / o.ranks;
  double const least = std::is_same_v<T, float> ? 0x1p-100 : 0x1p-900;
  return share >= least && share <= 1 / least;
}
template <class T>
inline constexpr char const* possible_options =
    std::is_same_v<T, float>
        ? "the bound divided by the ranks is 2^-100 to 2^100, the magnitude bits 10 to 22, the "
          "ranks 1 to 2^(28 - magnitude bits)"
        : "the bound divided by the ranks is 2^-900 to 2^900, the ranks 1 to 2^20";

/// @throws std::invalid_argument  a setting is out of range
template <class T> void require_possible(error_bounded_options const& o) {
  if (!is_possible<T>(o))
    throw std::invalid_argument("error_bounded: " + text_of(o) + "; " + possible_options<T>);
}
/// @throws std::invalid_argument  as require_possible
inline step_grid grid_of(error_bounded_options const& o) {
  require_possible<float>(o);
  return step_grid(o.bound / o.ranks, o.magnitude_bits);
}

}  // namespace detail::error_bounded
}  // namespace hcomp
