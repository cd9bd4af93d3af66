
#include <doctest/doctest.h>

#include <cstdint>
#include <hcomp/op/sparse_sum.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <vector>

using hcomp::sparse_strategies;
using hcomp::sparse_strategy;
using hcomp::sparse_sum;

namespace {

sparse::vectors ranks_of(std::size_t ranks, std::size_t n, double density) {
  sparse::vectors x;
  for (std::size_t r = 0; r < ranks; ++r) x.push_back(sparse::values(n, density, {.seed = 10 + r}));
  return x;
}

constexpr sparse_strategies only_dense{.packed = false, .sketched = false};
constexpr sparse_strategies only_packed{.dense = false, .sketched = false};
constexpr sparse_strategies only_sketched{.dense = false, .packed = false};

}  // namespace

TEST_CASE("sparse_sum: every strategy gives the same bits in fixed point") {
  for (std::size_t const n : {0, 1, 64, 1000, 30'001})
    for (double const density : {0.0, 0.01, 0.3, 1.0})
      for (auto const& strategies : {only_dense, only_packed, only_sketched, sparse_strategies{}}) {
        CAPTURE(n);
        CAPTURE(density);
        auto const x = ranks_of(3, n, density);
        sparse_sum<std::uint32_t> sum({.ranks = 3}, strategies);
        CHECK(sparse::sum(sum, x) == sparse::fixed_sum<std::uint32_t>(x));
        sparse_sum<> plain({.ranks = 3}, strategies);
        auto const found = sparse::sum(plain, x), expected = sparse::plain_sum(x);
        if (plain.choice().strategy != sparse_strategy::sketched) CHECK(found == expected);
      }
}

TEST_CASE("sparse_sum: the smallest strategy is chosen, and choice() explains it") {
  struct {
    double density;
    sparse_strategies strategies;
    sparse_strategy expected;
  } const cases[] = {
      {0.0, {}, sparse_strategy::packed},
      {0.01, {}, sparse_strategy::packed},
      {0.4, {}, sparse_strategy::packed},
      {0.9, {}, sparse_strategy::dense},
      {0.9, {.worthwhile = 1}, sparse_strategy::packed},
      {0.01, {.packed = false}, sparse_strategy::sketched},
      {0.5, {.packed = false}, sparse_strategy::sketched},
      {0.7, {.packed = false}, sparse_strategy::dense},
      {0.9, only_packed, sparse_strategy::packed},
      {0.9, only_sketched, sparse_strategy::sketched},
      {0.0, only_dense, sparse_strategy::dense},
  };
  for (auto const& one : cases) {
    CAPTURE(one.density);
    auto const x = ranks_of(1, 20'000, one.density);
    sparse_sum<> sum({}, one.strategies);
    sparse::sum(sum, x);
    CHECK(hcomp::to_text(sum.choice().strategy) == std::string(hcomp::to_text(one.expected)));
    std::size_t const bytes[] = {sum.choice().dense_bytes, sum.choice().packed_bytes,
                                 sum.choice().sketched_bytes};
    CHECK(sum.lanes(20'000) * 4 == bytes[static_cast<int>(one.expected)]);
  }
  std::vector<float> x(1000);
  for (std::size_t i = 0; i < 1000; i += 100) x[i] = 1;
  sparse_sum<> sum;
  sparse::sum(sum, {x});
  CHECK(sum.choice().text() ==
        "sparse_union: 10 of 1000 values are not zero on some rank; bytes: dense 4000, "
        "sparse_union 40, lhc 384");
  CHECK(sum.choice().index_bytes == 160);
  CHECK_THROWS_WITH_AS(sparse_sum<>({}, {.dense = false, .packed = false, .sketched = false}),
                       "sparse_sum: no strategy is allowed; enable dense, sparse_union or lhc",
                       std::invalid_argument);
}

TEST_CASE("sparse_sum: floats that could overflow a cell are not sketched") {
  auto x = ranks_of(6, 20'000, 0.01);
  for (auto& mine : x)
    for (float& v : mine) v *= 0.15f * std::numeric_limits<float>::max();
  sparse_sum<> dense({.ranks = 6}, {.packed = false}), alone({.ranks = 6}, only_sketched);
  sparse_sum<std::uint32_t> fixed({.ranks = 6}, {.packed = false});
  CHECK(sparse::sum(dense, x) == sparse::plain_sum(x));
  CHECK(dense.choice().strategy == sparse_strategy::dense);
  CHECK(sparse::sum(alone, x) == sparse::plain_sum(x));
  CHECK(alone.choice().sketched_bytes == alone.choice().packed_bytes);
  CHECK(sparse::sum(fixed, x) == sparse::fixed_sum<std::uint32_t>(x));
  CHECK(fixed.choice().strategy == sparse_strategy::sketched);
}

TEST_CASE("sparse_sum: with propagate, NaN and infinity choose a strategy that keeps their index") {
  auto x = ranks_of(2, 1000, 0.01);
  x[1][500] = data::nonfinite_specials<float>()[0];
  sparse_sum<> strict({.ranks = 2});
  CHECK_THROWS_AS(sparse::sum(strict, x), hcomp::nonfinite_error);
  hcomp::sparse_options const lax{.ranks = 2, .nonfinite = hcomp::nonfinite_policy::propagate};
  sparse_sum<> sum(lax, {.packed = false});
  CHECK(sparse::sum(sum, x) == sparse::plain_sum(x));
  CHECK(sum.choice().strategy == sparse_strategy::dense);
  sparse_sum<> sketch(lax, only_sketched);
  CHECK_THROWS_AS(sparse::sum(sketch, x), hcomp::nonfinite_error);
}

TEST_CASE("sparse_sum: different options give different settings()") {
  std::vector<std::uint64_t> const all{
      sparse_sum<>().settings(),
      sparse_sum<std::uint32_t>().settings(),
      sparse_sum<std::uint64_t>().settings(),
      sparse_sum<>({.ranks = 2}).settings(),
      sparse_sum<>({.op = hcomp::reduce_op::mean}).settings(),
      sparse_sum<>({.nonfinite = hcomp::nonfinite_policy::ignore}).settings(),
      sparse_sum<>({}, only_dense).settings(),
      sparse_sum<>({}, only_packed).settings(),
      sparse_sum<>({}, {.worthwhile = 0.7}).settings(),
      sparse_sum<>({}, {}, {.cells_per_value = 1.5}).settings(),
      sparse_sum<>({}, {}, {.attempts = 3}).settings()};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) CHECK(all[i] != all[k]);
}
