// optimise sanitized: -O1
/// @file
/// All-reduces without an index: exact if the table is large enough, and an error otherwise.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/detail/iblt_cells.hpp>
#include <hcomp/codec/sparse/iblt.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <vector>

using hcomp::iblt;
using hcomp::iblt_options;
namespace detail = hcomp::detail;

namespace {

std::size_t union_of(sparse::vectors const& x) {
  std::size_t marked = 0;
  for (std::size_t i = 0; i < x[0].size(); ++i)
    marked += std::any_of(x.begin(), x.end(), [&](auto const& mine) { return mine[i] != 0; });
  return marked;
}
iblt over(sparse::vectors const& x, iblt_options const& options = {}) {
  return iblt({.ranks = static_cast<std::uint32_t>(x.size())}, options);
}

/// The sum of all ranks' lanes. `codec` gets the state of the last rank.
std::vector<std::uint32_t> reduced(iblt& codec, sparse::vectors const& x, std::uint64_t key) {
  std::vector<std::uint32_t> most(2), lanes, total;
  for (auto const& mine : x) {
    auto const words = codec.measure(mine);
    for (std::size_t i = 0; i < words.size(); ++i) most[i] = std::max(most[i], words[i]);
  }
  for (auto const& mine : x) {
    codec.measure(mine);
    codec.calibrate(most);
    lanes.resize(codec.lanes(mine.size()));
    total.resize(lanes.size());
    codec.encode_lanes(mine, lanes, key);
    for (std::size_t i = 0; i < lanes.size(); ++i) total[i] += lanes[i];
  }
  return total;
}
/// Decodes with the first of ten keys whose table is readable. At three cells per value almost
/// every table is.
std::vector<float> sum(iblt& codec, sparse::vectors const& x) {
  auto result = x.back();
  for (std::uint64_t key = 1; key <= 10; ++key) {
    auto const lanes = reduced(codec, x, key);
    if (codec.try_decode_lanes(lanes, result, key) == 0) return result;
    REQUIRE(result == x.back());
  }
  FAIL("ten tables cannot be read");
  return result;
}

}  // namespace

TEST_CASE("iblt: one worker's values are read from 1.25 cells each, and half of them from 1.20") {
  std::size_t const n = 1 << 20;  // C7: 20.8 thousand values, 49 % missing at 1.20
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    auto const x = sparse::ranks_of(1, n, 0.0198, seed);
    auto const values = union_of(x);
    for (double const cells : {1.25, 1.3, 1.5}) {
      CAPTURE(cells);
      auto codec = over(x, {.expected = values, .cells_per_value = cells});
      auto const lanes = reduced(codec, x, seed);
      std::vector<float> out(n, 7.0f);
      codec.decode_lanes(lanes, out, seed);
      CHECK(out == sparse::fixed_sum<std::uint32_t>(x));
    }
    auto small = over(x, {.expected = values, .cells_per_value = 1.2});
    auto const lanes = reduced(small, x, seed);
    std::vector<float> out(n, 7.0f);
    auto const left = small.try_decode_lanes(lanes, out, seed);
    CHECK(static_cast<double>(left) / static_cast<double>(values) ==
          doctest::Approx(0.49).epsilon(0.05));
    CHECK(std::count(out.begin(), out.end(), 7.0f) == static_cast<std::ptrdiff_t>(n));
  }
}

TEST_CASE(
    "iblt: values of 8 workers are read correctly with check sums, and often incorrectly without") {
  std::size_t const n = 1 << 20;  // C7: a union of 41.1 thousand; false decodes in 70-75 % of runs
  int wrong_runs = 0;
  int const runs = 6;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    CAPTURE(seed);
    auto const x = sparse::ranks_of(8, n, 0.005, seed);
    auto const values = union_of(x);
    auto const expected = sparse::fixed_sum<std::uint32_t>(x);
    auto codec = over(x, {.expected = values, .cells_per_value = seed % 2 ? 1.25 : 1.3});
    auto const lanes = reduced(codec, x, seed);
    std::vector<float> out(n);
    REQUIRE(codec.try_decode_lanes(lanes, out, seed) == 0);
    CHECK(out == expected);

    std::vector<detail::iblt::table_cell> cells(codec.cells());
    std::memcpy(cells.data(), lanes.data(), lanes.size() * sizeof(lanes[0]));
    std::vector<detail::iblt::value_claim> claims;
    detail::lhc::cell_layout const layout{hcomp::mix(seed),
                                          static_cast<std::uint32_t>(cells.size() / 96)};
    detail::iblt::peel<false>(layout, n, 8, std::span(cells), claims);
    std::size_t wrong = 0;
    for (auto const& claim : claims) wrong += expected[claim.value] == 0;
    CHECK(wrong < values / 1000);
    wrong_runs += wrong > 0;
  }
  CHECK(wrong_runs >= 2);
}

TEST_CASE("iblt: results are exact for all supports, sizes and ranks, in any order") {
  for (std::size_t const n : {0, 1, 31, 64, 1000, 40'000})
    for (std::size_t const ranks : {1, 2, 3, 16})
      for (double const density : {0.0, 0.01, 1.0}) {
        if (n * ranks > 100'000 && density == 1.0) continue;
        CAPTURE(n);
        CAPTURE(ranks);
        CAPTURE(density);
        auto x = sparse::ranks_of(ranks, n, density, n + 3);
        if (n > 2) x[0][n / 2] = -x[ranks - 1][n / 2];  // may cancel
        auto codec = over(x, {.cells_per_value = 3});
        auto const found = sum(codec, x);
        CHECK(found == sparse::fixed_sum<std::uint32_t>(x));
        std::reverse(x.begin(), x.end());
        CHECK(sum(codec, x) == found);
      }
}

TEST_CASE("iblt: golden lanes") {
  // Part of the wire format: raise wire_version when it changes.
  auto const x = sparse::ranks_of(2, 10'000, 0.01);
  auto codec = over(x);
  auto const lanes = reduced(codec, x, 5);
  CHECK(hcomp::fingerprint(hcomp::serial_group{}, reinterpret_cast<std::byte const*>(lanes.data()),
                           lanes.size() * sizeof(lanes[0])) == 4708417962320662107u);
}

TEST_CASE("iblt: small tables seldom fail, and a failure is reported and changes nothing") {
  int failures = 0, runs = 0;
  for (std::size_t const marked : {1, 3, 10, 30, 100, 300, 1000})
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      sparse::vectors x(2, std::vector<float>(5000));
      for (std::size_t k = 0; k < marked; ++k)
        x[k % 2][hcomp::mix(seed * 10'000 + k) % 5000] = static_cast<float>(k + 1);
      auto codec = over(x, {.expected = marked});
      auto const lanes = reduced(codec, x, seed);
      auto out = x[0];
      ++runs;
      if (codec.try_decode_lanes(lanes, out, seed) > 0) {
        ++failures;
        CHECK(out == x[0]);
      } else {
        CHECK(out == sparse::fixed_sum<std::uint32_t>(x));
      }
    }
  CAPTURE(failures);
  CHECK(failures <= runs / 50);
}

TEST_CASE("iblt: the mean is the sum divided by the ranks") {
  auto const x = sparse::ranks_of(4, 2000, 0.05);
  auto codec = over(x, {.cells_per_value = 3});
  iblt mean({.ranks = 4, .op = hcomp::reduce_op::mean}, {.cells_per_value = 3});
  auto expected = sum(codec, x);
  for (float& v : expected) v /= 4;
  CHECK(sum(mean, x) == expected);
}

TEST_CASE("iblt: too many values are an error with the numbers, and x stays unchanged") {
  auto const x = sparse::ranks_of(2, 20'000, 0.05);
  auto codec = over(x, {.expected = 500});
  auto const lanes = reduced(codec, x, 1);
  auto out = x[0];
  auto const left = codec.try_decode_lanes(lanes, out, 1);
  CHECK(out == x[0]);
  try {
    codec.decode_lanes(lanes, out, 1);
    FAIL("no error");
  } catch (hcomp::incomplete_error const& error) {
    CHECK(error.left() == left);
    auto const all = 40'000 - static_cast<std::uint64_t>(std::count(x[0].begin(), x[0].end(), 0) +
                                                         std::count(x[1].begin(), x[1].end(), 0));
    CHECK(error.what() ==
          "iblt: " + std::to_string(left) + " of " + std::to_string(all) +
              " non-zeros of the ranks cannot be read from 768 cells; more cells are needed, or "
              "another sum. x is unchanged");
  }
  CHECK(out == x[0]);
}

TEST_CASE("iblt: damaged cells, and words that are no statistics, are refused") {
  auto const x = sparse::ranks_of(2, 20'000, 0.05);
  auto codec = over(x);
  auto lanes = reduced(codec, x, 1);
  auto out = x[0];
  auto damaged = lanes;
  damaged[4 * 100 + 3] += 5;  // a value: the table is readable, except for its end
  CHECK_THROWS_AS(codec.decode_lanes(damaged, out, 1), hcomp::wire_error);
  damaged = lanes;
  damaged[4 * 100 + 2] += 5;
  CHECK_THROWS(codec.decode_lanes(damaged, out, 1));
  CHECK_THROWS_AS(codec.decode_lanes(lanes, out, 2), hcomp::incomplete_error);  // another step
  CHECK(out == x[0]);
  auto const random = data::words(lanes.size(), {.seed = 5});
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<std::uint32_t>(random[i]);
  CHECK_THROWS(codec.decode_lanes(lanes, out, 1));
  CHECK(out == x[0]);
  CHECK_THROWS_AS(codec.calibrate({}), hcomp::wire_error);
  CHECK_THROWS_AS(codec.calibrate({0, 20'001}), hcomp::wire_error);
  CHECK_THROWS_AS(codec.calibrate({300, 2000}), hcomp::wire_error);
}

TEST_CASE("iblt: NaN and impossible settings are refused with their values") {
  for (float const special : data::nonfinite_specials<float>()) {
    auto x = sparse::ranks_of(3, 500, 0.1);
    x[2][100] = special;
    auto codec = over(x);
    CHECK_THROWS_WITH_AS(sum(codec, x), "iblt: NaN or infinity on some rank; x is unchanged",
                         hcomp::nonfinite_error);
  }
  CHECK_THROWS_WITH_AS(iblt({}, {.cells_per_value = 0.5}),
                       "iblt: 0.5 cells per value; there can be 1 to 100 (0: default)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(iblt({.ranks = 0}), "iblt: 0 ranks to be summed, at least 1 is needed",
                       std::invalid_argument);
  iblt crowd({.ranks = 1u << 31});
  CHECK_THROWS_WITH_AS(crowd.measure(std::vector<float>(3)),
                       "iblt: 3 values on 2147483648 ranks; sums of their places must fit into 32 "
                       "bits",
                       std::invalid_argument);
  iblt codec;
  std::vector<float> const x(10, 1.0f);
  codec.calibrate(codec.measure(x));
  std::vector<std::uint32_t> lanes(codec.lanes(10) + 1);
  CHECK_THROWS_WITH_AS(codec.encode_lanes(x, lanes, 1),
                       "iblt: 385 lanes for 10 values, 384 are needed", std::invalid_argument);
}
