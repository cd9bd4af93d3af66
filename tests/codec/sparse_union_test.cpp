#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/union.hpp>
#include <hcomp/core/bits.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <vector>

using hcomp::nonfinite_policy;
using hcomp::reduce_op;
using hcomp::sparse_union;

namespace {

std::vector<std::size_t> const sizes{0, 1, 63, 64, 65, 1000, 4099};

sparse::vectors ranks_of(std::size_t ranks, std::size_t n, double density) {
  sparse::vectors x;
  for (std::size_t r = 0; r < ranks; ++r)
    x.push_back(sparse::values(n, r % 3 == 2 ? 0 : density, {.seed = n * 100 + r}));
  return x;
}
template <class Lane> sparse_union<Lane> over(sparse::vectors const& x) {
  return sparse_union<Lane>({.ranks = static_cast<std::uint32_t>(x.size())});
}
bool is_one_nan(float x) {
  return hcomp::same_bits<std::uint32_t>(x) ==
         hcomp::same_bits<std::uint32_t>(hcomp::detail::one_nan<float>());
}

}  // namespace

TEST_CASE("sparse union: float results are those of plain addition") {
  for (std::size_t const n : sizes)
    for (std::size_t const ranks : {1, 2, 3, 8})
      for (double const density : {0.0, 0.02, 0.5, 1.0}) {
        CAPTURE(n);
        CAPTURE(ranks);
        CAPTURE(density);
        auto const x = ranks_of(ranks, n, density);
        auto codec = over<float>(x);
        CHECK(sparse::sum(codec, x) == sparse::plain_sum(x));
        // one lane per value that is nonzero on some rank, and none for the rest
        std::size_t marked = 0;
        for (std::size_t i = 0; i < n; ++i)
          marked += std::any_of(x.begin(), x.end(), [&](auto const& mine) { return mine[i] != 0; });
        CHECK(codec.lanes(n) == marked);
      }
}

TEST_CASE("sparse union: fixed point is exact, in any order") {
  for (std::size_t const n : sizes)
    for (std::size_t const ranks : {1, 2, 3, 5, 8, 16}) {
      CAPTURE(n);
      CAPTURE(ranks);
      auto x = ranks_of(ranks, n, 0.1);
      if (n > 2) x[0][n / 2] = 0.5f;  // the largest of a rank is a power of two, or just below one
      if (n > 2) x[ranks - 1][n / 3] = std::nextafter(2.0f, 0.0f);
      auto narrow = over<std::uint32_t>(x);
      auto wide = over<std::uint64_t>(x);
      auto const sum = sparse::sum(narrow, x);
      CHECK(sum == sparse::fixed_sum<std::uint32_t>(x));
      CHECK(sparse::sum(wide, x) == sparse::fixed_sum<std::uint64_t>(x));
      std::reverse(x.begin(), x.end());
      CHECK(sparse::sum(narrow, x) == sum);
    }
}

TEST_CASE("sparse union: fixed point holds the largest results, with an error of half a unit") {
  float const most = std::nextafter(1.0f, 0.0f);
  for (std::size_t const ranks : {1, 2, 3, 4, 7, 64, 128, 256, 300}) {
    CAPTURE(ranks);
    sparse::vectors const x(ranks, {most, -most, 0, 0x1p-40f, 0.3f});
    auto codec = over<std::uint32_t>(x);
    auto const sum = sparse::sum(codec, x);
    auto const count = static_cast<double>(ranks);
    int const bits = 31 - static_cast<int>(std::ceil(std::log2(count + 1e-9)));
    double const bound = count * std::ldexp(0.5, -bits + 1) + count * 0x1p-24;
    CHECK(std::fabs(sum[0] - count * most) <= bound);
    CHECK(std::fabs(sum[1] + count * most) <= bound);
    CHECK(sum[2] == 0);
    CHECK(std::fabs(sum[3] - count * 0x1p-40) <= bound);
    CHECK(std::fabs(sum[4] - count * 0.3f) <= bound);
    auto wide = over<std::uint64_t>(x);
    CHECK(sparse::sum(wide, x)[3] == static_cast<float>(count * 0x1p-40));
  }
}

TEST_CASE("sparse union: floats of any size, from the smallest to the largest") {
  auto const specials = data::finite_specials<float>();
  for (float const v : specials) {
    CAPTURE(v);
    sparse::vectors const x{{v, 0, 0}, {0, 0, -v}};
    std::vector<float> const expected{v, 0, -v};
    auto plain = over<float>(x);
    auto narrow = over<std::uint32_t>(x);
    auto wide = over<std::uint64_t>(x);
    CHECK(sparse::sum(plain, x) == expected);
    CHECK(sparse::sum(narrow, x) == expected);
    CHECK(sparse::sum(wide, x) == expected);
  }
  sparse::vectors const all{specials, std::vector<float>(specials.size())};
  auto narrow = over<std::uint32_t>(all);
  CHECK(sparse::sum(narrow, all) == sparse::fixed_sum<std::uint32_t>(all));
}

TEST_CASE("sparse union: the mean is the sum divided by the ranks") {
  auto const x = ranks_of(5, 1000, 0.1);
  sparse_union<> sum({.ranks = 5}), mean({.ranks = 5, .op = reduce_op::mean});
  auto expected = sparse::sum(sum, x);
  for (float& v : expected) v /= 5;
  CHECK(sparse::sum(mean, x) == expected);
  sparse_union<std::uint32_t> fixed({.ranks = 5, .op = reduce_op::mean});
  auto const found = sparse::sum(fixed, x);
  for (std::size_t i = 0; i < found.size(); ++i)
    REQUIRE(std::fabs(found[i] - expected[i]) < 0x1p-23f);  // floats below 4 were rounded, 4 times
}

TEST_CASE("sparse union: NaN and infinity are an error, or propagate where floats allow it") {
  for (float const special : data::nonfinite_specials<float>()) {
    auto x = ranks_of(2, 100, 0.1);
    x[1][70] = special;
    auto strict = over<float>(x);
    CHECK_THROWS_WITH_AS(sparse::sum(strict, x),
                         "sparse_union: NaN or infinity on some rank; x is unchanged",
                         hcomp::nonfinite_error);
    sparse_union<> lax({.ranks = 2, .nonfinite = nonfinite_policy::propagate});
    auto const found = sparse::sum(lax, x), expected = sparse::plain_sum(x);
    for (std::size_t i = 0; i < x[0].size(); ++i)
      CHECK((found[i] == expected[i] || (std::isnan(expected[i]) && is_one_nan(found[i]))));
    sparse_union<std::uint32_t> fixed({.ranks = 2, .nonfinite = nonfinite_policy::propagate});
    CHECK_THROWS_AS(sparse::sum(fixed, x), hcomp::nonfinite_error);
  }
}

TEST_CASE("sparse union: what does not fit is refused with the numbers") {
  auto const text_of = [](auto const& f) {
    try {
      f();
    } catch (std::invalid_argument const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::vector<float> x{1, 0, 2, 0};
  sparse_union<std::uint32_t> codec;
  std::vector<std::uint32_t> lanes(3);
  codec.mark(x);
  codec.unite();
  CHECK(text_of([&] { codec.encode_lanes(x, lanes); }) ==
        "sparse_union: 3 lanes for 4 values, 2 are needed");
  lanes.resize(2);
  x.push_back(1);
  CHECK(text_of([&] { codec.decode_lanes(lanes, x); }) ==
        "sparse_union: 5 values, but the ranks' index is of 4");
  sparse_union<> none({.ranks = 0});
  none.mark(x);
  CHECK(text_of([&] { none.unite(); }) ==
        "sparse_union: 0 ranks to be summed, at least 1 is needed");
}

TEST_CASE("sparse union: a sum in fixed point is off by at most P^2 2^-30 of the largest value") {
  // values of 1 to 2, whose exponent is stored as 127, are off by half a unit each
  for (std::uint32_t ranks = 1; ranks <= 5000; ++ranks) {
    CAPTURE(ranks);
    double const p = ranks;
    hcomp::detail::sparse::lane_numbers<std::uint32_t> const narrow(127, ranks, 1);
    hcomp::detail::sparse::lane_numbers<std::uint64_t> const wide(127, ranks, 1);
    REQUIRE(p * narrow.unit() / 2 <= p * p * 0x1p-30);
    REQUIRE(p * wide.unit() / 2 <= p * p * 0x1p-62);
    REQUIRE(p * narrow.unit() / 2 >= p * p * 0x1p-32);
  }
}
