#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/core/bernoulli.hpp>
#include <support/data.hpp>
#include <vector>

using hcomp::mask_key;

// Words that replace std::uint64_t. bernoulli_mask is a template over words and finds their own
// philox4x32. So a test can give it any random digits, and count the digits that it draws.
namespace stand_in {

template <class Source> struct word {
  std::uint64_t bits;

  friend word operator&(word a, word b) { return {a.bits & b.bits}; }
  friend word operator&(word a, std::uint64_t b) { return {a.bits & b}; }
  friend word operator|(word a, word b) { return {a.bits | b.bits}; }
  friend word operator|(word a, std::uint64_t b) { return {a.bits | b}; }
  friend word operator+(word a, std::uint64_t b) { return {a.bits + b}; }
  friend word operator~(word a) { return {~a.bits}; }
  friend word operator<<(word a, int by) { return {a.bits << by}; }
  friend word operator>>(word a, int by) { return {a.bits >> by}; }
  friend word operator^(word a, std::uint64_t b) { return {a.bits ^ b}; }
  word& operator+=(int b) { return *this = *this + static_cast<std::uint64_t>(b); }
  word& operator&=(word b) { return *this = *this & b; }
  word& operator|=(word b) { return *this = *this | b; }
};

/// Lane j of word w gets the 12 digits of the number 64 w + j. All later digits are 0 (key 0) or 1
/// (any other key).
struct all_digit_strings {};
inline void draw(hcomp::philox_words<word<all_digit_strings>>& c, std::uint64_t key) {
  std::uint64_t const place = c.c0.bits, call = (c.c1.bits & 0xffffffffu) >> 24;
  std::uint64_t digits[2];
  for (std::uint64_t i = 0; i < 2; ++i) {
    std::uint64_t const number = 2 * call + i;  // number of the digit
    digits[i] = key == 0 ? 0 : ~std::uint64_t{0};
    if (number >= 12) continue;
    digits[i] = 0;
    for (std::uint64_t lane = 0; lane < 64; ++lane)
      digits[i] |= ((64 * place + lane) >> (11 - number) & 1) << lane;
  }
  c.c0.bits = digits[0] & 0xffffffffu;
  c.c1.bits = digits[0] >> 32;
  c.c2.bits = digits[1] & 0xffffffffu;
  c.c3.bits = digits[1] >> 32;
}

/// The library's random digits, counted.
struct counted {};
inline int calls = 0;
inline void draw(hcomp::philox_words<word<counted>>& c, std::uint64_t key) {
  ++calls;
  hcomp::philox_words<std::uint64_t> plain[1] = {{c.c0.bits, c.c1.bits, c.c2.bits, c.c3.bits}};
  hcomp::philox4x32(plain, key);
  c = {{plain[0].c0}, {plain[0].c1}, {plain[0].c2}, {plain[0].c3}};
}

template <class Source, int N>
void philox4x32(hcomp::philox_words<word<Source>> (&counters)[N], std::uint64_t key) {
  for (auto& counter : counters) draw(counter, key);
}

}  // namespace stand_in

namespace {

std::uint64_t mask(std::uint64_t wanted, std::uint64_t place, mask_key const& key) {
  std::uint64_t result = 0;
  hcomp::bernoulli_mask(result, wanted, place, key);
  return result;
}

struct probability {
  std::uint32_t share, whole;
};
probability const spec_probabilities[] = {{1, 2}, {1, 3}, {2, 3}, {1, 5}, {3, 7}, {5, 8}, {1, 100}};

}  // namespace

TEST_CASE("bernoulli_mask: takes exactly the digit strings below the probability") {
  // All 2^12 strings of 12 random digits, followed by zeros or by ones. The bit is set if and only
  // if the string, read as a binary fraction, is below share / whole. So the probability is exact.
  using word = stand_in::word<stand_in::all_digit_strings>;
  std::vector<probability> probabilities{{1, 100},
                                         {99, 100},
                                         {1, 4096},
                                         {4095, 4096},
                                         {1, 8192},
                                         {12345, 65536},
                                         {1, ~0u},
                                         {~0u - 1, ~0u},
                                         {~0u / 3, ~0u},
                                         {1u << 31, ~0u},
                                         {(1u << 31) - 1, ~0u}};
  for (std::uint32_t whole = 2; whole <= 33; ++whole)
    for (std::uint32_t share = 1; share < whole; ++share) probabilities.push_back({share, whole});
  for (auto const& p : probabilities)
    for (bool const ones : {false, true}) {
      CAPTURE(p.share);
      CAPTURE(p.whole);
      CAPTURE(ones);
      std::uint64_t const scaled = std::uint64_t{p.share} << 12;
      std::uint64_t const floor = scaled / p.whole;
      bool const boundary_taken = scaled % p.whole != 0 && !ones;
      mask_key const key{ones, 0, p.share, p.whole};
      hcomp::mask_tile all, together;
      all.fill(~std::uint64_t{0});
      hcomp::bernoulli_masks<word>(together, all, 64, 0, key);
      bool right = true;
      for (std::uint64_t w = 0; w < 64; ++w) {
        std::uint64_t expected = 0;
        for (std::uint64_t lane = 0; lane < 64; ++lane) {
          std::uint64_t const string = 64 * w + lane;
          bool const below = string < floor || (string == floor && boundary_taken);
          expected |= std::uint64_t{below} << lane;
        }
        word alone;
        hcomp::bernoulli_mask(alone, word{~std::uint64_t{0}}, w, key);
        right &= alone.bits == expected;
        right &= together[w] == expected;
      }
      REQUIRE(right);
    }
}

// Marsit test 5.
TEST_CASE("bernoulli_mask: sets bits with its probability") {
  constexpr std::uint64_t words = 20000;
  constexpr double lanes = 64.0 * words;
  for (auto const& p : spec_probabilities) {
    CAPTURE(p.share);
    CAPTURE(p.whole);
    double set = 0;
    for (std::uint64_t w = 0; w < words; ++w)
      set += std::popcount(mask(~std::uint64_t{0}, w, {7, 1, p.share, p.whole}));
    double const expected = static_cast<double>(p.share) / p.whole;
    double const z = (set / lanes - expected) / std::sqrt(expected * (1 - expected) / lanes);
    CHECK(std::fabs(z) < 4.5);
  }
}

// Marsit test 5: rounds per word. One call gives two rounds.
TEST_CASE("bernoulli_mask: draws no more digits than it needs") {
  using word = stand_in::word<stand_in::counted>;
  constexpr std::uint64_t words = 20000;
  auto const calls_per_word = [&](probability p) {
    stand_in::calls = 0;
    for (std::uint64_t w = 0; w < words; ++w) {
      word taken;
      hcomp::bernoulli_mask(taken, word{~std::uint64_t{0}}, w, mask_key{8, 1, p.share, p.whole});
      REQUIRE(taken.bits == mask(~std::uint64_t{0}, w, {8, 1, p.share, p.whole}));
    }
    return static_cast<double>(stand_in::calls) / words;
  };
  CHECK(calls_per_word({1, 2}) == 1);                                 // one digit
  CHECK(calls_per_word({3, 4}) == 1);                                 // two digits
  CHECK(calls_per_word({5, 8}) == doctest::Approx(2).epsilon(1e-6));  // three
  // Other probabilities: 64 lanes are all decided after k digits with probability (1 - 2^-k)^64.
  double expected = 0;
  for (int call = 0; call < 20; ++call) expected += 1 - std::pow(1 - std::pow(4.0, -call), 64);
  for (probability const p : {probability{1, 3}, {2, 5}, {3, 7}, {1, 100}}) {
    CAPTURE(p.whole);
    CHECK(std::fabs(calls_per_word(p) - expected) < 0.05);  // sd of one word below 1.1: 6 errors
  }
  word none;
  stand_in::calls = 0;
  hcomp::bernoulli_mask(none, word{0}, 0, mask_key{8, 1, 1, 3});
  CHECK(stand_in::calls == 0);
}

TEST_CASE("bernoulli_mask: a bit depends on key and index only, not on the other requested bits") {
  auto const wanted = data::words(100, {.seed = 4});
  for (auto const& p : spec_probabilities)
    for (std::uint64_t w = 0; w < 100; ++w) {
      mask_key const key{9, 2, p.share, p.whole};
      REQUIRE(mask(wanted[w], w, key) == (mask(~std::uint64_t{0}, w, key) & wanted[w]));
    }
}

TEST_CASE("bernoulli_masks: gives the words of bernoulli_mask, for any number of them") {
  auto const wanted = data::words(hcomp::mask_tile_words, {.seed = 5});
  for (auto const& p : spec_probabilities)
    for (int const count : {0, 1, 2, 7, 8, 9, 16, 100, 255, 256})
      for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{0xffffffff}}) {
        CAPTURE(p.whole);
        CAPTURE(count);
        auto const n = static_cast<std::size_t>(count);
        mask_key const key{10, 3, p.share, p.whole};
        hcomp::mask_tile some{}, masks{};
        std::copy_n(wanted.begin(), n, some.begin());
        hcomp::bernoulli_masks<std::uint64_t>(masks, some, count, first, key);
        for (std::size_t w = 0; w < n; ++w) REQUIRE(masks[w] == mask(wanted[w], first + w, key));
      }
}

TEST_CASE("bernoulli_mask_each: gives every word the result of bernoulli_mask") {
  std::uint64_t const places[3] = {9, 1, std::uint64_t{1} << 40},
                      wanted[3] = {~std::uint64_t{0}, 0, 0x123456789abcdefu};
  for (auto const& p : spec_probabilities) {
    CAPTURE(p.whole);
    mask_key const key{11, 4, p.share, p.whole};
    std::uint64_t found[3];
    hcomp::bernoulli_mask_each(found, wanted, places, key);
    for (int i = 0; i < 3; ++i) REQUIRE(found[i] == mask(wanted[i], places[i], key));
  }
}

TEST_CASE("bernoulli_mask: a different index, number or key gives other bits, also far away") {
  std::uint64_t const all = ~std::uint64_t{0};
  std::uint64_t const reference = mask(all, 5, {1, 1, 1, 2});
  for (int bit = 0; bit < 56; ++bit)
    CHECK(mask(all, 5 ^ std::uint64_t{1} << bit, {1, 1, 1, 2}) != reference);
  for (int bit = 0; bit < 32; ++bit) CHECK(mask(all, 5, {1, 1 ^ 1u << bit, 1, 2}) != reference);
  for (int bit = 0; bit < 64; ++bit)
    CHECK(mask(all, 5, {1 ^ std::uint64_t{1} << bit, 1, 1, 2}) != reference);
}

TEST_CASE("bernoulli_mask: bits of a word, of neighbouring words and of two tags are independent") {
  constexpr std::uint64_t words = 20000;
  for (probability const p : {probability{1, 2}, {1, 3}}) {
    double next_bit = 0, next_word = 0, other_tag = 0;
    for (std::uint64_t w = 0; w < words; ++w) {
      std::uint64_t const here = mask(~std::uint64_t{0}, w, {3, 1, p.share, p.whole});
      next_bit += std::popcount(here & std::rotl(here, 1));
      next_word += std::popcount(here & mask(~std::uint64_t{0}, w + 1, {3, 1, p.share, p.whole}));
      other_tag += std::popcount(here & mask(~std::uint64_t{0}, w, {3, 2, p.share, p.whole}));
    }
    // Pairs of ones among N pairs; two pairs may share a bit, hence the second term.
    double const q = static_cast<double>(p.share) / p.whole, both = 64.0 * words * q * q;
    double const variance = q * q - std::pow(q, 4) + 2 * (q * q * q - std::pow(q, 4));
    double const limit = 5 * std::sqrt(64.0 * words * variance);
    CHECK(std::fabs(next_bit - both) < limit);
    CHECK(std::fabs(next_word - both) < limit);
    CHECK(std::fabs(other_tag - both) < limit);
  }
}

TEST_CASE("bernoulli_mask: one key's smaller probability is contained in its larger one") {
  // Both compare the same uniform number. Therefore no path of merges may use a tag twice.
  for (std::uint64_t w = 0; w < 1000; ++w) {
    std::uint64_t const third = mask(~std::uint64_t{0}, w, {3, 1, 1, 3});
    std::uint64_t const half = mask(~std::uint64_t{0}, w, {3, 1, 1, 2});
    REQUIRE((third & ~half) == 0);
  }
}
