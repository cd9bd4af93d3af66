// optimise sanitized: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <hcomp/codec/sign/sampled.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <stdexcept>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

using laws::encoded_block;

namespace {

using lanes_type = std::vector<std::uint64_t>;
using weights_type = std::vector<std::uint32_t>;

weights_type rising(std::uint32_t ranks) {
  weights_type weights;
  for (std::uint32_t r = 0; r < ranks; ++r) weights.push_back(r * r + 1);
  return weights;
}

std::vector<float> values_of(std::uint32_t rank, std::size_t n) {
  return data::uniform(n, -1, 1, {.seed = 900 + rank});
}

lanes_type lanes_of(std::uint32_t rank, weights_type const& weights, std::vector<float> const& x,
                    std::uint64_t key) {
  hcomp::sampled_sign<float> const codec{rank, weights};
  lanes_type lanes(codec.lanes(x.size()));
  codec.encode_lanes(x, lanes, key);
  return lanes;
}

/// OR over all ranks, each rank's values being values_of(rank).
lanes_type reduced(weights_type const& weights, std::size_t n, std::uint64_t key) {
  lanes_type result((n + 63) / 64);
  for (std::uint32_t rank = 0; rank < weights.size(); ++rank) {
    auto const mine = lanes_of(rank, weights, values_of(rank, n), key);
    for (std::size_t w = 0; w < mine.size(); ++w) result[w] |= mine[w];
  }
  return result;
}

/// Codec `sign` merged along the balanced tree of ranks [low, high), block `index`.
encoded_block along_tree(weights_type const& weights, std::size_t n, std::uint64_t key,
                         std::uint32_t index, std::uint32_t low, std::uint32_t high) {
  hcomp::sign<float> const codec;
  if (high - low == 1) {
    auto const x = values_of(low, n);
    auto const first = x.begin() + std::ptrdiff_t{index} * codec.block_values;
    auto const last = x.end() - first < codec.block_values ? x.end() : first + codec.block_values;
    return laws::encode(codec, std::vector<float>(first, last),
                        {.key = key, .rank = low, .weight = weights[low], .index = index});
  }
  std::uint32_t const middle = low + (high - low) / 2;
  return laws::merged(codec, along_tree(weights, n, key, index, low, middle),
                      along_tree(weights, n, key, index, middle, high), hcomp::simd_group{});
}

}  // namespace

// Marsit test 11.
TEST_CASE("sampled_sign: OR over the ranks gives the bits of sign along the balanced tree") {
  constexpr std::size_t block = hcomp::sign<float>::block_values;
  for (weights_type const& weights :
       {weights_type(2, 1), weights_type(3, 1), weights_type(5, 1), weights_type(8, 1),
        weights_type{4, 1, 7}, weights_type{1, 2, 3, 4, 5, 6, 7}})
    for (std::size_t const n : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                block - 1, block, block + 1, 4 * block + 77}) {
      CAPTURE(weights.size());
      CAPTURE(n);
      auto const ranks = static_cast<std::uint32_t>(weights.size());
      auto const result = reduced(weights, n, 42);
      for (std::size_t first = 0; first < n; first += block) {
        auto const sum =
            along_tree(weights, n, 42, static_cast<std::uint32_t>(first / block), 0, ranks);
        for (std::size_t w = 0; w * 64 < std::min(block, n - first); ++w)
          REQUIRE(result[first / 64 + w] ==
                  hcomp::load<std::uint64_t>(sum.data() + hcomp::block_header_bytes, w));
      }
    }
}

TEST_CASE("sampled_sign: every bit has one owner, with probability weight / total weight") {
  constexpr std::size_t n = 100000;
  std::vector<float> const positive(n, 1.0f);
  for (weights_type const& weights :
       {weights_type(1, 9), weights_type(3, 1), weights_type{4, 1, 7}, weights_type(100, 1),
        weights_type{1, 1000000}, weights_type(11, 5), rising(40), weights_type(1024, 1)}) {
    CAPTURE(weights.size());
    double whole = 0;
    for (std::uint32_t const weight : weights) whole += weight;
    lanes_type owned((n + 63) / 64);
    std::size_t total = 0;
    for (std::uint32_t rank = 0; rank < weights.size(); ++rank) {
      CAPTURE(rank);
      auto const mine = lanes_of(rank, weights, positive, 7);
      double count = 0;
      for (std::size_t w = 0; w < mine.size(); ++w) {
        REQUIRE((owned[w] & mine[w]) == 0);
        owned[w] |= mine[w];
        count += std::popcount(mine[w]);
      }
      total += static_cast<std::size_t>(count);
      double const p = weights[rank] / whole;
      CHECK(std::fabs(count - n * p) <= 5 * std::sqrt(n * p * (1 - p)) + 1e-9);
    }
    CHECK(total == n);
  }
}

TEST_CASE("sampled_sign: the cells of the alias table give every rank its weight / total weight") {
  for (weights_type const& weights :
       {weights_type{1, 2}, weights_type{1, 1000000}, rising(11), rising(40), rising(1000),
        weights_type{4000000000u, 1, 1, 1}, weights_type{1, 1, 1, 4000000000u}}) {
    auto const cells = hcomp::detail::sampling::cells_of(weights);
    REQUIRE(cells.size() == weights.size());
    std::vector<double> probability(weights.size());
    auto const ranks = static_cast<double>(weights.size());
    for (std::size_t c = 0; c < cells.size(); ++c) {
      double const kept = (cells[c].other == c ? 1 : cells[c].kept * 0x1p-32) / ranks;
      probability[c] += kept;
      probability[cells[c].other] += 1 / ranks - kept;
    }
    double whole = 0;
    for (std::uint32_t const weight : weights) whole += weight;
    for (std::size_t r = 0; r < weights.size(); ++r)
      CHECK(std::fabs(probability[r] - weights[r] / whole) <= ranks * 0x1p-32);
  }
  CHECK(hcomp::detail::sampling::cells_of(weights_type(100, 7)).empty());
}

TEST_CASE("sampled_sign: decoding gives plus or minus the magnitude, for every n") {
  for (std::size_t const n : {0, 1, 63, 64, 65, 32767, 32768, 32769, 40000}) {
    CAPTURE(n);
    auto const x = values_of(0, n);
    hcomp::sampled_sign<float> const codec{0, {1}, 0.5f};
    lanes_type lanes(codec.lanes(n));
    codec.encode_lanes(x, lanes, 1);
    std::vector<float> result(n);
    codec.decode_lanes(lanes, result);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(result[i] == (x[i] >= 0 ? 0.5f : -0.5f));
    if (n % 64 != 0) REQUIRE((lanes.back() >> n % 64) == 0);
  }
}

TEST_CASE_TEMPLATE("sampled_sign: keeps the same bits for every value type", T, double,
                   hcomp::float16, hcomp::bfloat16) {
  constexpr std::size_t n = 1000;
  auto const x = data::signs<float>(n, {.seed = 3});
  std::vector<T> const y(x.begin(), x.end());
  weights_type const weights{2, 1, 1};
  hcomp::sampled_sign<T> const codec{1, weights};
  lanes_type lanes(codec.lanes(n));
  codec.encode_lanes(y, lanes, 5);
  CHECK(lanes == lanes_of(1, weights, x, 5));
}

TEST_CASE("sampled_sign: refuses wrong sizes, ranks and numbers of ranks, and names them") {
  std::vector<float> x(65);
  lanes_type one(1), two(2);
  auto const encode = [&](std::uint32_t rank, weights_type weights, lanes_type& lanes) {
    hcomp::sampled_sign<float>{rank, std::move(weights)}.encode_lanes(x, lanes, 1);
  };
  CHECK_THROWS_WITH_AS(encode(0, {1}, one), "sampled_sign: 1 lanes for 65 values, 2 are needed",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((hcomp::sampled_sign<float>{0, {1}}.decode_lanes(one, x)),
                       "sampled_sign: 1 lanes for 65 values, 2 are needed", std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode(2, {1, 1}, two), "sampled_sign: rank 2 of 2 ranks",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode(0, {}, two), "sampled_sign: 0 ranks, it can choose among 1 to 1024",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode(0, weights_type(1025, 1), two),
                       "sampled_sign: 1025 ranks, it can choose among 1 to 1024",
                       std::invalid_argument);
  CHECK_NOTHROW(encode(1023, weights_type(1024, 1), two));
}
