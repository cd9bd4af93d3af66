// optimise: -O1
// optimise sanitized: -O1
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/thc/thc.hpp>
#include <numbers>
#include <string>
#include <support/baselines.hpp>
#include <support/mean_of_blocks.hpp>
#include <vector>

using baselines::errors;
using baselines::input;
using baselines::lloyd_max;
using baselines::randomness;
using baselines::vector;

namespace {

constexpr std::size_t values = 32768;

/// The relative difference to `expected` is at most `tolerance`.
bool near(double got, double expected, double tolerance) {
  return std::fabs(got - expected) <= tolerance * expected;
}

/// ||mean||^2 in units of the workers' mean ||x||^2.
double share_of_mean(std::vector<vector> const& workers) {
  return baselines::nmse(workers, vector(workers.front().size()));
}

/// Mean squared error of unbiased rounding between the neighbours `low` and `high`.
double rounding(double value, double low, double high) { return (high - value) * (value - low); }

}  // namespace

TEST_CASE("baselines: Lloyd-Max levels have the distortions of the literature") {
  // Max 1960, table I: 0.3634, 0.1175, 0.009497; one bit: levels +-sqrt(2/pi), D = 1 - 2/pi
  CHECK(near(lloyd_max(1).distortion, 1 - 2 / std::numbers::pi, 1e-9));
  CHECK(near(lloyd_max(1).levels[1], std::sqrt(2 / std::numbers::pi), 1e-9));
  CHECK(near(lloyd_max(2).distortion, 0.1175, 0.0005));
  CHECK(near(lloyd_max(4).distortion, 0.009497, 0.0005));
  lloyd_max const two(2);
  CHECK(two.nearest(-100) == two.levels[0]);
  CHECK(two.nearest(0.01) == two.levels[2]);
  CHECK(two.nearest(0.99) == two.levels[3]);  // thresholds 0 and 0.9816
  CHECK(two.nearest(0.97) == two.levels[2]);
}

TEST_CASE("baselines: a rotation keeps lengths, and its inverse gives the vector back") {
  randomness random(1);
  vector const x = baselines::vectors(input::heavy, 1, 1024, random).front();
  baselines::rotation const rotate(x.size(), random);
  vector const rotated_x = rotate.forward(x);
  CHECK(near(baselines::energy(rotated_x), baselines::energy(x), 1e-12));
  // A single nonzero value spreads to all coordinates, with equal magnitude.
  vector one(1024);
  one[77] = 32;
  for (double const value : rotate.forward(one)) REQUIRE(std::fabs(value) == 1);
  vector const back = rotate.back(rotated_x);
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) error = std::fmax(error, std::fabs(back[i] - x[i]));
  CHECK(error < 1e-12 * baselines::largest_magnitude(x));
}

TEST_CASE("baselines: EDEN and DRIVE have the theoretical errors, one way and both ways") {
  // Each message loses D / (1 - D) of its energy, independently of the other messages. 3 %: the
  // standard deviation over rotations of 2^15 values is below 1 %.
  for (auto const which : {input::normal, input::lognormal})
    for (int const workers : {1, 4, 10})
      for (int const bits : {1, 2, 4}) {
        CAPTURE(to_text(which));
        CAPTURE(workers);
        CAPTURE(bits);
        lloyd_max const quantizer(bits);
        double const one = quantizer.distortion / (1 - quantizer.distortion);
        randomness random(static_cast<std::uint64_t>(100 * workers + bits));
        auto const x = baselines::vectors(which, workers, values, random);
        errors const got = baselines::errors_of(
            x, [&](vector const& v) { return baselines::eden(v, quantizer, random); });
        CHECK(near(got.one_direction, one / workers, 0.03));
        CHECK(near(got.both_directions, one / workers + (share_of_mean(x) + one / workers) * one,
                   0.03));
      }
}

TEST_CASE("baselines: DRIVE is unbiased over rotations") {
  randomness random(3);
  vector const x = baselines::vectors(input::lognormal, 1, 1024, random).front();
  std::vector<vector> decoded;
  for (int i = 0; i < 400; ++i) decoded.push_back(baselines::drive(x, random));
  // 400 independent errors of pi/2 - 1 each; any excess is bias. 15 %: 3.4 sqrt(2 / 1024).
  CHECK(
      near(baselines::nmse({x}, baselines::mean(decoded)), (std::numbers::pi / 2 - 1) / 400, 0.15));
  CHECK(baselines::drive(vector(64), random) == vector(64));  // a zero vector has no direction
}

TEST_CASE("baselines: TernGrad rounds to 0 and the largest magnitude, without bias") {
  randomness random(4);
  for (auto const which : {input::normal, input::lognormal}) {
    vector const x = baselines::vectors(which, 1, values, random).front();
    double const largest = baselines::largest_magnitude(x);
    double expected = 0, variance = 0;
    for (double const value : x) {
      double const m = std::fabs(value), r = rounding(m, 0, largest);
      expected += r;
      // variance of the squared error, which is m^2 or (largest - m)^2
      variance += r * (largest - 2 * m) * (largest - 2 * m);
    }
    double const got = baselines::nmse({x}, baselines::terngrad(x, random)) * baselines::energy(x);
    CHECK(std::fabs(got - expected) < 4.5 * std::sqrt(variance));
    for (double const value : baselines::terngrad(x, random))
      REQUIRE((value == 0 || std::fabs(value) == largest));
  }
  // Values on three levels are kept: compressing the output again changes nothing.
  vector const ternary = {3, 0, -3, 0, 3};
  CHECK(baselines::terngrad(ternary, random) == ternary);
}

TEST_CASE("baselines: TopK keeps the largest tenth and nothing else") {
  randomness random(5);
  vector const x = baselines::vectors(input::normal, 1, values, random).front();
  vector const kept = baselines::top_k(x);
  std::size_t count = 0;
  double smallest = 1e9, largest_lost = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE((kept[i] == x[i] || kept[i] == 0));
    if (kept[i] != 0) ++count, smallest = std::fmin(smallest, std::fabs(x[i]));
    if (kept[i] == 0) largest_lost = std::fmax(largest_lost, std::fabs(x[i]));
  }
  CHECK(count == values / 10);
  CHECK(largest_lost < smallest);
  // The values beyond q = 1.6449 hold 0.1 + 2 q phi(q) = 0.4393 of a normal vector's energy.
  CHECK(near(baselines::nmse({x}, kept), 0.5607, 0.03));
}

TEST_CASE(
    "baselines: min-max rounding of all workers in one interval is unbiased, with the theoretical "
    "error") {
  randomness random(6);
  for (int const workers : {1, 4}) {
    auto const x = baselines::vectors(input::normal, workers, values, random);
    double low = 0, high = 0;
    for (auto const& v : x)
      for (double const value : v) low = std::fmin(low, value), high = std::fmax(high, value);
    double const step = (high - low) / 15;
    double expected = 0, scale = 0;
    for (auto const& v : x) {
      for (double const value : v) {
        double const below = low + step * std::floor((value - low) / step);
        expected += rounding(value, below, below + step);
      }
      scale += baselines::energy(v);
    }
    // sum of variances / n^2, over energy / n; 3 %: 2^15 squares that are about uniform
    CHECK(near(baselines::nmse(x, baselines::min_max_mean(x, 4, random)),
               expected / workers / scale, 0.03));
  }
  CHECK(baselines::min_max_mean({{2, 2}, {2, 2}}, 4, random) == vector{2, 2});
}

TEST_CASE("baselines: the table of errors matches independent runs") {
  // Results of independent runs with other random numbers (4 trials of 2^15 values). Runs scatter
  // only where one value of the input decides: the largest of all, or the tail of `heavy`.
  struct {
    input which;
    int workers;
    double thc, uniform_thc;
    errors terngrad, top_k, drive, eden2, eden4;
    double min_max, rotated;
    double tolerance, scatter;
  } const rows[] = {
      {input::normal,
       1,
       0.0203,
       0.0207,
       {2.39, 2.39},
       {0.560, 0.560},
       {0.572, 1.47},
       {0.133, 0.284},
       {0.0095, 0.0194},
       0.050,
       0.053,
       0.03,
       0.2},
      {input::normal,
       4,
       0.0051,
       0.0051,
       {0.60, 2.37},
       {0.140, 0.190},
       {0.142, 0.365},
       {0.033, 0.071},
       {0.0024, 0.0048},
       0.0141,
       0.0148,
       0.03,
       0.2},
      {input::normal,
       10,
       0.002,
       0.002,
       {0.249, 1.19},
       {0.057, 0.078},
       {0.057, 0.147},
       {0.0134, 0.0286},
       {0.00096, 0.00195},
       0.0067,
       0.0069,
       0.03,
       0.2},
      {input::lognormal,
       10,
       0.0024,
       0.0025,
       {1.37, 5.8},
       {0.147, 0.306},
       {0.057, 0.333},
       {0.0133, 0.072},
       {0.00096, 0.0051},
       0.095,
       0.0064,
       0.05,
       0.4},
      {input::heavy,
       10,
       0.0024,
       0.0027,
       {1.7, 5.1},
       {0.0020, 0.0126},
       {0.052, 0.138},
       {0.0124, 0.0271},
       {0.00091, 0.0019},
       5.7,
       0.0067,
       0.15,
       0.6},
  };
  static lloyd_max const two_bits(2), four_bits(4);
  for (auto const& row : rows) {
    std::string const name = std::string(to_text(row.which)) + " " + std::to_string(row.workers);
    CAPTURE(name);
    double thc = 0, uniform_thc = 0;
    errors terngrad, top_k, drive, eden2, eden4;
    double min_max = 0, rotated = 0;
    constexpr int trials = 2;
    auto const add = [](errors& sum, errors const& one) {
      sum.one_direction += one.one_direction / trials;
      sum.both_directions += one.both_directions / trials;
    };
    for (int trial = 0; trial < trials; ++trial) {
      randomness random(static_cast<std::uint64_t>(7000 * row.workers + trial));
      auto const x = baselines::vectors(row.which, row.workers, values, random);
      auto const of = [&](auto const& scheme) { return baselines::errors_of(x, scheme); };
      std::vector<std::vector<float>> floats;
      for (vector const& one : x) floats.emplace_back(one.begin(), one.end());
      auto const error_of = [&](auto const& codec) {
        auto const mean =
            hcomp::testing::mean_of_blocks(codec.fitted(static_cast<std::uint32_t>(row.workers)),
                                           floats, {.step = static_cast<std::uint64_t>(trial)});
        return baselines::nmse(x, {mean.begin(), mean.end()}) / trials;
      };
      thc += error_of(hcomp::thc<float>(
          {.bits = 4, .granularity = 30, .truncation = 1. / 32, .transform = 16384}));
      uniform_thc += error_of(
          hcomp::uniform_thc<float>({.bits = 4, .truncation = 1. / 32, .transform = 16384}));
      add(terngrad, of([&](vector const& v) { return baselines::terngrad(v, random); }));
      add(top_k, of([&](vector const& v) { return baselines::top_k(v); }));
      add(drive, of([&](vector const& v) { return baselines::drive(v, random); }));
      add(eden2, of([&](vector const& v) { return baselines::eden(v, two_bits, random); }));
      add(eden4, of([&](vector const& v) { return baselines::eden(v, four_bits, random); }));
      min_max += baselines::nmse(x, baselines::min_max_mean(x, 4, random)) / trials;
      rotated += baselines::nmse(x, baselines::rotated_min_max_mean(x, 4, random)) / trials;
    }
    auto const check = [](errors const& got, errors const& known, double tolerance) {
      CHECK(near(got.one_direction, known.one_direction, tolerance));
      CHECK(near(got.both_directions, known.both_directions, tolerance));
    };
    // Two digits are known; heavy: a few values decide how normal the coordinates are.
    double const digits = row.which == input::heavy ? 0.25 : 0.06;
    CHECK(near(thc, row.thc, digits));
    CHECK(near(uniform_thc, row.uniform_thc, digits));
    check(terngrad, row.terngrad, row.scatter);
    check(top_k, row.top_k, row.which == input::heavy ? row.scatter : row.tolerance);
    check(drive, row.drive, row.tolerance);
    check(eden2, row.eden2, row.tolerance);
    check(eden4, row.eden4, row.tolerance);
    CHECK(near(min_max, row.min_max, row.scatter));
    CHECK(near(rotated, row.rotated, 0.2));
  }
}
