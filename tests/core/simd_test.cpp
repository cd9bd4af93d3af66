#include <doctest/doctest.h>

#include <cstddef>
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

template <class Word> void multiplies_low_halves(std::uint32_t factor) {
  constexpr auto lanes = static_cast<std::size_t>(hcomp::word_lanes<Word>);
  auto const a = data::words(lanes, {.seed = 1 + factor});
  std::uint64_t found[lanes];
  Word word, product;
  std::memcpy(&word, a.data(), sizeof(word));
  hcomp::multiply_low_halves(product, word, factor);
  std::memcpy(found, &product, sizeof(product));
  for (std::size_t lane = 0; lane < lanes; ++lane)
    REQUIRE(found[lane] == (a[lane] & 0xffffffffu) * factor);
}

}  // namespace

TEST_CASE("any_bit: detects any single bit of any lane, and no bit in zero") {
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
    multiplies_low_halves<std::uint64_t>(factor);
    multiplies_low_halves<hcomp::words<2>>(factor);
  }
}

#pragma GCC diagnostic pop
