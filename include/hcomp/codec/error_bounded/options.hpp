#pragma once
/// @file
/// Options of error_bounded: the largest error of the sum of all ranks.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <hcomp/codec/detail/magnitudes.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace hcomp {

/// Options of error_bounded; equal on all ranks.
struct error_bounded_options {
  /// Largest error of a value of the result, which is the sum of `ranks` ranks. The bound divided
  /// by the ranks is 2^-100 to 2^100 for floats, 2^-900 to 2^900 for doubles.
  double bound = 1e-3;
  /// Largest number of ranks in a sum; each has an equal share of the bound. 1 to
  /// 2^(28 - magnitude_bits) for floats, 1 to 2^20 for doubles.
  std::uint32_t ranks = 1;
  /// 10 to 22; unused for doubles. Floats up to 2^magnitude_bits steps become integers. A step is
  /// twice the bound of one rank. For larger floats, plans use error_bounded_fallback. The rounding
  /// of the result to float takes 2^(magnitude_bits - 23) of the bound: each bit doubles that
  /// share.
  int magnitude_bits = 18;
  /// If true, the bound is a fraction of the largest finite magnitude among the values of all
  /// ranks. Plans agree on that magnitude in every call and use `fitted(largest, ranks)`.
  /// `report.bound` is the resulting absolute bound. It is clamped to the valid range of `bound`.
  bool relative = false;

  friend bool operator==(error_bounded_options const&, error_bounded_options const&) = default;
};

namespace detail::error_bounded {

inline std::string text_of(error_bounded_options const& o) {
  char bound[32];
  return "bound " + std::string(bound, std::to_chars(bound, bound + sizeof(bound), o.bound).ptr) +
         (o.relative ? " of the largest value" : "") + ", ranks " + std::to_string(o.ranks) +
         ", magnitude bits " + std::to_string(o.magnitude_bits);
}
/// Smallest bound of one rank; the largest is its inverse.
template <class T>
inline constexpr double least_share = std::is_same_v<T, float> ? 0x1p-100 : 0x1p-900;

/// Parameters that ranks compare.
inline std::array<double, 4> parameters_of(error_bounded_options const& o) {
  return {o.bound, static_cast<double>(o.ranks), static_cast<double>(o.magnitude_bits),
          o.relative ? 1.0 : 0.0};
}

/// Whether the options are valid for values of type T.
template <class T> bool is_possible(error_bounded_options const& o) {
  if (o.magnitude_bits < 10 || o.magnitude_bits > 22 || !is_finite(o.bound)) return false;
  int const rank_bits = std::is_same_v<T, float> ? 28 - o.magnitude_bits : 20;
  if (o.ranks < 1 || o.ranks > 1u << rank_bits) return false;
  double const share = o.bound / o.ranks;
  return share >= least_share<T> && share <= 1 / least_share<T>;
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
/// Checked before encoding.
/// @throws std::invalid_argument  the bound is relative, so its absolute value is unknown
inline void require_absolute(error_bounded_options const& o) {
  if (o.relative)
    throw std::invalid_argument("error_bounded: " + text_of(o) +
                                "; encode with `fitted(largest, ranks)`, where `largest` is the "
                                "maximum of `measure(x)` over all ranks");
}
/// Options with an absolute bound.
/// @param largest  bits of the largest magnitude of all ranks
template <class T>
error_bounded_options fitted_options(error_bounded_options options, std::uint32_t largest,
                                     std::uint32_t ranks) {
  options.ranks = ranks;
  if (!std::exchange(options.relative, false)) return options;
  double const least = least_share<T> * ranks, most = 1 / least_share<T>;
  options.bound = std::clamp(options.bound * magnitude_of<T>(largest), least, most);
  return options;
}

/// @throws std::invalid_argument  as require_possible
inline step_grid grid_of(error_bounded_options const& o) {
  require_possible<float>(o);
  return step_grid(o.bound / o.ranks, o.magnitude_bits);
}

}  // namespace detail::error_bounded
}  // namespace hcomp
