// optimise: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class V>
std::vector<std::vector<V>> integers(std::size_t values, int ranks, std::uint64_t seed) {
  std::vector<std::vector<V>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(integer_values<V>(values, seed, rank));
  return x;
}

/// Calls `body` on a plan of every rank. Returns x and every rank's shard.
template <class C, class F>
auto with_plans(C const& codec, std::vector<std::vector<float>> const& x, algorithm const& how,
                std::vector<value_range>& shard, F const& body) {
  shard.resize(x.size());
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan sum(mine.size(), codec, transport, executor, {.algorithm = how});
    shard[static_cast<std::size_t>(transport.rank())] = sum.shard();
    body(sum, std::span(mine));
  });
}

}  // namespace

TEST_CASE("reduce_scatter: shards partition the vector, hold all_reduce's bits, rest unchanged") {
  for (int const ranks : few_cases ? std::vector{3, 6} : std::vector{1, 2, 3, 4, 6, 8})
    for (std::string const name : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
      builtin_codecs<float>::for_each([&]<class C>() {
        constexpr std::size_t block = C::block_values;
        for (std::size_t const values : {std::size_t{0}, std::size_t{1}, block + 1,
                                         static_cast<std::size_t>(ranks) * block + 7}) {
          if (values > 8 * block && ranks % 4 != 0) continue;  // to save time
          CAPTURE(ranks);
          CAPTURE(name);
          CAPTURE(std::string(C::name));
          CAPTURE(values);
          auto const how = algorithm::from(name);
          auto const x = integers<float>(values, ranks, 1);
          std::vector<value_range> shard;
          auto const whole = with_plans(
              C{}, x, how, shard, [](auto& sum, auto mine) { sum.all_reduce(mine, {.seed = 2}); });
          auto const parts = with_plans(C{}, x, how, shard, [](auto& sum, auto mine) {
            sum.reduce_scatter(mine, {.seed = 2});
          });
          std::vector<int> owners(values, 0);
          std::size_t wrong = 0;
          for (std::size_t rank = 0; rank < x.size(); ++rank) {
            auto const end = shard[rank].first + shard[rank].count;
            REQUIRE(end <= values);
            auto expected = x[rank];
            for (std::size_t i = shard[rank].first; i < end; ++i) {
              ++owners[i];
              expected[i] = whole[rank][i];
            }
            wrong += first_difference(parts[rank], expected) != nowhere;
          }
          CHECK(wrong == 0);
          CHECK(owners == std::vector<int>(values, 1));
        }
      });
}

TEST_CASE("reduce_scatter then all_gather with identity equals all_reduce bit for bit") {
  for (int const ranks : up_to_8_ranks())
    for (std::string const name : {"ring", "torus", "direct", "recursive_doubling", "aggregator"}) {
      CAPTURE(ranks);
      CAPTURE(name);
      auto const x = [&] {
        std::vector<std::vector<float>> all;
        for (int rank = 0; rank < ranks; ++rank) all.push_back(uniform_values(33333, 3, rank));
        return all;
      }();
      std::vector<value_range> shard;
      auto const how = algorithm::from(name);
      auto const whole = with_plans(identity<>{}, x, how, shard, [](auto& sum, auto mine) {
        sum.all_reduce(mine, {.step = 1});
      });
      auto const parts = with_plans(identity<>{}, x, how, shard, [](auto& sum, auto mine) {
        sum.reduce_scatter(mine, {.step = 1});
        sum.all_gather(mine, {.step = 2});
      });
      for (std::size_t rank = 0; rank < x.size(); ++rank)
        CHECK(first_difference(parts[rank], whole[rank]) == nowhere);
    }
}

TEST_CASE("all_gather: all ranks hold every owner's values after one encoding, the owner too") {
  // one rank alone shows the result of encoding a value
  builtin_codecs<float>::for_each([]<class C>() {
    for (int const ranks : few_cases ? std::vector{6} : std::vector{1, 3, 6})
      for (std::string const name :
           {"ring", "torus", "direct", "recursive_doubling", "aggregator"}) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        std::size_t const values = 7 * C::block_values + 9;
        std::vector<std::vector<float>> x;
        for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(values, 4, rank));
        std::vector<value_range> shard, all;
        auto const gathered = with_plans(C{}, x, algorithm::from(name), shard,
                                         [](auto& sum, auto mine) { sum.all_gather(mine); });
        if constexpr (Calibrated<C>) {  // each rank rounds with its own random numbers
          for (auto const& one : gathered) CHECK(first_difference(one, gathered[0]) == nowhere);
          double lost = 0, energy = 0;
          for (std::size_t rank = 0; rank < x.size(); ++rank)
            for (std::size_t i = 0; i < shard[rank].count; ++i) {
              double const value = x[rank][shard[rank].first + i];
              lost += std::pow(value - gathered[0][shard[rank].first + i], 2);
              energy += value * value;
            }
          CHECK(lost < 0.025 * energy);  // V + B is 0.0184 or 0.0202
          continue;
        }
        std::vector<float> chosen(values);
        for (std::size_t rank = 0; rank < x.size(); ++rank)
          std::copy_n(x[rank].begin() + static_cast<std::ptrdiff_t>(shard[rank].first),
                      shard[rank].count,
                      chosen.begin() + static_cast<std::ptrdiff_t>(shard[rank].first));
        auto const expected = with_plans(C{}, {chosen}, {}, all,
                                         [](auto& sum, auto mine) { sum.all_reduce(mine); })[0];
        for (auto const& one : gathered) CHECK(first_difference(one, expected) == nowhere);
      }
  });
}

TEST_CASE(
    "reduce_scatter and all_gather: the reports add up to that of all_reduce, except for checks") {
  std::vector<report> whole(4), sums(4), parts(4);
  on_ranks(integers<float>(400000, 4, 5), [&](in_process& transport, auto& mine) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    plan sum(mine.size(), identity<>{}, transport, executor);
    whole[rank] = sum.all_reduce(std::span(mine));
    sums[rank] = parts[rank] = sum.reduce_scatter(std::span(mine));
    parts[rank] += sum.all_gather(std::span(mine));
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(sums[rank].weight == 4);
    CHECK(parts[rank].hops == whole[rank].hops);
    CHECK(parts[rank].bytes_sent >= whole[rank].bytes_sent);
    CHECK(parts[rank].bytes_sent < whole[rank].bytes_sent + 2000);
    CHECK(parts[rank].seconds() >= sums[rank].seconds());
  }
}
