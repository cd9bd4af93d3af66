#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <hcomp/core/half.hpp>
#include <limits>
#include <random>
#include <support/data.hpp>
#include <vector>

using hcomp::bfloat16;
using hcomp::float16;
using hcomp::same_bits;

namespace {

float16 half_of_bits(std::uint16_t bits) {
  float16 half;
  half.bits = bits;
  return half;
}
bfloat16 bfloat_of_bits(std::uint16_t bits) {
  bfloat16 half;
  half.bits = bits;
  return half;
}

/// The nearest number with `digits` significant bits and exponents from `lowest` on, ties to even.
/// Infinite from the middle between `max` and the next number on. Slow and exact.
double nearest(double x, int digits, int lowest, double max) {
  if (x == 0 || !std::isfinite(x)) return x;
  int const exponent = std::max(std::ilogb(x), lowest);
  double const unit = std::ldexp(1.0, exponent - digits + 1);
  double const rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > max ? std::copysign(INFINITY, x) : rounded;
}
double nearest_float16(float x) { return nearest(x, 11, -14, 65504); }
double nearest_bfloat16(float x) { return nearest(x, 8, -126, 0x1.fep127); }

/// Floats around every number of a 16-bit format and every tie between two of them, and random
/// ones.
template <class Half> std::vector<float> interesting_floats(Half (*of_bits)(std::uint16_t)) {
  std::vector<float> x;
  float before = 0;
  for (std::uint32_t bits = 0; bits < 0x7fffu; ++bits) {
    float const here = of_bits(static_cast<std::uint16_t>(bits));
    if (!std::isfinite(here)) break;
    float const tie = before + (here - before) / 2;
    for (float const f : {here, tie})
      for (float const g : {f, std::nextafter(f, 0.0f), std::nextafter(f, INFINITY)}) {
        x.push_back(g);
        x.push_back(-g);
      }
    before = here;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    auto const f = same_bits<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(f)) x.push_back(f);
  }
  return x;
}

}  // namespace

TEST_CASE("float16: all 65536 values are those of IEEE 754, and survive float and back") {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    auto const bits = static_cast<std::uint16_t>(i);
    CAPTURE(bits);
    float const value = half_of_bits(bits);
    int const exponent = bits >> 10 & 31, fraction = bits & 1023;
    double const magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    REQUIRE(std::signbit(value) == (bits >> 15 != 0));
    if (std::isnan(magnitude)) {
      REQUIRE(std::isnan(value));
      REQUIRE(float16(value).bits == (bits | 0x200));  // NaN becomes quiet and keeps its payload
    } else {
      REQUIRE(std::fabs(static_cast<double>(value)) == magnitude);
      REQUIRE(float16(value).bits == bits);
    }
  }
}

TEST_CASE("float16: rounds floats to the nearest value, ties to even") {
  for (float const x : interesting_floats(half_of_bits)) {
    CAPTURE(x);
    float const got = float16(x);
    REQUIRE(static_cast<double>(got) == nearest_float16(x));
    REQUIRE(std::signbit(got) == std::signbit(x));
  }
}

TEST_CASE("float16: overflows half a unit above 65504, not before") {
  CHECK(static_cast<float>(float16(65504.0f)) == 65504);
  CHECK(static_cast<float>(float16(std::nextafter(65520.0f, 0.0f))) == 65504);
  CHECK(std::isinf(static_cast<float>(float16(65520.0f))));
  CHECK(std::isinf(static_cast<float>(float16(FLT_MAX))));
  CHECK(static_cast<float>(float16(-INFINITY)) == -INFINITY);
  CHECK(float16(std::ldexp(1.0f, -25)).bits == 0);  // a tie: to even
  CHECK(float16(std::nextafter(std::ldexp(1.0f, -25), 1.0f)).bits == 1);
  CHECK(float16(FLT_TRUE_MIN).bits == 0);
  CHECK(float16(-FLT_TRUE_MIN).bits == 0x8000);
}

TEST_CASE("bfloat16: all 65536 values are the upper halves of floats, and survive float and back") {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    auto const bits = static_cast<std::uint16_t>(i);
    CAPTURE(bits);
    float const value = bfloat_of_bits(bits);
    REQUIRE(same_bits<std::uint32_t>(value) == i << 16);
    REQUIRE(bfloat16(value).bits == (std::isnan(value) ? bits | 0x40 : bits));
  }
}

TEST_CASE("bfloat16: rounds floats to the nearest value, ties to even") {
  for (float const x : interesting_floats(bfloat_of_bits)) {
    CAPTURE(x);
    float const got = bfloat16(x);
    REQUIRE(static_cast<double>(got) == nearest_bfloat16(x));
    REQUIRE(std::signbit(got) == std::signbit(x));
  }
  CHECK(std::isinf(static_cast<float>(bfloat16(FLT_MAX))));
  // A NaN remains a NaN although its payload is cut off.
  CHECK(std::isnan(static_cast<float>(bfloat16(same_bits<float>(0x7f800001u)))));
  CHECK(std::isnan(static_cast<float>(float16(same_bits<float>(0x7f800001u)))));
}

TEST_CASE("accumulator: 16-bit values are added as float, doubles as double") {
  CHECK(std::is_same_v<hcomp::accumulator_t<float16>, float>);
  CHECK(std::is_same_v<hcomp::accumulator_t<bfloat16>, float>);
  CHECK(std::is_same_v<hcomp::accumulator_t<float>, float>);
  CHECK(std::is_same_v<hcomp::accumulator_t<double>, double>);
}
