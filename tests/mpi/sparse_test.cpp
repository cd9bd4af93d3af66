// optimise: -O1
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <hcomp/hcomp.hpp>
#include <hcomp/lanes.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <support/sparse_plan.hpp>
#include <type_traits>
#include <vector>

namespace {

using namespace hcomp;

/// Returns the vectors of all ranks, on every rank; the second rank's vector is all zeros.
sparse::vectors everybodys(std::size_t n, double density) {
  sparse::vectors x;
  for (int r = 0; r < mpi::size_of(MPI_COMM_WORLD); ++r)
    x.push_back(sparse::values(n, r == 1 ? 0 : density, {.seed = 100 + static_cast<unsigned>(r)}));
  return x;
}
std::vector<float> const& mine(sparse::vectors const& x) {
  return x[static_cast<std::size_t>(mpi::rank_of(MPI_COMM_WORLD))];
}
sparse_options options() {
  return {.ranks = static_cast<std::uint32_t>(mpi::size_of(MPI_COMM_WORLD))};
}
bool same_everywhere(std::vector<float> const& x) {
  mpi::transport transport(MPI_COMM_WORLD);
  return digest(std::span(x), transport).same();
}

std::vector<sparse_strategies> const all_strategies{{},
                                                    {.packed = false, .sketched = false},
                                                    {.dense = false, .sketched = false},
                                                    {.dense = false, .packed = false}};

template <class Lane> void check_fixed() {
  std::vector<Lane> lanes;
  for (std::size_t const n : {0, 1, 64, 1000, 100'001})
    for (double const density : {0.0, 0.01, 0.5, 1.0})
      for (auto const& strategies : all_strategies) {
        CAPTURE(n);
        CAPTURE(density);
        auto const all = everybodys(n, density);
        auto x = mine(all);
        sparse_sum<Lane> sum(options(), strategies);
        auto const choice =
            mpi::all_reduce_sparse(sum, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD);
        CAPTURE(choice.text());
        CHECK(x == sparse::fixed_sum<Lane>(all));
        CHECK(same_everywhere(x));
        CHECK(choice.values == n);
      }
}

}  // namespace

TEST_CASE("mpi sparse: fixed point gives the exact sum with every strategy, on all ranks") {
  check_fixed<std::uint32_t>();
  check_fixed<std::uint64_t>();
}

TEST_CASE(
    "mpi sparse: floats give nearly the sum with every strategy, the same bits on all ranks") {
  std::vector<float> lanes;
  for (double const density : {0.01, 0.9})
    for (auto const& strategies : all_strategies) {
      auto const all = everybodys(100'001, density);
      auto x = mine(all);
      sparse_sum<> sum(options(), strategies);
      auto const choice =
          mpi::all_reduce_sparse(sum, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD);
      CAPTURE(choice.text());
      auto const expected = sparse::plain_sum(all);
      double error = 0, energy = 1e-30;
      for (std::size_t i = 0; i < x.size(); ++i) {
        error += std::pow(static_cast<double>(x[i]) - expected[i], 2);
        energy += std::pow(expected[i], 2);
      }
      CHECK(std::sqrt(error / energy) < 2e-6);
      CHECK(same_everywhere(x));
    }
}

TEST_CASE("mpi sparse: codecs without a plan use all_reduce_native") {
  auto const all = everybodys(20'000, 0.05);
  std::vector<std::uint32_t> lanes;
  auto x = mine(all), y = x;
  sparse_union<std::uint32_t> packed(options());
  mpi::all_reduce_native(packed, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD);
  lhc<std::uint32_t> sketched(options());
  mpi::all_reduce_native(sketched, std::span(y), {.seed = 3}, lanes, MPI_COMM_WORLD);
  CHECK(x == sparse::fixed_sum<std::uint32_t>(all));
  CHECK(x == y);
}

TEST_CASE("mpi sparse: a Bloom filter as index gives the same sums") {
  for (double const density : {0.0, 0.001, 0.2}) {
    auto const all = everybodys(50'000, density);
    std::vector<std::uint32_t> lanes;
    for (auto const& strategies : all_strategies) {
      auto x = mine(all);
      sparse_sum<std::uint32_t, bloom_index> sum(options(), strategies, {},
                                                 bloom_index({.expected = 150}));
      auto const choice =
          mpi::all_reduce_sparse(sum, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD);
      CAPTURE(choice.text());
      CHECK(x == sparse::fixed_sum<std::uint32_t>(all));
      CHECK(choice.index_bytes < sparse_index::words(50'000) * 8);
    }
    std::vector<float> floats;
    auto y = mine(all);
    sparse_union<float, bloom_index> packed(options());
    mpi::all_reduce_native(packed, std::span(y), {.seed = 3}, floats, MPI_COMM_WORLD);
    CHECK(same_everywhere(y));
  }
}

TEST_CASE("mpi sparse: without an index, one pass gives the exact sum or an error on all ranks") {
  auto const all = everybodys(50'000, 0.005);
  std::vector<std::uint32_t> lanes;
  auto x = mine(all);
  iblt sum(options());
  mpi::all_reduce_native(sum, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD);
  CHECK(x == sparse::fixed_sum<std::uint32_t>(all));
  CHECK(same_everywhere(x));
  iblt small(options(), {.expected = 50});
  x = mine(all);
  CHECK_THROWS_AS(mpi::all_reduce_native(small, std::span(x), {.seed = 3}, lanes, MPI_COMM_WORLD),
                  incomplete_error);
  CHECK(x == mine(all));
}

TEST_CASE("mpi sparse: errors are the same on all ranks, and x keeps its values") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  std::vector<float> lanes;
  auto const text_of = [&](std::vector<float>& x, draw_key const& key, sparse_sum<> sum) {
    try {
      mpi::all_reduce_sparse(sum, std::span(x), key, lanes, MPI_COMM_WORLD);
    } catch (std::exception const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto x = sparse::values(1000, 0.1, {.seed = static_cast<unsigned>(rank)});
  x[7] = rank == ranks - 1 ? data::nonfinite_specials<float>()[1] : 0;
  auto const before = x;
  CHECK(text_of(x, {.seed = 1}, sparse_sum<>(options())) ==
        "sparse_sum: NaN or infinity on some rank; x is unchanged");
  CHECK(x == before);
  x[7] = 0;
  auto one_more = options();
  ++one_more.ranks;
  CHECK(text_of(x, {.seed = 1}, sparse_sum<>(one_more)) ==
        "all_reduce_sparse: the sum is for " + std::to_string(ranks + 1) +
            " ranks, the communicator has " + std::to_string(ranks));
  if (ranks == 1) return;
  auto const unchanged = x;
  CHECK(text_of(x, {.seed = 1, .step = rank == 0 ? 5u : 6u}, sparse_sum<>(options())) ==
        "all_reduce_sparse: ranks disagree on the step: 5 on one, 6 on another");
  CHECK(text_of(x, {.seed = 1}, sparse_sum<>(options(), {.dense = rank == 0}))
            .starts_with("all_reduce_sparse: ranks disagree on the sum's settings: "));
  CHECK(x == unchanged);
  sparse_sum<float, bloom_index> other(
      options(), {}, {}, bloom_index({.expected = static_cast<std::size_t>(rank) + 1}));
  CHECK_THROWS_AS(mpi::all_reduce_sparse(other, std::span(x), {.seed = 1}, lanes, MPI_COMM_WORLD),
                  disagreement_error);
  CHECK(x == unchanged);
  std::vector<float> shorter(rank == 0 ? 999 : 1000);
  CHECK(text_of(shorter, {.seed = 1}, sparse_sum<>(options())) ==
        "all_reduce_sparse: ranks disagree on the number of values: 999 on one, 1000 on another");
}

namespace {

/// Multiples of 2^-10, whose sums are exact in every unit that the rounds use here.
sparse::vectors whole_numbers(std::size_t n, double density) {
  auto x = everybodys(n, density);
  for (auto& one : x)
    for (float& v : one) v = std::round(v * 1024) / 1024;
  return x;
}

template <class Lane> void check_one_phase(mpi::ranks_agree agreement) {
  lhc_one_phase<Lane> sum(options());
  std::uint64_t step = 0;
  for (double const density : {0.01, 0.011, 0.1, 0.09, 0.0, 1.0, 0.5}) {
    CAPTURE(density);
    auto const all = whole_numbers(50'001, density);
    auto x = mine(all);
    auto const report = mpi::all_reduce_one_phase(sum, std::span(x), {.seed = 3, .step = step},
                                                  MPI_COMM_WORLD, agreement);
    CAPTURE(report.text());
    if (std::is_integral_v<Lane>) CHECK(x == sparse::plain_sum(all));
    CHECK(same_everywhere(x));
    bool const grows = density == 0.01 || density == 0.1 || density == 1.0;
    CHECK((report.afterwards > 0) == grows);
    ++step;
  }
}

}  // namespace

TEST_CASE("mpi sparse: one phase gives the exact sum, and a second phase if the union grows") {
  check_one_phase<std::uint32_t>(mpi::ranks_agree::checked);
  check_one_phase<std::uint64_t>(mpi::ranks_agree::assumed);
  check_one_phase<float>(mpi::ranks_agree::checked);
}

TEST_CASE("mpi sparse: errors of one phase are the same on all ranks, and x keeps its values") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  auto const text_of = [&](std::vector<float>& x, draw_key const& key, lhc_one_phase<>& sum) {
    try {
      mpi::all_reduce_one_phase(sum, std::span(x), key, MPI_COMM_WORLD);
    } catch (std::exception const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto x = sparse::values(1000, 0.1, {.seed = static_cast<unsigned>(rank)});
  auto const before = x;
  lhc_one_phase<> sum(options());
  auto y = x;
  CHECK(text_of(y, {.seed = 1}, sum).empty());
  x[7] = rank == ranks - 1 ? data::nonfinite_specials<float>()[1] : before[7];
  CHECK(text_of(x, {.seed = 1}, sum) ==
        "lhc_one_phase: NaN or infinity on some rank; x is unchanged");
  x[7] = before[7];
  CHECK(x == before);
  auto one_more = options();
  ++one_more.ranks;
  lhc_one_phase<> other(one_more);
  CHECK(text_of(x, {.seed = 1}, other) ==
        "all_reduce_one_phase: the sum is for " + std::to_string(ranks + 1) +
            " ranks, the communicator has " + std::to_string(ranks));
  if (ranks == 1) return;
  CHECK(text_of(x, {.seed = 1, .step = rank == 0 ? 5u : 6u}, sum) ==
        "all_reduce_one_phase: ranks disagree on the step: 5 on one, 6 on another");
  lhc_one_phase<> fresh(options());  // on a rank without the state of the previous round
  CHECK(text_of(x, {.seed = 1}, rank == 0 ? fresh : sum)
            .starts_with("all_reduce_one_phase: ranks disagree on the sum's settings or rounds "
                         "before: "));
  CHECK(x == before);
  std::vector<float> shorter(rank == 0 ? 999 : 1000);
  CHECK(text_of(shorter, {.seed = 1}, sum) ==
        "all_reduce_one_phase: ranks disagree on the number of values: 999 on one, 1000 on "
        "another");
}

TEST_CASE("mpi sparse plan: all-reduce and shards of vectors of 1 % density are exact") {
  mpi::transport transport(MPI_COMM_WORLD);
  sparse::check_plan<float>(transport);
  sparse::check_plan<std::uint32_t>(transport);
}
