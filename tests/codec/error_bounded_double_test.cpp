// max_simd: avx2 baseline
/// @file
/// error_bounded of doubles: errors within the bound at any magnitude, reported errors, and the
/// format. variable_rate_laws_test.cpp tests what all variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <stdexcept>
#include <support/encoded_vectors.hpp>
#include <support/error_bounded.hpp>
#include <support/exact_sum.hpp>
#include <support/few_cases.hpp>
#include <vector>

using hcomp::error_bounded_options;
using hcomp::testing::decoded;
using hcomp::testing::encoded;
using hcomp::testing::exact_sum;
using hcomp::testing::few_cases;
using hcomp::testing::merged;

namespace {

using codec_type = hcomp::error_bounded<double>;
using doubles = std::vector<double>;
using bytes = hcomp::testing::encoded_bytes;

/// Of either sign, of 2^lowest to 2^highest, each block of 32 in a range of its own; some are 0.
doubles of_sizes(std::size_t n, int lowest, int highest, std::uint64_t seed) {
  doubles x(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const powers = static_cast<std::uint64_t>(highest - lowest);
    auto const power = static_cast<int>(hcomp::mix(seed + i / 32) % powers);
    double const fraction = bounded_values::draw(seed, i);
    std::uint64_t const random = hcomp::mix(seed * 7 + i);
    x[i] = random % 9 == 0 ? 0 : std::ldexp(random % 2 == 0 ? fraction : -fraction, lowest + power);
  }
  return x;
}

}  // namespace

TEST_CASE("error_bounded of doubles: sums are within the bound over 60 orders of magnitude") {
  std::size_t const n = few_cases ? 5'000 : 30'000;
  for (double const bound : {1e-270, 1e-150, 1e-12, 1e-3, 0.8, 0.3e7, 1e268})
    for (std::uint32_t const ranks : {1u, 3u, 8u}) {
      CAPTURE(bound);
      CAPTURE(ranks);
      codec_type const codec({.bound = bound, .ranks = ranks});
      std::vector<doubles> x;
      bytes sum;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        int const middle = std::ilogb(bound);
        x.push_back(of_sizes(n, middle - 100, middle + 100, 10 * ranks + r));
        auto const mine = encoded(codec, x.back());
        sum = r == 0 ? mine : merged(codec, sum, mine);
      }
      auto const y = decoded(codec, sum, n);
      double const said = codec.error_of(sum);
      std::size_t beyond = 0, untold = 0, rounded = 0;
      for (std::size_t i = 0; i < n; ++i) {
        exact_sum exact;
        double magnitude = 0;
        for (auto const& mine : x) exact.add(mine[i]), magnitude += std::fabs(mine[i]);
        double const off = exact.distance(y[i]);
        // Larger sums: the doubles next to them are more than 2^-9 of the bound apart, and where a
        // rank's value stays a double, every addition rounds.
        bool const is_large = magnitude > 0x1p43 * bound;
        beyond += off > bound + (is_large ? ranks * 0x1p-53 * magnitude : 0);
        untold += off > said;
        rounded += off > 0;
      }
      CHECK(beyond == 0);
      CHECK(untold == 0);
      CHECK(rounded > n / 4);
    }
}

TEST_CASE("error_bounded of doubles: values that stay doubles have no error") {
  codec_type const codec({.bound = 1e-3, .ranks = 2});
  doubles x(100, 1.0);
  x[3] = x[6] = std::numeric_limits<double>::infinity();
  x[5] = hcomp::same_bits<double>(0xfff8'0000'0001'2345u);
  x[7] = x[8] = 1e308;
  CHECK(codec.error_of(encoded(codec, x)) <= 1e-3 / 2);
}

TEST_CASE("error_bounded of doubles: what is 0 stays 0, and takes no bytes") {
  codec_type const codec({.bound = 1e-3});
  auto const code = encoded(codec, doubles(1000, 0.0));
  CHECK(code.size() == sizeof(codec_type::header_type) + 4 + 32);
  CHECK(decoded(codec, code, 1000) == doubles(1000, 0.0));
  CHECK(decoded(codec, encoded(codec, doubles(1000, 0.4e-3)), 1000) == doubles(1000, 0.0));
}

TEST_CASE("error_bounded of doubles: impossible options and too many ranks are refused") {
  codec_type const codec({.bound = 1e-3, .ranks = 2});
  auto const code = encoded(codec, doubles(20, 1.0));
  CHECK_THROWS_AS(codec_type({.bound = 2e-3, .ranks = 2}).check(code, 20), hcomp::wire_error);
  CHECK_THROWS_AS(codec.fitted(3).check(code, 20), hcomp::wire_error);
  bytes out(codec.capacity(20));
  auto const two = merged(codec, code, code);
  CHECK_THROWS_WITH_AS(codec.merge(two, code, out),
                       "error_bounded: sums of 2 and 1 ranks; the bound is divided by 2",
                       hcomp::wire_error);
  CHECK_THROWS_WITH_AS(codec_type({.bound = -1}),
                       "error_bounded: bound -1, ranks 1, magnitude bits 18; the bound divided by "
                       "the ranks is 2^-900 to 2^900, the ranks 1 to 2^20",
                       std::invalid_argument);
  CHECK_THROWS_AS(codec.fitted((1u << 20) + 1), std::invalid_argument);
  CHECK(codec.fitted(1u << 20).options().ranks == 1u << 20);
}

TEST_CASE("error_bounded of doubles: the format is this") {
  codec_type const codec({.bound = 1e-3, .ranks = 4});
  auto const a = encoded(codec, of_sizes(2500, -15, 70, 1)),
             sum = merged(codec, a, encoded(codec, of_sizes(2500, -15, 70, 3)));
  auto const fingerprint = [](bytes const& of) {
    return hcomp::fingerprint(hcomp::serial_group{}, of.data(), of.size());
  };
  CHECK(fingerprint(a) == 13212746655460125876u);
  CHECK(fingerprint(sum) == 16160228046848688321u);
}
