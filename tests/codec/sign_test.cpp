/// @file
/// Guarantees of Marsit for merged signs, as statistics over real draws.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/op/encode.hpp>
#include <set>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

using laws::encoded_block;

namespace {

using codec_type = hcomp::sign<float>;
constexpr codec_type codec;
constexpr int block_words = codec_type::block_values / 64;

/// One full block of a rank whose value at lane j of every word has the sign of bit j.
encoded_block block_of_word(std::uint64_t bits, std::uint32_t rank, std::uint32_t weight = 1) {
  std::vector<float> x(codec_type::block_values);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bits >> (i % 64) & 1 ? 0.5f : -2.0f;
  return laws::encode(codec, x, {.key = 1, .rank = rank, .weight = weight}, hcomp::simd_group{});
}
encoded_block at_index(encoded_block block, std::uint32_t index) {
  auto header = laws::header_of(block);
  header.index = index;
  hcomp::store(block.data(), 0, header);
  return block;
}
std::uint64_t word_of(encoded_block const& block, int w) {
  return hcomp::load<std::uint64_t>(block.data() + hcomp::block_header_bytes,
                                    static_cast<std::size_t>(w));
}
encoded_block merged(encoded_block acc, encoded_block const& in) {
  codec.merge_block(hcomp::simd_group{}, acc.data(), in.data());
  return acc;
}

/// Merges in the ring's order, and along the balanced tree.
encoded_block around_ring(std::vector<encoded_block> const& blocks, std::size_t first = 0) {
  encoded_block sum = blocks[first];
  for (std::size_t hop = 1; hop < blocks.size(); ++hop)
    sum = merged(blocks[(first + hop) % blocks.size()], sum);
  return sum;
}
encoded_block along_tree(std::vector<encoded_block> const& blocks, std::size_t low,
                         std::size_t high) {
  if (high - low == 1) return blocks[low];
  std::size_t const middle = low + (high - low) / 2;
  return merged(along_tree(blocks, low, middle), along_tree(blocks, middle, high));
}

/// `words` words of the merged block of all ranks. Each rank has the same word everywhere.
template <class F>
void for_each_word_of_sum(std::vector<std::uint64_t> const& bits,
                          std::vector<std::uint32_t> const& weights, int words, bool ring,
                          F const& f) {
  std::vector<encoded_block> blocks;
  std::uint32_t whole = 0;
  for (std::size_t m = 0; m < bits.size(); ++m) {
    blocks.push_back(block_of_word(bits[m], static_cast<std::uint32_t>(m), weights[m]));
    whole += weights[m];
  }
  for (int block = 0; block * block_words < words; ++block) {
    for (auto& b : blocks) b = at_index(b, static_cast<std::uint32_t>(block));
    auto const sum = ring ? around_ring(blocks) : along_tree(blocks, 0, blocks.size());
    REQUIRE(laws::header_of(sum).weight == whole);  // Marsit test 19
    for (int w = 0; w < block_words && block * block_words + w < words; ++w) f(word_of(sum, w));
  }
}

/// Bits of `ranks` ranks: every combination in some lane, within 64 lanes.
std::vector<std::uint64_t> bits_of_workers(std::size_t ranks) {
  std::vector<std::uint64_t> bits(ranks);
  auto const other = data::words(ranks, {.seed = 17});
  for (std::size_t m = 0; m < ranks; ++m)
    for (std::uint64_t lane = 0; lane < 64; ++lane)
      bits[m] |= (m < 6 ? lane >> m & 1 : other[m] >> lane & 1) << lane;
  return bits;
}
/// Share of the weight that has a 1 in a lane.
double share_of_ones(std::vector<std::uint64_t> const& bits,
                     std::vector<std::uint32_t> const& weights, int lane) {
  double ones = 0, whole = 0;
  for (std::size_t m = 0; m < bits.size(); ++m) {
    whole += weights[m];
    if (bits[m] >> lane & 1) ones += weights[m];
  }
  return ones / whole;
}

std::vector<std::uint32_t> ones(std::size_t ranks) { return std::vector<std::uint32_t>(ranks, 1); }

}  // namespace

// Marsit tests 2, 3, 6 and 19.
TEST_CASE(
    "sign: merged bits have mean k/M and variance 1 - s^2, and no randomness where all ranks "
    "agree") {
  constexpr int words = 20000;
  struct {
    std::vector<std::uint32_t> weights;
    bool ring;
  } const cases[] = {{ones(3), true},   {ones(5), true},         {ones(8), true},
                     {ones(3), false},  {ones(5), false},        {ones(8), false},
                     {{1, 2, 5}, true}, {{7, 1, 1, 3, 9}, false}};
  for (auto const& one : cases) {
    auto const& weights = one.weights;
    bool const ring = one.ring;
    CAPTURE(weights.size());
    CAPTURE(ring);
    auto const bits = bits_of_workers(weights.size());
    std::vector<double> count(64);
    for_each_word_of_sum(bits, weights, words, ring, [&](std::uint64_t word) {
      for (std::size_t lane = 0; lane < 64; ++lane) count[lane] += word >> lane & 1;
    });
    double squared_error = 0, expected_error = 0, its_variance = 0;
    for (int lane = 0; lane < 64; ++lane) {
      CAPTURE(lane);
      double const p = share_of_ones(bits, weights, lane);
      double const found = count[static_cast<std::size_t>(lane)] / words;
      if (p == 0 || p == 1)
        REQUIRE(found == p);
      else
        REQUIRE(std::fabs(found - p) <= 0.015);  // 4.2 standard errors at p = 1/2
      double const s = 2 * p - 1;
      squared_error += words * (found * (1 - s) * (1 - s) + (1 - found) * (1 + s) * (1 + s));
      expected_error += words * (1 - s * s);
      its_variance += words * 4 * s * s * (1 - s * s);
    }
    CHECK(std::fabs(squared_error - expected_error) <= 5 * std::sqrt(its_variance));
  }
}

// Marsit test 7.
TEST_CASE("sign: bits of neighbouring lanes and words are drawn independently") {
  constexpr int words = 100000;
  // No lane has three equal bits: every lane has one or two of three.
  std::vector<std::uint64_t> const bits{~0ull, 0, 0x5555555555555555u};
  std::vector<double> one(64), with_next(64), with_next_word(64);
  std::uint64_t before = 0;
  for_each_word_of_sum(bits, ones(3), words, true, [&](std::uint64_t word) {
    std::uint64_t const next = std::rotr(word, 1);  // lane j + 1
    for (std::size_t lane = 0; lane < 64; ++lane) {
      one[lane] += word >> lane & 1;
      with_next[lane] += (word & next) >> lane & 1;
      with_next_word[lane] += (word & before) >> lane & 1;
    }
    before = word;
  });
  double const limit = 5 / std::sqrt(words);
  for (std::size_t lane = 0; lane < 64; ++lane) {
    CAPTURE(lane);
    double const p = one[lane] / words, q = one[(lane + 1) % 64] / words;
    double const scale = std::sqrt(p * (1 - p) * q * (1 - q));
    CHECK(std::fabs(with_next[lane] / words - p * q) / scale < limit);
    CHECK(std::fabs(with_next_word[lane] / words - p * p) / (p * (1 - p)) < limit);
  }
}

// Marsit test 12: the control for "the same words on every rank".
TEST_CASE("sign: ranks that each merge in a different order would get different results") {
  for (std::size_t const ranks : {3u, 5u, 8u}) {
    CAPTURE(ranks);
    std::vector<encoded_block> blocks;
    auto const bits = bits_of_workers(ranks);
    for (std::size_t m = 0; m < ranks; ++m)
      blocks.push_back(block_of_word(bits[m], static_cast<std::uint32_t>(m)));
    std::set<std::uint64_t> results;  // fingerprints: g++ 12 -O3 misreads comparisons of bytes
    for (std::size_t first = 0; first < ranks; ++first) {
      encoded_block const sum = around_ring(blocks, first);
      results.insert(hcomp::fingerprint(hcomp::serial_group{}, sum.data(), sum.size()));
    }
    CHECK(results.size() == ranks);
  }
}

// Marsit test 17.
TEST_CASE("sign: a coordinate without gradient swings by one step and does not drift") {
  constexpr float step = 0.25f;
  hcomp::sign<float> const scaled{step};
  float x = 0, compensation[3] = {0, 0, 0};
  for (std::uint64_t round = 0; round < 100; ++round) {
    encoded_block sum;
    for (std::uint32_t m = 0; m < 3; ++m) {
      auto const mine = laws::encode(scaled, {compensation[m]}, {.key = round, .rank = m});
      sum = m == 0 ? mine : laws::merged(scaled, mine, sum);
    }
    float const update = laws::decoded<float>(scaled, sum, 1, hcomp::reduce_op::mean)[0];
    for (float& c : compensation) c -= update;
    x -= update;
    REQUIRE(x == (round % 2 == 0 ? -step : 0.0f));
  }
}

// Marsit test 18.
TEST_CASE("sign: unused lanes of the last word are 0 in every block and every sum") {
  for (std::size_t const ranks : {3u, 5u, 8u})
    for (std::size_t const d : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                64 * ranks - 1, 64 * ranks + 1}) {
      CAPTURE(ranks);
      CAPTURE(d);
      encoded_block sum;
      for (std::uint32_t m = 0; m < ranks; ++m) {
        auto const mine = laws::encode(codec, data::uniform(d, -1, 1, {.seed = m}), {.rank = m});
        sum = m == 0 ? mine : laws::merged(codec, mine, sum);
        for (encoded_block const& block : {mine, sum}) {
          REQUIRE(block.size() == codec.block_bytes(static_cast<int>(d)));
          std::uint64_t const last = word_of(block, static_cast<int>((d - 1) / 64));
          if (d % 64 != 0) REQUIRE((last >> d % 64) == 0);
        }
      }
    }
}

TEST_CASE("sign: decoding gives the magnitude, times the weight for a sum") {
  for (float const magnitude : {1.0f, 0.125f, 3e-3f}) {
    hcomp::sign<float> const scaled{magnitude};
    auto const block = laws::encode(scaled, {1.0f, -1.0f, 0.0f, -0.0f}, {.weight = 3});
    CHECK(laws::decoded<float>(scaled, block, 4, hcomp::reduce_op::mean) ==
          std::vector{magnitude, -magnitude, magnitude, magnitude});
    CHECK(laws::decoded<float>(scaled, block, 4) ==
          std::vector{3 * magnitude, -3 * magnitude, 3 * magnitude, 3 * magnitude});
  }
}

TEST_CASE("sign: takes 1 bit per value, and 2 % of header at most") {
  CHECK(codec.block_bytes() == 32768 / 8 + 32);
  CHECK(codec.block_bytes(1) == 8 + 32);
  CHECK(codec.block_bytes(0) == 32);
  CHECK(hcomp::encoded_bytes(codec, 32768) == 4128);
  CHECK(hcomp::encoded_bytes(codec, 32769) == 2 * 4128);
}

TEST_CASE("sign: a part of a block decodes to the same values as in the whole block") {
  constexpr int n = 300;
  auto const block = laws::encode(codec, data::uniform(n, -1, 1, {.seed = 30}), {.weight = 3});
  for (auto const result : {hcomp::reduce_op::sum, hcomp::reduce_op::mean}) {
    auto const whole = laws::decoded<float>(codec, block, n, result);
    for (int first = 0; first < n; first += 64)
      for (int const count : {0, 1, 63, 64, 65, n - first}) {
        if (first + count > n) continue;
        CAPTURE(first);
        CAPTURE(count);
        std::vector<float> part(static_cast<std::size_t>(count)), serial = part;
        codec.decode_part(hcomp::simd_group{}, block.data(), first, count, part.data(), result);
        codec.decode_part(hcomp::serial_group{}, block.data(), first, count, serial.data(), result);
        REQUIRE(part == std::vector(whole.begin() + first, whole.begin() + first + count));
        REQUIRE(serial == part);
      }
  }
}
