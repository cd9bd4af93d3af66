#pragma once
/// @file
/// The levels of THC: the 2^b of the g + 1 points of a uniform grid with the least rounding error
/// for normally distributed numbers.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Levels T[0] = 0 < T[1] < ... < T[2^b - 1] = g on the grid -t, -t + 2t/g, ..., t, and their
/// errors. T is symmetric: T[z] + T[2^b - 1 - z] = g. Among all symmetric T it has the least
/// rounding error.
///
/// Errors are in units of the energy of the vector: n ranks of equal norm and independent
/// directions get a mean with the normalized squared error (rounding_error + truncation_error) / n.
/// Source: Li et al., THC, NSDI 2024; here by dynamic programming over the levels.
struct thc_table {
  int bits = 0;                 ///< b: 1 to 8
  int granularity = 0;          ///< g: 2^b - 1 to 255
  double limit = 0;             ///< t: numbers are clipped to [-t, t]
  double rounding_error = 0;    ///< of stochastic rounding to the two levels next to a value
  double truncation_error = 0;  ///< of clipping to [-t, t]
  std::array<std::uint8_t, 256> levels = {};  ///< T; entries from 2^b on are 0

  HCOMP_HD constexpr int size() const { return 1 << bits; }
};

namespace detail::thc {

inline double normal_density(double x) { return std::exp(-x * x / 2) * 0.3989422804014326779; }
inline double normal_below(double x) { return std::erfc(-x * 0.7071067811865475244) / 2; }

/// t with P(|a| > t) = `truncation` for a normal number a; 0 < truncation < 1.
inline double truncation_limit(double truncation) {
  double low = 0, high = 40;  // beyond 38.5 the probabilities underflow a double
  for (int i = 0; i < 100; ++i) {
    double const middle = (low + high) / 2;
    (2 * normal_below(-middle) > truncation ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Error of unbiased rounding of a normal number between two points of the grid: the integral of
/// (u_k - a)(a - u_j) over the normal density.
class rounding_costs {
 public:
  rounding_costs(double limit, int granularity) {
    for (int j = 0; j <= granularity; ++j) {
      double const u = limit * (2.0 * j - granularity) / granularity;
      points_.push_back({u, normal_below(u), normal_density(u)});
    }
  }
  double operator()(int j, int k) const {
    auto const &a = points_[static_cast<std::size_t>(j)], &b = points_[static_cast<std::size_t>(k)];
    double const m0 = b.below - a.below, m1 = a.density - b.density;
    double const m2 = m0 - (b.u * b.density - a.u * a.density);
    return -a.u * b.u * m0 + (a.u + b.u) * m1 - m2;
  }

 private:
  struct point {
    double u, below, density;
  };
  std::vector<point> points_;
};

}  // namespace detail::thc

/// Default fraction of clipped numbers for `bits` bits, 1 to 8. rounding_error + truncation_error
/// is then 0.46, 0.18, 0.067, 0.018, 0.0051, 0.0016, 0.00051, 0.00017, the least up to 10 %.
inline double thc_truncation(int bits) {
  constexpr std::array<double, 8> by_bits{0.5,      0.2,      1. / 32,   1. / 64,
                                          1. / 256, 1. / 512, 1. / 2048, 1. / 4096};
  return by_bits[static_cast<std::size_t>(std::clamp(bits, 1, 8)) - 1];
}

/// Returns the best table. Cost: 2^b g^2 / 16 steps; 10 us for b = 4, g = 31.
/// @param bits         1 to 8
/// @param granularity  2^b - 1 to 255
/// @param truncation   0 < p < 1, the fraction of normal numbers that are clipped
/// @throws std::invalid_argument  any of them out of range
inline thc_table make_thc_table(int bits, int granularity, double truncation) {
  if (bits < 1 || bits > 8 || granularity < (1 << bits) - 1 || granularity > 255 ||
      !(truncation > 0 && truncation < 1))
    throw std::invalid_argument(detail::error_text(
        {"make_thc_table: ", bits, " bits, granularity ", granularity, ", truncation ", truncation,
         "; 1 to 8 bits b, 2^b - 1 to 255, and 0 to 1 are possible"}));
  thc_table table;
  table.bits = bits;
  table.granularity = granularity;
  double const t = table.limit = detail::thc::truncation_limit(truncation);
  table.truncation_error = 2 * ((1 + t * t) * truncation / 2 - t * detail::thc::normal_density(t));

  detail::thc::rounding_costs const cost(t, granularity);
  int const half = 1 << (bits - 1), last = (granularity - 1) / 2;
  auto const columns = static_cast<std::size_t>(last) + 1;
  struct choice {
    double error = HUGE_VAL;
    int before = 0;
  };
  // best[i][k]: levels 0 to i are chosen and level i is k. Errors that are equal up to rounding
  // select the lower level, so every processor chooses the same table.
  constexpr double slack = 1e-13;
  std::vector<choice> best(static_cast<std::size_t>(half) * columns);
  auto const at = [&](int i, int k) -> choice& {
    return best[static_cast<std::size_t>(i) * columns + static_cast<std::size_t>(k)];
  };
  at(0, 0).error = 0;
  std::vector<double> into(columns);
  for (int k = 1; k <= last; ++k) {
    for (int j = 0; j < k; ++j) into[static_cast<std::size_t>(j)] = 2 * cost(j, k);
    for (int i = 1; i < half && i <= k; ++i)
      for (int j = i - 1; j < k; ++j) {
        double const error = at(i - 1, j).error + into[static_cast<std::size_t>(j)];
        if (error < at(i, k).error - slack) at(i, k) = {error, j};
      }
  }
  table.rounding_error = HUGE_VAL;
  int middle = 0;
  for (int k = half - 1; k <= last; ++k) {
    double const error = at(half - 1, k).error + cost(k, granularity - k);
    if (error < table.rounding_error - slack) table.rounding_error = error, middle = k;
  }
  for (int i = half - 1, k = middle; i >= 0; k = at(i, k).before, --i) {
    table.levels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(k);
    table.levels[static_cast<std::size_t>(table.size() - 1 - i)] =
        static_cast<std::uint8_t>(granularity - k);
  }
  return table;
}

}  // namespace hcomp
