
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/thc_lanes.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;

namespace {

/// The mean of all ranks' vectors, with lanes added one after the other in the given order.
template <class Lane, class C>
std::vector<float> mean_of(C const& codec, std::vector<std::vector<float>> const& x,
                           std::vector<std::uint32_t> const& weights,
                           std::vector<std::size_t> const& order, std::uint64_t key) {
  std::uint32_t total = 0;
  for (auto const weight : weights) total += weight;
  std::vector<thc_lanes<Lane, C>> ranks;
  for (std::size_t r = 0; r < x.size(); ++r)
    ranks.emplace_back(codec, static_cast<std::uint32_t>(r), total, weights[r]);
  auto words = ranks[0].measure(x[0]);
  for (std::size_t r = 1; r < x.size(); ++r) {
    auto const other = ranks[r].measure(x[r]);
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = std::max(words[w], other[w]);
  }
  std::vector<Lane> sum(ranks[0].lanes(x[0].size())), mine(sum.size());
  for (std::size_t const r : order) {
    ranks[r].calibrate(words);
    ranks[r].encode_lanes(x[r], mine, key);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<Lane>(sum[i] + mine[i]);
  }
  std::vector<float> result(x[0].size());
  ranks[order[0]].decode_lanes(sum, result, key);
  return result;
}

/// The same with encoded vectors and headers.
template <class C>
std::vector<float> merged_mean(C const& codec, std::vector<std::vector<float>> const& x,
                               std::vector<std::uint32_t> const& weights, draw_key const& key) {
  auto words = measure(codec, std::span<float const>(x[0]));
  for (auto const& one : x) {
    auto const other = measure(codec, std::span<float const>(one));
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = std::max(words[w], other[w]);
  }
  std::vector<std::byte> sum;
  for (std::size_t r = 0; r < x.size(); ++r) {
    auto const encoded = encode(
        codec, std::span<float const>(x[r]),
        {.key = key, .rank = static_cast<int>(r), .weight = weights[r], .statistics = words});
    if (r == 0)
      sum = encoded;
    else
      for (std::size_t b = 0; b < block_count(codec, x[0].size()); ++b)
        merge_blocks<C>{codec, sum.data(), encoded.data()}(simd_group{}, b);
  }
  std::vector<float> result(x[0].size());
  decode(codec, std::span<std::byte const>(sum), std::span<float>(result),
         {.key = key, .op = reduce_op::mean});
  return result;
}

std::vector<std::vector<float>> inputs(std::size_t values, std::size_t ranks) {
  std::vector<std::vector<float>> x;
  for (std::size_t r = 0; r < ranks; ++r)
    x.push_back(data::uniform<float>(values, -1, 1, {.seed = 30 + r}));
  return x;
}

}  // namespace

TEST_CASE("thc_lanes: integer sums in any order give the bits of merged blocks") {
  draw_key const key{.seed = 9, .step = 3};
  for (std::size_t const values : {0u, 1u, 64u, 4097u, 16384u, 40001u}) {
    CAPTURE(values);
    auto const x = inputs(values, 4);
    std::vector<std::uint32_t> const weights{1, 2, 1, 3};
    auto const narrow = fit(thc<float>{}, 7);
    auto const expected = merged_mean(narrow, x, weights, key);
    CHECK(mean_of<std::uint8_t>(narrow, x, weights, {0, 1, 2, 3}, philox_key(key)) == expected);
    CHECK(mean_of<std::uint8_t>(narrow, x, weights, {2, 0, 3, 1}, philox_key(key)) == expected);
    auto const wide = fit(uniform_thc<float>{}, 100);
    std::vector<std::uint32_t> const heavy{50, 20, 20, 10};
    CHECK(mean_of<std::uint16_t>(wide, x, heavy, {3, 1, 2, 0}, philox_key(key)) ==
          merged_mean(wide, x, heavy, key));
  }
}

TEST_CASE("thc_lanes: a value is sent as one lane, norms and padding take at most 1 % more") {
  auto const bytes_per_value = [](auto const& sum, std::size_t values) {
    auto const lanes = sum.lanes(values) * sizeof(typename std::decay_t<decltype(sum)>::lane_type);
    auto const words = sum.measure(std::vector<float>(values)).size() * sizeof(std::uint32_t);
    return static_cast<double>(lanes + words) / static_cast<double>(values);
  };
  for (std::size_t const values : {std::size_t{1} << 16, std::size_t{1'000'000}}) {
    CAPTURE(values);
    auto const eight = bytes_per_value(thc_lanes<>(fit(thc<>{}, 15), 0, 15), values);
    CHECK(eight >= 1);
    CHECK(eight <= 1.01);
    auto const sixteen =
        bytes_per_value(thc_lanes<std::uint16_t>(fit(thc<>{}, 100), 0, 100), values);
    CHECK(sixteen >= 2);
    CHECK(sixteen <= 2.02);
  }
}

TEST_CASE("thc_lanes: a wrong argument is refused with its values") {
  thc<float> const codec;
  CHECK_THROWS_WITH_AS((thc_lanes<std::uint16_t>(codec, 0, 4)),
                       "thc_lanes: lanes of 2 bytes, codec 'thc' needs 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS((thc_lanes<>(codec, 0, 16)),
                       "thc_lanes: weight 1 of 16, codec 'thc' holds 1 to 15; fit it with the "
                       "total weight",
                       std::invalid_argument);
  CHECK_THROWS_AS((thc_lanes<>(codec, 0, 4, 0)), std::invalid_argument);
  thc_lanes<> sum(codec, 0, 4);
  std::vector<float> x(100, 1.0f);
  std::vector<std::uint8_t> lanes(sum.lanes(100));
  CHECK(lanes.size() == 128);
  CHECK_THROWS_WITH_AS(sum.encode_lanes(x, lanes, 1),
                       "thc_lanes: calibrated with 0 norms, 100 values have 1",
                       std::invalid_argument);
  sum.calibrate(sum.measure(x));
  lanes.resize(100);
  CHECK_THROWS_WITH_AS(sum.encode_lanes(x, lanes, 1),
                       "thc_lanes: 100 lanes for 100 values, 128 are needed",
                       std::invalid_argument);
}

TEST_CASE(
    "thc_lanes: NaN or infinity on one rank is reported on all ranks by the agreed statistics") {
  std::vector<float> x(5000, 1.0f);
  thc_lanes<> sum(thc<float>{}, 0, 4);
  for (float const special :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    x[4999] = special;
    auto const words = sum.measure(x);
    CHECK(words.back() == 1);
    CHECK_THROWS_WITH_AS(sum.calibrate(words),
                         "thc_lanes: NaN or infinity on some rank; x is unchanged",
                         nonfinite_error);
  }
}

TEST_CASE("thc_lanes: a mean that overflows is an error, a large finite mean is not") {
  // One transform of +-v: by chance of its signs one coordinate holds all of them, and the table
  // cuts it, or all coordinates are like normal numbers, and the table can cut the largest. 0.9 of
  // the largest float in 5000 values, rotated and back with the errors of 4 bits, overflows
  // somewhere.
  std::size_t const values = 5000;
  thc_lanes<> sum(thc<float>{}, 0, 1);
  auto const ends_with = [&](float size) {
    std::vector<float> x(values);
    for (std::size_t i = 0; i < values; ++i) x[i] = i % 2 == 0 ? size : -size;
    auto const before = x;
    std::vector<std::uint8_t> lanes(sum.lanes(values));
    sum.calibrate(sum.measure(x));
    sum.encode_lanes(x, lanes, 3);
    try {
      sum.decode_lanes(lanes, x, 3);
    } catch (nonfinite_error const& error) {
      CHECK(x == before);
      return std::string(error.what());
    }
    for (float const value : x) REQUIRE(std::isfinite(value));
    return std::string();
  };
  float const largest = std::numeric_limits<float>::max();
  CHECK(ends_with(largest * 0.9f) ==
        "thc_lanes: a mean of finite values overflows, first in values 0 to 4999; x is unchanged");
  CHECK(ends_with(largest / 8).empty());
  CHECK(ends_with(1e30f).empty());
}
