#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sign/count.hpp>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <support/worker_group.hpp>
#include <vector>

using hcomp::sign_count;
using laws::encoded_block;

TEST_CASE("sign_count: counts like a loop over the ranks, for every number of ranks up to 40") {
  constexpr std::size_t n = 130;
  std::vector<int> count(n);
  std::vector<std::vector<float>> x;
  for (std::uint32_t ranks = 1; ranks <= 40; ++ranks) {
    CAPTURE(ranks);
    x.push_back(data::uniform(n, -1, 1, {.seed = ranks}));
    for (std::size_t i = 0; i < n; ++i) count[i] += x.back()[i] >= 0 ? 1 : -1;
    auto const codec = sign_count<float>{0.5f}.fitted(ranks);
    encoded_block sum;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto const mine = laws::encode(codec, x[r], {.rank = r});
      sum = r == 0 ? mine : laws::merged(codec, sum, mine);
    }
    auto const total = laws::decoded<float>(codec, sum, n);
    auto const mean = laws::decoded<float>(codec, sum, n, hcomp::reduce_op::mean);
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(total[i] == 0.5f * static_cast<float>(count[i]));
      REQUIRE(mean[i] == 0.5f * static_cast<float>(count[i]) / static_cast<float>(ranks));
    }
  }
}

TEST_CASE("sign_count: workers in warps decode every count as one worker does") {
  for (int const planes : {1, 2, 4, 5, 6, 9})
    for (std::size_t const n : {70, 1300}) {  // more than a warp's 32 times 32, and less
      CAPTURE(planes);
      CAPTURE(n);
      auto const codec = sign_count<float>{0.3f}.fitted((1u << planes) - 1);
      encoded_block sum;
      for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(planes); ++r) {
        auto const x = data::uniform(n, -1, 1, {.seed = r + 1});
        auto const mine = laws::encode(codec, x, {.rank = r, .weight = 1u << r});
        sum = r == 0 ? mine : laws::merged(codec, sum, mine);
      }
      for (auto const result : {hcomp::reduce_op::sum, hcomp::reduce_op::mean}) {
        std::vector<float> found(n);
        workers::run_in_warps<64>(0, [&](auto group) {
          codec.decode_block(group, sum.data(), static_cast<int>(n), found.data(), result);
        });
        CHECK(found == laws::decoded<float>(codec, sum, n, result));
      }
    }
}

TEST_CASE("sign_count: the sign of the sum is the majority by weight, a tie is 0") {
  auto const codec = sign_count<float>{}.fitted(6);
  auto const sum =
      laws::merged(codec,
                   laws::merged(codec, laws::encode(codec, {1, 1, -1, 0}, {.rank = 0, .weight = 3}),
                                laws::encode(codec, {-1, 1, -1, -1}, {.rank = 1, .weight = 2})),
                   laws::encode(codec, {-1, -1, -1, -1}, {.rank = 2, .weight = 1}));
  CHECK(laws::decoded<float>(codec, sum, 4) == std::vector<float>{0, 4, -6, 0});
}

TEST_CASE("sign_count: takes the bits per value that the largest count needs") {
  struct {
    std::uint32_t summands;
    int planes;
  } const cases[] = {{1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 3}, {8, 4}, {255, 8}, {256, 9}, {~0u, 32}};
  for (auto const& one : cases) {
    CAPTURE(one.summands);
    auto const codec = sign_count<float>{}.fitted(one.summands);
    CHECK(codec.planes() == one.planes);
    CHECK(codec.max_summands() == one.summands);
    CHECK(codec.block_bytes() == 32u + 8192u / 8 * static_cast<unsigned>(one.planes));
    CHECK(codec.block_bytes(65) == 32u + 16u * static_cast<unsigned>(one.planes));
    CHECK(codec.block_bytes(0) == 32);
  }
}

TEST_CASE("sign_count: counts to 2^32 - 1 by weight without a carry lost") {
  constexpr std::uint32_t most = ~std::uint32_t{0};
  auto const codec = sign_count<double>{}.fitted(most);
  for (std::uint32_t const weight : {1u, 0x7fffffffu, 0x55555555u, most - 1}) {
    CAPTURE(weight);
    auto const sum =
        laws::merged(codec, laws::encode(codec, {1, 1, -1, -1}, {.rank = 0, .weight = weight}),
                     laws::encode(codec, {1, -1, 1, -1}, {.rank = 1, .weight = most - weight}));
    double const a = weight, b = most - weight;
    CHECK(laws::decoded<double>(codec, sum, 4) == std::vector{a + b, a - b, b - a, -a - b});
  }
}

TEST_CASE("sign_count: a partial sum of weight w is sent in bit_width(w) bits per value") {
  struct {
    std::uint32_t weight;
    int bits;
  } const cases[] = {{1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 3}, {8, 4}, {9, 4}};
  auto const codec = sign_count<float>{}.fitted(9);
  for (auto const& one : cases) {
    CAPTURE(one.weight);
    auto const block = laws::encode(codec, std::vector<float>(130, 1), {.weight = one.weight});
    CHECK(codec.narrow_bits(one.weight) == one.bits);
    CHECK(codec.narrow_bytes(laws::header_of(block)) ==
          32u + 24u * static_cast<unsigned>(one.bits));
  }
  CHECK(codec.narrow_bits(10) == 4);  // of no valid block
}

TEST_CASE("sign_count: fitted keeps the magnitude") {
  CHECK(sign_count<float>{0.25f}.fitted(9).magnitude == 0.25f);
}
