// optimise sanitized: -O1
/// @file
/// LHC with index and sketch in one phase: complete and exact for every prediction, and in one
/// phase once the rounds before predict the next one.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/lhc_one_phase.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <vector>

using hcomp::lhc_one_phase;
using hcomp::one_phase_options;
using hcomp::one_phase_report;

namespace {

sparse::vectors ranks_of(std::size_t ranks, std::size_t n, double density, std::uint64_t seed) {
  sparse::vectors x;
  for (std::size_t r = 0; r < ranks; ++r)
    x.push_back(sparse::values(n, density, {.seed = seed * 1000 + r}));
  return x;
}

/// The codecs of several ranks, with their state between rounds.
template <class Lane> struct ranks_that_sum {
  std::vector<lhc_one_phase<Lane>> sums;

  ranks_that_sum(std::size_t ranks, one_phase_options const& phase = {},
                 hcomp::reduce_op result = hcomp::reduce_op::sum) {
    for (std::size_t r = 0; r < ranks; ++r)
      sums.emplace_back(
          hcomp::sparse_options{.ranks = static_cast<std::uint32_t>(ranks), .op = result}, phase);
  }

  /// The result of one round. Checks that it is equal on all ranks.
  std::vector<float> round(sparse::vectors const& x, std::uint64_t key = 1) {
    for (std::size_t r = 0; r < x.size(); ++r) sums[r].begin(x[r], key);
    merge([](auto& sum) { return sum.words(); }, [](auto a, auto b) { return a | b; });
    merge([](auto& sum) { return sum.sketch(); }, [](auto a, auto b) { return a + b; });
    for (std::size_t r = 0; r < x.size(); ++r) sums[r].unite(x[r]);
    merge([](auto& sum) { return sum.rest(); }, [](auto a, auto b) { return a + b; });
    std::vector<float> first;
    for (std::size_t r = 0; r < x.size(); ++r) {
      auto out = x[r];
      sums[r].finish(out);
      if (r == 0) first = out;
      REQUIRE(
          (out.empty() || std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0));
      REQUIRE(sums[r].settings() == sums[0].settings());
    }
    return first;
  }
  one_phase_report const& report() const { return sums[0].report(); }

 private:
  template <class Part, class Merge> void merge(Part const& part, Merge const& op) {
    auto const first = part(sums[0]);
    std::vector total(first.begin(), first.end());
    for (std::size_t r = 1; r < sums.size(); ++r) {
      auto const mine = part(sums[r]);
      REQUIRE(mine.size() == total.size());
      for (std::size_t i = 0; i < total.size(); ++i)
        total[i] = static_cast<typename decltype(mine)::value_type>(op(total[i], mine[i]));
    }
    for (auto& sum : sums) std::copy(total.begin(), total.end(), part(sum).begin());
  }
};

/// Multiples of 2^-10: their sums are exact in fixed point, in all units of these rounds.
sparse::vectors whole(sparse::vectors x, float scale = 1) {
  for (auto& mine : x)
    for (float& v : mine) v = std::round(v * 1024) / 1024 * scale;
  return x;
}
double relative_error(std::vector<float> const& found, sparse::vectors const& x) {
  double error = 0, energy = 1e-30;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double exact = 0;
    for (auto const& mine : x) exact += static_cast<double>(mine[i]);
    error += (found[i] - exact) * (found[i] - exact);
    energy += exact * exact;
  }
  return std::sqrt(error / energy);
}

}  // namespace

TEST_CASE("one phase: after the first round one phase suffices while the union grows slowly") {
  std::size_t const n = 100'000;
  ranks_that_sum<std::uint32_t> ranks(4);
  double density = 0.01;
  for (std::uint64_t round = 0; round < 12; ++round) {
    CAPTURE(round);
    auto const x = whole(ranks_of(4, n, density, round));
    CHECK(ranks.round(x, round) == sparse::plain_sum(x));
    auto const& report = ranks.report();
    CHECK((report.afterwards == 0) == (round > 0));
    CHECK((report.cells == 0) == (round == 0));
    CHECK(report.values == n);
    CHECK(report.index_bytes == hcomp::sparse_index::words(n) * 8);
    CHECK(report.sketch_bytes == report.cells * 4);
    density *= round % 3 == 2 ? 0.7 : 1.1;
  }
  // 1.2 times the largest of the last eight unions, 1.3 cells each
  CHECK(static_cast<double>(ranks.sums[0].predicted_cells()) >=
        1.2 * 1.3 * static_cast<double>(ranks.report().marked));
}

TEST_CASE(
    "one phase: values that do not fit the sketch follow in a second phase, and the sum is exact") {
  std::size_t const n = 60'000;
  ranks_that_sum<std::uint32_t> narrow(3);
  ranks_that_sum<std::uint64_t> wide(3);
  ranks_that_sum<float> plain(3);
  double const densities[] = {0.005, 0.05, 0.05, 0.0, 0.07, 0.5, 1.0, 0.5, 0.001, 0.02};
  std::size_t second = 0;
  for (std::uint64_t round = 0; round < std::size(densities); ++round) {
    CAPTURE(round);
    auto const x = whole(ranks_of(3, n, densities[round], 50 + round));
    auto const expected = sparse::plain_sum(x);
    CHECK(narrow.round(x, round) == expected);
    CHECK(wide.round(x, round) == expected);
    CHECK(relative_error(plain.round(x, round), x) < 2e-5);
    CHECK(narrow.report().afterwards == wide.report().afterwards);
    CHECK(narrow.report().afterwards == plain.report().afterwards);
    CHECK(!narrow.report().outgrown);
    second += narrow.report().afterwards > 0;
    if (round == 1) CHECK(narrow.report().afterwards > narrow.report().marked * 9 / 10);  // 10 x
    if (round == 2 || round == 3) CHECK(narrow.report().afterwards == 0);
  }
  CHECK(second >= 3);
}

TEST_CASE("one phase: partly read sketches and the second phase add up to the sum") {
  std::size_t const n = 80'000;
  for (double const cells : {1.0, 1.1, 1.17}) {  // per expected value: half of them or less is read
    ranks_that_sum<std::uint32_t> ranks(2, {.growth = 1, .cells_per_value = cells});
    auto const x = whole(ranks_of(2, n, 0.05, 7)), y = whole(ranks_of(2, n, 0.05, 8));
    ranks.round(x, 1);
    CHECK(ranks.round(y, 2) == sparse::plain_sum(y));
    auto const& report = ranks.report();
    CAPTURE(cells);
    CHECK(report.afterwards > report.marked * 2 / 5);
    CHECK(report.afterwards < report.marked);
  }
}

TEST_CASE(
    "one phase: values much larger or smaller than predicted take two phases, and are exact") {
  enum { one_phase, outgrown, too_coarse };
  struct {
    float scale;
    int found;
  } const rounds[] = {
      {2, one_phase},        {4, one_phase},       {8, one_phase},
      {256, outgrown},       {8, one_phase},                        // the median of 4, 8 and 256
      {1, too_coarse},       {1, too_coarse},      {1, one_phase},  // the median of 8, 1 and 1
      {0.25, one_phase},     {0x1p100f, outgrown}, {0x1p100f, outgrown},
      {0x1p101f, one_phase}, {1, too_coarse},      {0x1p101f, one_phase}};
  auto const x = whole(ranks_of(3, 20'000, 0.03, 9));
  auto const expected = sparse::plain_sum(x);
  ranks_that_sum<std::uint32_t> ranks(3);
  ranks.round(x);
  auto const scaled_by = [](std::vector<float> y, float scale) {
    for (float& v : y) v *= scale;
    return y;
  };
  for (std::size_t round = 0; round < std::size(rounds); ++round) {
    auto const scale = rounds[round].scale;
    auto const found = rounds[round].found;
    CAPTURE(round);
    CAPTURE(scale);
    auto y = x;
    for (auto& mine : y) mine = scaled_by(mine, scale);
    CHECK(ranks.round(y) == scaled_by(expected, scale));
    CHECK(ranks.report().outgrown == (found == outgrown));
    CHECK(ranks.report().too_coarse == (found == too_coarse));
    CHECK(ranks.report().afterwards == (found == one_phase ? 0 : ranks.report().marked));
  }
}

TEST_CASE(
    "one phase: a single large or small round leaves precision and phases of later rounds "
    "unchanged") {
  std::size_t const n = 30'000;
  for (double const spike : {1e-30, 1e-3, 1.0, 1e3, 1e6, 1e30}) {
    CAPTURE(spike);
    ranks_that_sum<std::uint32_t> ranks(3);
    for (std::uint64_t round = 0; round < 12; ++round) {
      CAPTURE(round);
      auto x = ranks_of(3, n, 0.01, 70 + round);
      if (round == 2 && spike > 1) x[0][500] = static_cast<float>(spike);
      if (round == 2 && spike < 1)
        for (auto& mine : x)
          for (float& v : mine) v *= static_cast<float>(spike);
      auto const found = ranks.round(x, round);
      if (round == 2 && spike > 1) continue;  // the other values are small beside it
      CHECK(relative_error(found, x) < 1e-7);
      CHECK((ranks.report().afterwards > 0) == (round == 0 || (round == 2 && spike != 1)));
    }
  }
}

TEST_CASE(
    "one phase: after any earlier rounds, every value's error is within the documented unit") {
  std::size_t const n = 2000, size = 4;
  for (int const exponent_bits : {0, 2, 5}) {
    ranks_that_sum<std::uint32_t> narrow(size, {.exponent_bits = exponent_bits});
    ranks_that_sum<std::uint64_t> wide(size, {.exponent_bits = exponent_bits});
    std::size_t in_one_phase = 0;
    float scale = 1;
    for (std::uint64_t round = 0; round < 150; ++round) {
      auto const draw = hcomp::mix(round + 1000 * static_cast<std::uint64_t>(exponent_bits));
      if (draw % 4 == 0) scale *= std::ldexp(1.0f, static_cast<int>(draw / 4 % 21) - 10);
      scale = std::clamp(scale, 1e-30f, 1e30f);
      auto x = ranks_of(size, n, 0.1, round);
      if (draw % 11 == 0) x[draw / 16 % size].assign(n, 0.0f);
      if (draw % 13 == 0) x.assign(size, std::vector<float>(n));
      for (auto& mine : x)
        for (float& v : mine) v *= scale;
      auto const exact_within = [&]<class Lane>(ranks_that_sum<Lane>& ranks) {
        auto const found = ranks.round(x, round);
        // each rank rounds to half a unit, decoding to half of the last place of a float
        double const unit =
            hcomp::detail::sparse::lane_numbers<Lane>(ranks.sums[0].index().exponent(), size, 1)
                .unit() *
            std::ldexp(1.0, ranks.report().afterwards > 0 ? 0 : 2 * exponent_bits);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          double exact = 0;
          for (auto const& mine : x) exact += static_cast<double>(mine[i]);
          wrong += std::abs(found[i] - exact) >
                   unit * static_cast<double>(size) / 2 + std::ldexp(std::abs(exact), -24) * 1.001;
        }
        CAPTURE(round);
        CAPTURE(exponent_bits);
        CHECK(wrong == 0);
      };
      exact_within(narrow);
      exact_within(wide);
      in_one_phase += narrow.report().afterwards == 0;
      CHECK(narrow.report().afterwards == wide.report().afterwards);
    }
    CHECK(in_one_phase > 40);  // otherwise the bound was hardly tested
  }
}

TEST_CASE("one phase: floats that could overflow a cell are sent again, and only these") {
  ranks_that_sum<float> ranks(3);
  for (std::uint64_t round = 0; round < 6; ++round) {
    CAPTURE(round);
    bool const is_large = round == 2 || round == 5;
    auto x = ranks_of(3, 20'000, 0.05, 30 + round);
    if (is_large)
      for (auto& mine : x)
        for (float& v : mine) v *= 0.3f * std::numeric_limits<float>::max();
    auto const found = ranks.round(x, round);
    if (is_large) CHECK(found == sparse::plain_sum(x));
    CHECK(relative_error(found, x) < 2e-5);
    CHECK(ranks.report().outgrown == is_large);
    CHECK((ranks.report().afterwards > 0) == (is_large || round == 0));
  }
}

TEST_CASE("one phase: zeros, empty vectors and vectors of another size") {
  ranks_that_sum<std::uint32_t> ranks(2);
  for (std::size_t const n : {0, 1, 64, 1000, 1000, 1000, 65, 65}) {
    CAPTURE(n);
    for (double const density : {0.0, 1.0, 0.1}) {
      auto const x = whole(ranks_of(2, n, density, n));
      CHECK(ranks.round(x) == sparse::plain_sum(x));
    }
    CHECK(ranks.report().values == n);
  }
}

TEST_CASE("one phase: the mean is the sum divided by the ranks") {
  auto const x = whole(ranks_of(4, 10'000, 0.02, 3));
  ranks_that_sum<std::uint32_t> sum(4), mean(4, {}, hcomp::reduce_op::mean);
  for (int round = 0; round < 2; ++round) {
    auto expected = sum.round(x);
    for (float& v : expected) v /= 4;
    CHECK(mean.round(x) == expected);
  }
}

TEST_CASE("one phase: NaN and infinity are an error on all ranks, and no state is lost") {
  for (float const special : data::nonfinite_specials<float>()) {
    ranks_that_sum<float> floats(2);
    ranks_that_sum<std::uint32_t> fixed(2);
    auto const x = whole(ranks_of(2, 3000, 0.05, 3));
    auto y = x;
    y[1][70] = special;
    for (int round = 0; round < 2; ++round) {
      CHECK_THROWS_WITH_AS(floats.round(y),
                           "lhc_one_phase: NaN or infinity on some rank; x is unchanged",
                           hcomp::nonfinite_error);
      CHECK_THROWS_AS(fixed.round(y), hcomp::nonfinite_error);
      CHECK(fixed.round(x) == sparse::plain_sum(x));
      CHECK(relative_error(floats.round(x), x) < 2e-6);
      CHECK((fixed.report().afterwards == 0) == (round > 0));
    }
  }
}

TEST_CASE(
    "one phase: cells that the index does not explain are an error, also with a second phase") {
  for (double const growth : {1.2, 0.8}) {
    lhc_one_phase<std::uint32_t> sum({}, {.growth = growth});
    auto const x = sparse::values(20'000, 0.05, {.seed = 3});
    auto out = x;
    for (int round = 0; round < 2; ++round) {
      sum.begin(x, 1);
      sum.unite(x);
      sum.finish(out);
    }
    CAPTURE(growth);
    CHECK((sum.rest().size() > 0) == (growth < 1));
    auto const before = out;
    sum.begin(x, 1);
    sum.sketch()[17] += 3;
    sum.unite(x);
    CHECK_THROWS_AS(sum.finish(out), hcomp::wire_error);
    CHECK(out == before);
    sum.begin(x, 1);
    sum.unite(x);
    CHECK_NOTHROW(sum.finish(out));
    CHECK(out == before);
    std::vector<float> shorter(100);
    CHECK_THROWS_WITH_AS(sum.finish(shorter),
                         "lhc_one_phase: 100 values, but the ranks' index is of 20000",
                         std::invalid_argument);
  }
}

TEST_CASE(
    "one phase: impossible settings are refused; other settings and rounds change settings()") {
  CHECK_THROWS_WITH_AS(
      lhc_one_phase<>({.ranks = 0}),
      "lhc_one_phase: 0 ranks, 8 rounds, growth 1.2, 0 cells per value, 2 bits for "
      "exponents; valid: ranks and rounds from 1, growth 0.01 to 100, cells per value 1 to 100 "
      "(0: default), exponent bits 0 to 20",
      std::invalid_argument);
  CHECK_THROWS_AS(lhc_one_phase<>({}, {.rounds = 0}), std::invalid_argument);
  CHECK_THROWS_AS(lhc_one_phase<>({}, {.growth = -1}), std::invalid_argument);
  CHECK_THROWS_AS(lhc_one_phase<>({}, {.cells_per_value = 0.5}), std::invalid_argument);
  CHECK_THROWS_AS(lhc_one_phase<>({}, {.exponent_bits = -1}), std::invalid_argument);
  std::vector<std::uint64_t> const all{lhc_one_phase<>().settings(),
                                       lhc_one_phase<float>().settings(),
                                       lhc_one_phase<std::uint64_t>().settings(),
                                       lhc_one_phase<>({.ranks = 2}).settings(),
                                       lhc_one_phase<>({.op = hcomp::reduce_op::mean}).settings(),
                                       lhc_one_phase<>({}, {.rounds = 3}).settings(),
                                       lhc_one_phase<>({}, {.growth = 1.5}).settings(),
                                       lhc_one_phase<>({}, {.cells_per_value = 1.5}).settings(),
                                       lhc_one_phase<>({}, {.exponent_bits = 3}).settings()};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) CHECK(all[i] != all[k]);
  ranks_that_sum<float> ranks(2);
  auto const before = ranks.sums[0].settings();
  ranks.round(ranks_of(2, 100, 0.1, 1));
  CHECK(ranks.sums[0].settings() != before);
}

TEST_CASE("one phase: reports describe how a round went") {
  std::vector<float> x(1000);
  for (std::size_t i = 0; i < 1000; i += 100) x[i] = 1;
  ranks_that_sum<std::uint32_t> ranks(1);
  ranks.round({x});
  CHECK(ranks.report().text() ==
        "two phases: 10 of 1000 values are not zero on some rank, 0 cells, 10 values afterwards");
  ranks.round({x});
  CHECK(ranks.report().text() ==
        "one phase: 10 of 1000 values are not zero on some rank, 96 cells, 0 values afterwards");
  x[0] = 100;
  ranks.round({x});
  CHECK(ranks.report().text() ==
        "two phases: 10 of 1000 values are not zero on some rank, 96 cells, 10 values afterwards, "
        "because one outgrew the sketch");
  for (auto& v : x) v /= 1024;
  ranks.round({x});
  CHECK(ranks.report().text() ==
        "two phases: 10 of 1000 values are not zero on some rank, 96 cells, 10 values afterwards, "
        "because the sketch's unit was too coarse for them");
}
