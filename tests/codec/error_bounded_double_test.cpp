// max_simd: avx2 baseline
/// @file
/// error_bounded of doubles: errors within the bound at any size, the same bytes in any order, what
/// codes say of their errors, damage, and the format.

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
using hcomp::testing::encoded;
using hcomp::testing::exact_sum;
using hcomp::testing::few_cases;
using hcomp::testing::merged;
using hcomp::testing::refused_when_damaged;

namespace {

using codec_type = hcomp::error_bounded<double>;
using doubles = std::vector<double>;
using bytes = hcomp::testing::encoded_bytes;

constexpr double infinity = std::numeric_limits<double>::infinity();

doubles decoded(codec_type const& codec, bytes const& in, std::size_t n) {
  doubles y(n, 77.0);
  codec.decode(in, y);
  return y;
}
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

constexpr std::size_t sizes[] = {0, 1, 31, 32, 33, 1000, 1023, 1024, 1025, 3000};

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

TEST_CASE("error_bounded of doubles: sums are the same bytes in any order") {
  codec_type const codec({.bound = 1e-3, .ranks = 3});
  for (std::size_t const n : sizes) {
    CAPTURE(n);
    auto x = of_sizes(n, -12, 45, 1), y = of_sizes(n, -12, 45, 2), z = of_sizes(n, -12, 45, 3);
    for (std::size_t i = 0; i < n; i += 50) {  // what stays a double and loses no bit
      x[i] = i % 100 == 0 ? 0x1p90 : infinity;
      y[i] = z[i] = i % 100 == 0 ? 0x1p88 : 1.0;
    }
    auto const a = encoded(codec, x), b = encoded(codec, y), c = encoded(codec, z);
    CHECK(merged(codec, a, b) == merged(codec, b, a));
    auto const left = merged(codec, merged(codec, a, b), c),
               right = merged(codec, a, merged(codec, c, b));
    CHECK(left == right);
    bytes hop(codec.capacity(n));
    hop.resize(codec.decode_add_encode(b, x, hop));
    CHECK(hop == merged(codec, a, b));
    auto sums = x;
    codec.decode_add(b, sums);
    for (std::size_t i = 0; i < n; i += 50) CHECK(sums[i] == x[i] + y[i]);
  }
}

TEST_CASE("error_bounded of doubles: NaN and infinity come out where they went in") {
  codec_type const codec({.bound = 1e-3, .ranks = 2});
  doubles x(100, 1.0), y(100, 2.0);
  x[3] = infinity;
  y[4] = -infinity;
  x[5] = hcomp::same_bits<double>(0xfff8'0000'0001'2345u);
  x[6] = infinity, y[6] = -infinity;
  x[7] = 1e308, y[7] = 1e308;  // together infinity
  x[8] = 1e308, y[8] = 1;
  auto const sum = merged(codec, encoded(codec, x), encoded(codec, y));
  auto const z = decoded(codec, sum, 100);
  CHECK(z[3] == infinity);
  CHECK(z[4] == -infinity);
  CHECK(hcomp::same_bits<std::uint64_t>(z[5]) == 0x7ff8'0000'0000'0000u);
  CHECK(std::isnan(z[6]));
  CHECK(z[7] == infinity);
  CHECK(z[8] == 1e308);
  double off = 0;
  for (std::size_t i = 9; i < 100; ++i) off = std::max(off, std::fabs(z[i] - 3));
  CHECK(off <= 1e-3);
  CHECK(codec.error_of(encoded(codec, x)) <= 1e-3 / 2);
}

TEST_CASE("error_bounded of doubles: what is 0 stays 0, and takes no bytes") {
  codec_type const codec({.bound = 1e-3});
  auto const code = encoded(codec, doubles(1000, 0.0));
  CHECK(code.size() == sizeof(codec_type::header_type) + 4 + 32);
  CHECK(decoded(codec, code, 1000) == doubles(1000, 0.0));
  CHECK(decoded(codec, encoded(codec, doubles(1000, 0.4e-3)), 1000) == doubles(1000, 0.0));
}

TEST_CASE("error_bounded of doubles: damaged codes are refused or read as something, in place") {
  codec_type const codec({.bound = 1e-3, .ranks = 4});
  auto values = of_sizes(1500, -12, 45, 3);
  values[77] = 3e200;
  auto const right = encoded(codec, values);
  std::size_t const refused = refused_when_damaged(codec, right, 1500, 100);
  CHECK(refused > 1000);
  CHECK(refused < 4000);
}

TEST_CASE("error_bounded of doubles: codes of floats, and of other options, are refused") {
  codec_type const codec({.bound = 1e-3, .ranks = 2});
  auto const code = encoded(codec, doubles(20, 1.0));
  hcomp::error_bounded const of_floats({.bound = 1e-3, .ranks = 2});
  std::vector<float> floats(20, 1.0f);
  bytes other(of_floats.capacity(20));
  other.resize(of_floats.encode(floats, other));
  CHECK_THROWS_AS(codec.check(other, 20), hcomp::wire_error);
  CHECK_THROWS_AS(of_floats.check(code, 20), hcomp::wire_error);
  CHECK_THROWS_AS(of_floats.fallback().check(code, 20), hcomp::wire_error);
  CHECK_THROWS_AS(codec.check(code, 21), hcomp::wire_error);
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
