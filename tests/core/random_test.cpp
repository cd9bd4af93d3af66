#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <set>
#include <support/data.hpp>
#include <vector>

namespace {

struct known_answer {
  std::array<std::uint32_t, 4> counter;
  std::uint64_t key;
  std::array<std::uint32_t, 4> result;
};
// Random123's kat_vectors for philox4x32-10.
known_answer const known_answers[] = {
    {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// N Philox generators at once over all lanes of `Word`: 4 N words of counters, then of results.
template <class Word, int N = 1>
[[gnu::always_inline]] inline void philox_by(std::uint64_t* c, std::uint64_t key) {
  hcomp::philox_words<Word> counters[N];
  std::memcpy(counters, c, sizeof(counters));
  hcomp::philox4x32(counters, key);
  std::memcpy(c, counters, sizeof(counters));
}

#pragma GCC diagnostic pop

using philox_function = void (*)(std::uint64_t* c, std::uint64_t key);
void philox_of_1(std::uint64_t* c, std::uint64_t key) { philox_by<std::uint64_t>(c, key); }
void three_philoxes_of_1(std::uint64_t* c, std::uint64_t key) {
  philox_by<std::uint64_t, 3>(c, key);
}
void philox_of_2(std::uint64_t* c, std::uint64_t key) { philox_by<hcomp::words<2>>(c, key); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void philox_of_4(std::uint64_t* c, std::uint64_t key) {
  philox_by<hcomp::words<4>>(c, key);
}
[[gnu::target("avx2")]] void three_philoxes_of_4(std::uint64_t* c, std::uint64_t key) {
  philox_by<hcomp::words<4>, 3>(c, key);
}
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] void philox_of_8(std::uint64_t* c,
                                                                       std::uint64_t key) {
  philox_by<hcomp::words<8>>(c, key);
}
#endif

struct philox_version {
  int lanes, at_once;
  philox_function run;
};
std::vector<philox_version> philox_versions() {
  std::vector<philox_version> versions{
      {1, 1, philox_of_1}, {1, 3, three_philoxes_of_1}, {2, 1, philox_of_2}};
#if defined(__x86_64__)
  if (hcomp::best_simd_level() >= hcomp::simd_level::avx2) {
    versions.push_back({4, 1, philox_of_4});
    versions.push_back({4, 3, three_philoxes_of_4});
  }
  if (hcomp::best_simd_level() >= hcomp::simd_level::avx512)
    versions.push_back({8, 1, philox_of_8});
#endif
  return versions;
}

}  // namespace

// Marsit test 8.
TEST_CASE("philox4x32: gives the published answers") {
  for (auto const& known : known_answers)
    CHECK(hcomp::philox4x32(known.counter, known.key) == known.result);
}

TEST_CASE("philox4x32: every lane of every word width gives the result of its own counter") {
  for (auto const& version : philox_versions())
    for (auto const& known : known_answers) {
      CAPTURE(version.lanes);
      CAPTURE(version.at_once);
      auto const lanes = static_cast<std::size_t>(version.lanes);
      std::size_t const all = lanes * static_cast<std::size_t>(version.at_once);
      auto const place = [&](std::size_t lane, std::size_t i) {  // for counter word i
        return (lane / lanes * 4 + i) * lanes + lane % lanes;
      };
      // The known counter goes to one lane after the other. The other lanes get random counters,
      // and all upper halves of multiplied words get garbage.
      for (std::size_t at = 0; at < all; ++at) {
        auto c = data::words(4 * all, {.seed = 1 + at});
        for (std::size_t i = 0; i < 4; ++i)
          c[place(at, i)] = (c[place(at, i)] & 0xffffffff00000000u) | known.counter[i];
        auto const counters = c;
        version.run(c.data(), known.key);
        for (std::size_t lane = 0; lane < all; ++lane) {
          std::array<std::uint32_t, 4> counter, result;
          for (std::size_t i = 0; i < 4; ++i) {
            counter[i] = static_cast<std::uint32_t>(counters[place(lane, i)]);
            result[i] = static_cast<std::uint32_t>(c[place(lane, i)]);
          }
          REQUIRE(result == hcomp::philox4x32(counter, known.key));
          if (lane == at) REQUIRE(result == known.result);
        }
      }
    }
}

TEST_CASE("mix: is invertible, so no two inputs share an output") {
  // Each of its steps is inverted; odd factors have inverses modulo 2^64, by Newton's iteration.
  auto const inverse = [](std::uint64_t factor) {
    std::uint64_t x = factor;
    for (int i = 0; i < 6; ++i) x *= 2 - factor * x;
    return x;
  };
  auto const unshift = [](std::uint64_t z, int by) {
    std::uint64_t x = z;
    for (int i = 0; i < 64 / by; ++i) x = z ^ (x >> by);
    return x;
  };
  auto const unmix = [&](std::uint64_t z) {
    z = unshift(z, 31) * inverse(0x94d049bb133111ebu);
    z = unshift(z, 27) * inverse(0xbf58476d1ce4e5b9u);
    return unshift(z, 30);
  };
  for (std::uint64_t const z : data::words(10000, {.seed = 2})) REQUIRE(unmix(hcomp::mix(z)) == z);
  for (std::uint64_t z = 0; z < 10000; ++z) REQUIRE(unmix(hcomp::mix(z)) == z);
  CHECK(hcomp::mix(0x9e3779b97f4a7c15u) == 0xe220a8397b1dcdafu);  // SplitMix64 of seed 0
}

TEST_CASE("mix: one changed bit changes about half of the output bits") {
  double flips = 0;
  auto const inputs = data::words(200, {.seed = 3});
  for (std::uint64_t const z : inputs)
    for (int bit = 0; bit < 64; ++bit)
      flips += std::popcount(hcomp::mix(z) ^ hcomp::mix(z ^ std::uint64_t{1} << bit));
  double const count = 200 * 64;
  // 64 fair bits: mean 32, standard deviation 4; six standard errors.
  CHECK(std::fabs(flips / count - 32) < 6 * 4 / std::sqrt(count));
}

TEST_CASE("philox_key: every bit of every part of the key counts") {
  std::set<std::uint64_t> made{hcomp::philox_key({})};
  std::size_t keys = 1;
  for (int bit = 0; bit < 64; ++bit) {
    std::uint64_t const word = std::uint64_t{1} << bit;
    for (hcomp::draw_key const& key :
         {hcomp::draw_key{.seed = word}, {.step = word}, {.tensor = word}}) {
      made.insert(hcomp::philox_key(key));
      ++keys;
    }
  }
  CHECK(made.size() == keys);
}

TEST_CASE("philox_key: keeps its value from wire format 1") {
  CHECK(hcomp::philox_key({}) == 0xe169c58d6627e8d5u);  // the first known answer of Philox
  CHECK(hcomp::philox_key({.seed = 0x299f31d0a4093822,
                           .step = 0x85a308d3243f6a88,
                           .tensor = 0x0370734413198a2e}) == 0x94fdccebd16cfe09u);
}
