#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <hcomp/core/simd.hpp>
#include <support/data.hpp>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace {

template <class Word> void any_bit_sees_every_bit() {
  Word word = Word{};
  CHECK_FALSE(hcomp::any_bit(word));
  std::uint64_t lanes[hcomp::word_lanes<Word>];
  for (int lane = 0; lane < hcomp::word_lanes<Word>; ++lane)
    for (int bit = 0; bit < 64; ++bit) {
      std::memset(lanes, 0, sizeof(lanes));
      lanes[lane] = std::uint64_t{1} << bit;
      std::memcpy(&word, lanes, sizeof(word));
      REQUIRE(hcomp::any_bit(word));
    }
}

template <class Word> void count_from_counts() {
  for (std::uint64_t const first :
       {std::uint64_t{0}, std::uint64_t{0xfffffffe}, ~std::uint64_t{0}}) {
    Word word = Word{};
    hcomp::count_from(word, first);
    std::uint64_t lanes[hcomp::word_lanes<Word>];
    std::memcpy(lanes, &word, sizeof(word));
    for (int lane = 0; lane < hcomp::word_lanes<Word>; ++lane)
      REQUIRE(lanes[lane] == first + static_cast<std::uint64_t>(lane));
  }
}

}  // namespace

TEST_CASE("any_bit: sees any single bit of any lane, and no bit in zero") {
  any_bit_sees_every_bit<std::uint64_t>();
  any_bit_sees_every_bit<hcomp::words<2>>();
  any_bit_sees_every_bit<hcomp::words<4>>();
  any_bit_sees_every_bit<hcomp::words<8>>();
}

TEST_CASE("count_from: numbers the lanes, across 2^32 and around 2^64") {
  count_from_counts<std::uint64_t>();
  count_from_counts<hcomp::words<2>>();
  count_from_counts<hcomp::words<4>>();
  count_from_counts<hcomp::words<8>>();
}

TEST_CASE("multiply_low_halves: is the 64-bit product of the lower halves, lane by lane") {
  for (std::uint32_t const factor : {0u, 1u, 0xd2511f53u, 0xcd9e8d57u, ~0u}) {
    auto const a = data::words(2, {.seed = 1 + factor});
    hcomp::words<2> word, product;
    std::memcpy(&word, a.data(), sizeof(word));
    hcomp::multiply_low_halves(product, word, factor);
    for (int lane = 0; lane < 2; ++lane)
      CHECK(product[lane] == (a[static_cast<std::size_t>(lane)] & 0xffffffffu) * factor);
    std::uint64_t one;
    hcomp::multiply_low_halves(one, a[0], factor);
    CHECK(one == (a[0] & 0xffffffffu) * factor);
  }
}

#pragma GCC diagnostic pop

TEST_CASE("best_simd_level: is the same every time it is asked") {
  CHECK(hcomp::best_simd_level() == hcomp::best_simd_level());
  CHECK(hcomp::best_simd_level() >= hcomp::simd_level::baseline);
}
