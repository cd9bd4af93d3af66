/// @file
/// Growth of the error when signs are decoded, added and compressed again at every hop, with the
/// numbers of its exact recursion. This is why hcomp merges signs.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

namespace {

double squared_norm(std::vector<double> const& v) {
  double sum = 0;
  for (double const value : v) sum += value * value;
  return sum;
}

/// SSDM's unbiased one-bit compressor: +-||v||, plus with probability 1/2 + v_j / (2 ||v||).
/// Source: Safaryan and Richtarik, Stochastic sign descent methods, ICML 2021.
std::vector<double> ssdm(std::vector<double> v, std::mt19937_64& random) {
  double const norm = std::sqrt(squared_norm(v));
  for (double& value : v) {
    double const uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    value = uniform < 0.5 + value / (2 * norm) ? norm : -norm;
  }
  return v;
}

}  // namespace

// Marsit test 20.
TEST_CASE("cascading SSDM: the squared norm grows from 4, 9, 16 to 304, 4944, 79216") {
  constexpr std::size_t dimension = 16;
  constexpr int draws = 4000;
  auto gradient = data::uniform<double>(dimension, -1, 1, {.seed = 20});
  double const norm = std::sqrt(squared_norm(gradient));
  for (double& value : gradient) value /= norm;
  std::mt19937_64 random(20);
  struct {
    int workers;
    double expected;
  } const cases[] = {{2, 304}, {3, 4944}, {4, 79216}};
  for (auto const& one : cases) {
    int const workers = one.workers;
    CAPTURE(workers);
    // a_1 = D, a_k = D (a_{k-1} + 1 + 2 (k - 1)) for equal unit gradients.
    double recursion = dimension;
    for (int k = 2; k <= workers; ++k) recursion = dimension * (recursion + 1 + 2 * (k - 1));
    CHECK(recursion == one.expected);
    double mean = 0;
    for (int draw = 0; draw < draws; ++draw) {
      auto y = ssdm(gradient, random);
      for (int k = 2; k <= workers; ++k) {
        for (std::size_t i = 0; i < dimension; ++i) y[i] += gradient[i];
        y = ssdm(y, random);
      }
      mean += squared_norm(y) / draws;
    }
    CHECK(std::fabs(mean / one.expected - 1) < 0.02);
  }
}

TEST_CASE(
    "sign: the squared norm of the mean stays the dimension, however many workers are merged") {
  constexpr std::size_t dimension = 16;
  hcomp::sign<float> const codec;
  laws::encoded_block sum;
  for (std::uint32_t m = 0; m < 50; ++m) {
    auto const mine =
        laws::encode(codec, data::uniform(dimension, -1, 1, {.seed = m}), {.rank = m});
    sum = m == 0 ? mine : laws::merged(codec, mine, sum);
    auto const mean = laws::decoded(codec, sum, dimension, hcomp::reduce_op::mean);
    REQUIRE(squared_norm(mean) == dimension);
  }
}
