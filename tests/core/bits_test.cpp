#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/half.hpp>
#include <limits>
#include <support/data.hpp>

TEST_CASE("load and store: round-trip at any address and touch no other byte") {
  for (std::size_t shift = 0; shift < 16; ++shift)
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(shift);
      std::vector<std::byte> bytes(48, std::byte{0x5a}), expected = bytes;
      std::uint64_t const value = 0x0123456789abcdefu;
      hcomp::store(bytes.data() + shift, i, value);
      for (std::size_t b = 0; b < 8; ++b)  // little-endian
        expected[shift + i * 8 + b] = static_cast<std::byte>(value >> 8 * b & 0xff);
      REQUIRE(bytes == expected);
      REQUIRE(hcomp::load<std::uint64_t>(bytes.data() + shift, i) == value);
      REQUIRE(hcomp::load<std::uint16_t>(bytes.data() + shift + i * 8, 1) == 0x89ab);
    }
}

TEST_CASE_TEMPLATE("is_finite: false for NaN and infinity, true for everything else", T, float,
                   double, hcomp::float16, hcomp::bfloat16) {
  for (T const value : data::finite_specials<T>()) CHECK(hcomp::is_finite(value));
  for (T const value : data::nonfinite_specials<T>()) CHECK_FALSE(hcomp::is_finite(value));
}

TEST_CASE("is_finite: agrees with the standard library on random bits") {
  for (std::uint64_t const bits : data::words(100000, {.seed = 1})) {
    auto const f = hcomp::same_bits<float>(static_cast<std::uint32_t>(bits));
    auto const d = hcomp::same_bits<double>(bits);
    REQUIRE(hcomp::is_finite(f) == std::isfinite(f));
    REQUIRE(hcomp::is_finite(d) == std::isfinite(d));
  }
  // All ones in the exponent, with every single bit of the fraction.
  for (int bit = 0; bit < 52; ++bit)
    CHECK_FALSE(
        hcomp::is_finite(hcomp::same_bits<double>(0x7ff0000000000000u | std::uint64_t{1} << bit)));
}

TEST_CASE_TEMPLATE("compensated: reads the sum of both vectors, at any offset", T, float, double,
                   hcomp::float16, hcomp::bfloat16) {
  using A = hcomp::accumulator_t<T>;
  auto const x = data::uniform<T>(20, -8, 8, {.seed = 2});
  auto const c = data::uniform<A>(20, -8, 8, {.seed = 3});
  hcomp::compensated<T> const both{x.data(), c.data()};
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(both[i] == static_cast<A>(x[i]) + c[i]);
    CHECK((both + 10)[i] == both[10 + i]);
  }
}

TEST_CASE_TEMPLATE("ones, lowest_one, bit_length: as the standard library's", T, std::uint8_t,
                   std::uint16_t, std::uint32_t, std::uint64_t) {
  using namespace hcomp::detail;
  for (std::uint64_t const bits : data::words(1000, {.seed = 4}))
    for (int shift = 0; shift < 64; ++shift) {
      auto const word = static_cast<T>(bits >> shift);
      REQUIRE(ones(word) == std::popcount(word));
      if (word != 0) REQUIRE(lowest_one(word) == std::countr_zero(word));
      REQUIRE(bit_length(word) == static_cast<int>(std::bit_width(word)));
      REQUIRE(is_power_of_two(word) == std::has_single_bit(word));
    }
  CHECK(bit_length(T{0}) == 0);
  CHECK_FALSE(is_power_of_two(T{0}));
  CHECK_FALSE(is_power_of_two(-4));
}
