/// @file
/// The tables of THC: the published ones, their errors, and their optimality.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/thc/detail/table.hpp>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using hcomp::make_thc_table;
using hcomp::thc_table;

namespace {

std::vector<int> levels_of(thc_table const& table) {
  return {table.levels.begin(), table.levels.begin() + table.size()};
}
std::vector<int> all_up_to(int g) {
  std::vector<int> all;
  for (int z = 0; z <= g; ++z) all.push_back(z);
  return all;
}

struct parameters {
  int bits, granularity;
  double truncation;
};

struct published {
  int bits, granularity, parts;  ///< truncation 1 / parts
  double rounding, truncation;   ///< to six digits; 0: not published
  std::vector<int> levels;       ///< empty: not published
};
/// Li et al., NSDI 2024 (levels), and the two errors by numerical integration.
std::vector<published> const tables{
    {4, 30, 32, 0.0130746, 0.0072673, {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30}},
    {4, 31, 32, 0.012752, 0.007267, {0, 3, 5, 7, 9, 11, 13, 15, 16, 18, 20, 22, 24, 26, 28, 31}},
    {4, 15, 32, 0.013319, 0.007267, all_up_to(15)},
    {4, 36, 32, 0.012140, 0.007267, {0, 4, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 32, 36}},
    {4, 51, 32, 0.012013, 0.007267, {0, 5, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 46, 51}},
    {4, 63, 32, 0.012087, 0.007267, {0, 6, 11, 15, 19, 23, 27, 30, 33, 36, 40, 44, 48, 52, 57, 63}},
    {4, 255, 32, 0.011811, 0.007267, {}},
    {4, 30, 64, 0.016221, 0.003151, {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30}},
    {4, 36, 64, 0.014596, 0.003151, {}},
    {4, 30, 128, 0.019245, 0.001390, {0, 4, 6, 8, 10, 12, 13, 14, 16, 17, 18, 20, 22, 24, 26, 30}},
    {4, 30, 512, 0.023513, 0.000281, {0, 4, 7, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 23, 26, 30}},
    {4, 15, 512, 0.028370, 0.000281, all_up_to(15)},
    {4, 21, 512, 0.020478, 0.000281, {0, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 21}},
    {4,
     42,
     1024,
     0.021332,
     0.000128,
     {0, 6, 9, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 42}},
    {3, 34, 32, 0.055196, 0.007267, {0, 6, 11, 15, 19, 23, 28, 34}},
    {3, 7, 32, 0.061212, 0.007267, all_up_to(7)},
    {2, 3, 32, 0.334702, 0.007267, all_up_to(3)},
};

/// The errors by Simpson's rule, independent of the method under test.
double integral(double from, double to, auto const& f) {
  constexpr int steps = 4000;
  double sum = 0;
  for (int i = 0; i <= steps; ++i)
    sum += f(from + (to - from) * i / steps) * (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2);
  return sum * (to - from) / steps / 3;
}
double rounding_error(std::vector<int> const& levels, int g, double t) {
  double error = 0;
  for (std::size_t z = 0; z + 1 < levels.size(); ++z) {
    double const a = t * (2.0 * levels[z] / g - 1), b = t * (2.0 * levels[z + 1] / g - 1);
    error += integral(a, b, [&](double x) {
      return (b - x) * (x - a) * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    });
  }
  return error;
}

}  // namespace

// THC test C1.
TEST_CASE("thc_table: the published levels exactly, and their errors to 1e-6") {
  for (auto const& one : tables) {
    CAPTURE(one.bits);
    CAPTURE(one.granularity);
    CAPTURE(one.parts);
    auto const table = make_thc_table(one.bits, one.granularity, 1.0 / one.parts);
    if (!one.levels.empty()) CHECK(levels_of(table) == one.levels);
    CHECK(std::fabs(table.rounding_error - one.rounding) < 1e-6);
    CHECK(std::fabs(table.truncation_error - one.truncation) < 1e-6);
  }
}

TEST_CASE("thc_table: the limit for 1/32 is that of the published tables") {
  CHECK(std::fabs(make_thc_table(4, 30, 1.0 / 32).limit - 2.1538746940614564) < 1e-14);
}

TEST_CASE("thc_table: the errors equal their integrals") {
  for (auto const& one : std::vector<parameters>{{4, 30, 1.0 / 32},
                                                 {4, 31, 1.0 / 512},
                                                 {1, 1, 0.3},
                                                 {1, 200, 0.01},
                                                 {2, 8, 0.1},
                                                 {6, 99, 1e-4},
                                                 {8, 255, 1e-6}}) {
    int const bits = one.bits, g = one.granularity;
    CAPTURE(bits);
    CAPTURE(g);
    auto const table = make_thc_table(bits, g, one.truncation);
    double const t = table.limit;
    CHECK(std::fabs(table.rounding_error - rounding_error(levels_of(table), g, t)) < 1e-10);
    auto const beyond = [&](double x) {
      return (x - t) * (x - t) * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    };
    CHECK(std::fabs(table.truncation_error - 2 * integral(t, t + 9, beyond)) < 1e-9);
  }
}

TEST_CASE("thc_table: levels rise from 0 to g, symmetrically, for every b and g") {
  for (int bits = 1; bits <= 8; ++bits)
    for (int g = (1 << bits) - 1; g <= 255; g += 1 + g / 16)
      for (double const p : {1.0 / 32, 1.0 / 512}) {
        auto const table = make_thc_table(bits, g, p);
        auto const levels = levels_of(table);
        CAPTURE(bits);
        CAPTURE(g);
        REQUIRE(levels.front() == 0);
        REQUIRE(levels.back() == g);
        REQUIRE(table.rounding_error > 0);
        for (std::size_t z = 0; z < levels.size(); ++z) {
          REQUIRE(levels[z] + levels[levels.size() - 1 - z] == g);
          if (z > 0) REQUIRE(levels[z] > levels[z - 1]);
        }
      }
}

TEST_CASE("thc_table: an exhaustive search finds no better symmetric table") {
  for (auto const& one : std::vector<parameters>{
           {3, 16, 1.0 / 32}, {3, 17, 1.0 / 512}, {2, 21, 0.1}, {4, 20, 1.0 / 64}}) {
    int const bits = one.bits, g = one.granularity;
    CAPTURE(bits);
    CAPTURE(g);
    auto const table = make_thc_table(bits, g, one.truncation);
    hcomp::detail::thc::rounding_costs const cost(table.limit, g);
    int const half = 1 << (bits - 1);
    double least = std::numeric_limits<double>::infinity();
    auto const choose = [&](auto const& self, int chosen, int level, double error) -> void {
      if (chosen == half) {
        least = std::fmin(least, error + cost(level, g - level));
        return;
      }
      for (int next = level + 1; next <= (g - 1) / 2; ++next)
        self(self, chosen + 1, next, error + 2 * cost(level, next));
    };
    choose(choose, 1, 0, 0);
    CHECK(std::fabs(table.rounding_error - least) < 1e-12);
  }
}

TEST_CASE("thc_table: simulated stochastic rounding has the error of the table") {
  auto const table = make_thc_table(4, 31, 1.0 / 32);
  auto const levels = levels_of(table);
  std::mt19937_64 random(12);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  constexpr int draws = 400'000;
  double error = 0;
  for (int i = 0; i < draws; ++i) {
    double const a = normal(random);
    double const v = (std::clamp(a, -table.limit, table.limit) / table.limit + 1) / 2 * 31;
    std::size_t z = 0;
    while (z + 2 < levels.size() && levels[z + 1] <= v) ++z;
    bool const up = uniform(random) * (levels[z + 1] - levels[z]) < v - levels[z];
    double const rounded = table.limit * (2.0 * levels[z + up] / 31 - 1);
    error += (rounded - a) * (rounded - a) / draws;
  }
  double const expected = table.rounding_error + table.truncation_error;
  CHECK(std::fabs(error - expected) < 0.02 * expected);  // 5 standard errors
}

TEST_CASE("thc_table: the default is built within a millisecond") {
  double least = 1;
  for (int i = 0; i < 10; ++i) {
    auto const start = std::chrono::steady_clock::now();
    auto const table = make_thc_table(4, 31, 1.0 / 32);
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start;
    if (table.levels[15] == 31) least = std::fmin(least, time.count());
  }
  MESSAGE("microseconds for b = 4, g = 31: " << least * 1e6);
  CHECK(least < 1e-3);
}

TEST_CASE("make_thc_table: impossible settings are refused with their values") {
  CHECK_THROWS_WITH_AS(hcomp::make_thc_table(9, 255, 0.1),
                       "make_thc_table: 9 bits, granularity 255, truncation 0.1; 1 to 8 bits "
                       "b, 2^b - 1 to 255, and 0 to 1 are possible",
                       std::invalid_argument);
  CHECK_THROWS_AS(hcomp::make_thc_table(4, 14, 0.1), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::make_thc_table(4, 256, 0.1), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::make_thc_table(4, 15, 0), std::invalid_argument);
}
