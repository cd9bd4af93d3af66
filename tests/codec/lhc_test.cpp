// optimise sanitized: -O1
/// @file
/// Sparse all-reduces with sketches: complete for every support, exact in fixed point.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <vector>

using hcomp::lhc;
using hcomp::lhc_options;
using hcomp::mix;

namespace {

template <class Lane> lhc<Lane> over(sparse::vectors const& x, lhc_options const& options = {}) {
  return lhc<Lane>({.ranks = static_cast<std::uint32_t>(x.size())}, options);
}
/// || found - sum || / || sum ||
double relative_error(std::vector<float> const& found, sparse::vectors const& x) {
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double exact = 0;
    for (auto const& mine : x) exact += static_cast<double>(mine[i]);
    error += (found[i] - exact) * (found[i] - exact);
    energy += exact * exact;
  }
  return energy > 0 ? std::sqrt(error / energy) : error;
}

}  // namespace

TEST_CASE(
    "lhc: results of 8 workers are exact in fixed point, and near in floats") {  // C5, C6, C12
  auto x = sparse::ranks_of(8, 400'000, 0.05);
  auto narrow = over<std::uint32_t>(x);
  auto wide = over<std::uint64_t>(x);
  auto const sum = sparse::sum(narrow, x);
  CHECK(sum == sparse::fixed_sum<std::uint32_t>(x));
  CHECK(sparse::sum(wide, x) == sparse::fixed_sum<std::uint64_t>(x));
  CHECK(narrow.beside() == 0);
  CHECK(narrow.attempts() == 1);
  auto plain = over<float>(x);
  CHECK(relative_error(sparse::sum(plain, x), x) < 2e-6);
  auto roomy = over<float>(x, {.cells_per_value = 2});
  CHECK(relative_error(sparse::sum(roomy, x), x) < 5e-7);
  std::reverse(x.begin(), x.end());
  CHECK(sparse::sum(narrow, x) == sum);
}

TEST_CASE("lhc: the sketch is sized by the union, which grows with the ranks") {  // C11
  for (std::size_t const ranks : {1, 4, 8, 16}) {
    CAPTURE(ranks);
    auto const x = sparse::ranks_of(ranks, 200'000, 0.01);
    auto codec = over<std::uint32_t>(x);
    sparse::sum(codec, x);
    double const density = 1 - std::pow(0.99, static_cast<double>(ranks));
    double const marked = static_cast<double>(codec.index().marked());
    CHECK(marked / 200'000 == doctest::Approx(density).epsilon(0.03));  // over 2000: 1.5 %
    CHECK(static_cast<double>(codec.cells()) / marked >= 1.3);
    CHECK(static_cast<double>(codec.cells()) / marked < 1.3 + 96 / marked + 0.1 * (marked < 2100));
  }
}

TEST_CASE("lhc: values that do not fit the sketch are sent beside it") {
  auto const x = sparse::ranks_of(3, 100'000, 0.05);
  auto const expected = sparse::fixed_sum<std::uint32_t>(x);
  // At 1.15 cells, 60 % of the values remain, so there is no sketch. At 1.2 a little less than half
  // remain.
  auto none = over<std::uint32_t>(x, {.cells_per_value = 1.15, .attempts = 2});
  CHECK(sparse::sum(none, x) == expected);
  CHECK(none.cells() == 0);
  CHECK(none.lanes(x[0].size()) == none.index().marked());
  auto half = over<std::uint32_t>(x, {.cells_per_value = 1.215, .attempts = 2});
  CHECK(sparse::sum(half, x) == expected);
  CHECK(half.cells() > 0);
  CHECK(half.beside() > half.index().marked() * 2 / 5);
  auto half_in_floats = over<float>(x, {.cells_per_value = 1.215, .attempts = 2});
  CHECK(relative_error(sparse::sum(half_in_floats, x), x) < 2e-5);
  // More attempts enlarge the sketch until it is readable.
  auto grown = over<std::uint32_t>(x, {.cells_per_value = 1.15});
  CHECK(sparse::sum(grown, x) == expected);
  CHECK(grown.attempts() == 5);
  CHECK(grown.beside() == 0);
}

TEST_CASE("lhc: other steps have other hashes, and the same step the same") {
  auto const x = sparse::ranks_of(2, 50'000, 0.05);
  auto codec = over<std::uint32_t>(x);
  auto const lanes_of = [&](std::uint64_t key) {
    sparse::sum(codec, x, key);
    std::vector<std::uint32_t> lanes(codec.lanes(x[0].size()));
    codec.encode_lanes(x[1], lanes);
    return lanes;
  };
  auto const one = lanes_of(1), two = lanes_of(2);
  CHECK(one == lanes_of(1));
  CHECK(one.size() == two.size());
  CHECK(one != two);
}

TEST_CASE("lhc: cells that overflow affect no float result") {
  // Neighbours in a cell overflow although their results do not.
  for (float const size : {0.15f * std::numeric_limits<float>::max(), 0x1p100f, 0x1p71f}) {
    CAPTURE(size);
    auto x = sparse::ranks_of(6, 50'000, 0.05);
    for (auto& mine : x)
      for (float& v : mine) v *= size;
    auto codec = over<float>(x);
    CHECK(sparse::sum(codec, x) == sparse::plain_sum(x));
    CHECK(codec.cells() == 0);
    CHECK(codec.lanes(50'000) == codec.index().marked());
    auto fixed = over<std::uint32_t>(x);  // integers wrap around
    CHECK(sparse::sum(fixed, x) == sparse::fixed_sum<std::uint32_t>(x));
    CHECK(fixed.cells() > 0);
  }
  auto x = sparse::ranks_of(6, 50'000, 0.05);
  for (auto& mine : x)
    for (float& v : mine) v *= 0x1p69f;  // below 2^70
  auto codec = over<float>(x);
  CHECK(relative_error(sparse::sum(codec, x), x) < 2e-6);
  CHECK(codec.cells() > 0);
}

TEST_CASE("lhc: cells that the index does not explain are an error") {
  auto const x = sparse::ranks_of(2, 20'000, 0.05);
  auto codec = over<std::uint32_t>(x);
  sparse::sum(codec, x);
  std::vector<std::uint32_t> lanes(codec.lanes(20'000));
  std::vector<float> out(20'000);
  codec.encode_lanes(x[0], lanes);
  codec.decode_lanes(lanes, out);
  auto const before = out;
  auto damaged = lanes;
  damaged[17] += 3;
  CHECK_THROWS_AS(codec.decode_lanes(damaged, out), hcomp::wire_error);
  CHECK(out == before);
  // a rank with a vector that differs from the one it marked
  auto other = over<std::uint32_t>(x);
  auto const y = sparse::ranks_of(2, 20'000, 0.05, 2);
  sparse::sum(other, y);
  std::vector<std::uint32_t> strange(other.lanes(20'000));
  other.encode_lanes(y[0], strange);
  strange.resize(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) strange[i] += lanes[i];
  CHECK_THROWS_AS(codec.decode_lanes(strange, out), hcomp::wire_error);
  CHECK(out == before);
}

TEST_CASE("lhc: impossible settings and vectors are refused with their values") {
  CHECK_THROWS_WITH_AS(lhc<>({}, {.cells_per_value = 0.5}),
                       "lhc: 0.5 cells per value and 12 attempts; there can be 1 to 100 (0: "
                       "default) and 1 to 50",
                       std::invalid_argument);
  CHECK_THROWS_AS(lhc<>({}, {.attempts = 0}), std::invalid_argument);
  for (float const special : data::nonfinite_specials<float>()) {
    auto x = sparse::ranks_of(3, 500, 0.1);
    x[2][100] = special;
    lhc<> plain({.ranks = 3, .nonfinite = hcomp::nonfinite_policy::propagate});
    CHECK_THROWS_WITH_AS(sparse::sum(plain, x), "lhc: NaN or infinity on some rank; x is unchanged",
                         hcomp::nonfinite_error);
    auto fixed = over<std::uint64_t>(x);
    CHECK_THROWS_AS(sparse::sum(fixed, x), hcomp::nonfinite_error);
  }
  lhc<> codec;
  std::vector<float> const x(10, 1.0f);
  codec.mark(x);
  codec.unite(1);
  std::vector<float> lanes(codec.lanes(10) + 1);
  CHECK_THROWS_WITH_AS(codec.encode_lanes(x, lanes), "lhc: 97 lanes for 10 values, 96 are needed",
                       std::invalid_argument);
}

TEST_CASE("lhc: adversarial supports are reduced completely") {
  std::size_t const n = 64 * 1000;
  struct {
    char const* what;
    bool (*marks)(std::size_t);
  } const supports[] = {
      {"whole rows", [](std::size_t i) { return mix(i / 32) % 20 == 0; }},
      {"two rows", [](std::size_t i) { return i / 32 == 7 || i / 32 == 1900; }},
      {"rows of 1024", [](std::size_t i) { return mix(i / 1024) % 5 == 0; }},
      {"one column", [](std::size_t i) { return i % 32 == 5; }},
      {"one column of 1024", [](std::size_t i) { return i % 1024 == 77; }},
      {"everything", [](std::size_t) { return true; }},
      {"the first half", [](std::size_t i) { return i < 32'000; }},
      {"the first and the last", [](std::size_t i) { return i == 0 || i == 63'999; }},
  };
  for (auto const& support : supports) {
    INFO(support.what);
    sparse::vectors x;
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      x.push_back(sparse::values(n, 1, {.seed = rank}));
      for (std::size_t i = 0; i < n; ++i)
        if (!support.marks(i)) x.back()[i] = 0;
    }
    auto codec = over<std::uint32_t>(x);
    CHECK(sparse::sum(codec, x) == sparse::fixed_sum<std::uint32_t>(x));
    // a sketch that is not readable grows, or leaves a few values beside; never twice the values
    CHECK(codec.lanes(n) <= 2 * codec.index().marked() + 4 * 96);
  }
}

TEST_CASE("lhc: 10,000 random cases are exact, bit by bit") {
  // Most vectors are short, a few have a million values; supports and values are of all kinds.
  auto const specials = data::finite_specials<float>();
  std::size_t wrong = 0, beside = 0, sketched = 0;
  for (std::uint64_t c = 0; c < 10'000; ++c) {
    auto draw = [state = mix(c + 1)]() mutable {
      state += 0x9e3779b97f4a7c15u;
      return mix(state);
    };
    auto const chance = [&] { return static_cast<double>(draw() >> 11) * 0x1p-53; };
    double const size = std::pow(chance(), c % 1000 == 0 ? 0.5 : 4.0);
    auto const n = static_cast<std::size_t>(std::pow(10.0, (c % 1000 == 0 ? 6 : 4.5) * size)) -
                   (c % 7 == 0 ? 1 : 0);
    std::size_t const ranks = n > 100'000 ? 1 + draw() % 3 : 1 + draw() % 16;
    double const density = std::pow(chance(), 1 + static_cast<double>(draw() % 4));
    auto const kind = draw() % 6;
    bool const shared_support = draw() % 2;
    int const exponent = static_cast<int>(draw() % 250) - 126;
    std::uint64_t const seed = draw();
    sparse::vectors x;
    for (std::uint64_t r = 0; r < ranks; ++r) {
      auto mine = sparse::values(n, kind < 3 ? density : 1, {.seed = mix(seed) + r});
      std::uint64_t const support = mix(seed + (shared_support ? 0 : r));
      auto const limit = static_cast<std::uint64_t>(density * 0x1p53);
      for (std::size_t i = 0; i < n; ++i) {
        if (kind == 3 && mix(support + i / 32) >> 11 >= limit) mine[i] = 0;  // rows
        if (kind == 4 && i % 32 != support % 32) mine[i] = 0;                // one column
        if (kind == 5 && mix(support + i / 1024) >> 11 >= limit) mine[i] = 0;
        mine[i] = std::ldexp(mine[i], exponent);
      }
      if (n > 0 && kind == 1) mine[support % n] = specials[draw() % specials.size()];
      if (draw() % 10 == 0) std::fill(mine.begin(), mine.end(), 0.0f);
      x.push_back(std::move(mine));
    }
    CAPTURE(c);
    CAPTURE(n);
    CAPTURE(ranks);
    auto const check = [&](auto lane) {
      using lane_type = decltype(lane);
      lhc_options const options{.cells_per_value = c % 5 == 0 ? 1.0 + chance() / 2 : 0,
                                .attempts = c % 3 == 0 ? 1 : 12};
      auto codec = over<lane_type>(x, options);
      auto const found = sparse::sum(codec, x, c);
      auto const expected = sparse::fixed_sum<lane_type>(x);
      bool const same = found == expected;
      if (!same) CHECK(same);
      wrong += !same;
      beside += codec.beside() > 0;
      sketched += codec.cells() > 0;
    };
    if (c % 2 == 0)
      check(std::uint32_t{});
    else
      check(std::uint64_t{});
  }
  CHECK(wrong == 0);
  CHECK(beside > 100);  // both cases occurred
  CHECK(sketched > 5000);
}
