/// @file
/// What plans of error_bounded promise for doubles: no answer is further off than the bound, by
/// every algorithm, and no further than the report says.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/merging_algorithms.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <string>
#include <support/exact_sum.hpp>
#include <support/few_cases.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using doubles = std::vector<double>;
using vectors = std::vector<doubles>;

/// Around `center`, of up to 2^highest more, fewer of each power of two.
vectors around(double center, int highest, int ranks, std::size_t n, std::uint64_t seed) {
  vectors x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    for (auto& value : x.emplace_back(n)) {
      value = center + std::ldexp(numbers.uniform(), numbers.integer(highest - 40, highest));
      if (numbers.integer(0, 9) == 0) value = 0;
    }
  }
  return x;
}
/// How far the answer is off at most.
double largest_error(vectors const& x, doubles const& answer, double parts = 1) {
  double most = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    exact_sum sum;
    for (auto const& mine : x) sum.add(mine[i]);
    for (int k = 0; k < static_cast<int>(parts); ++k) sum.add(-answer[i]);
    most = std::max(most, std::fabs(sum.nearest<double>()) / parts);
  }
  return most;
}

}  // namespace

TEST_CASE("error bound of doubles: it holds at any scale, by every algorithm, on all ranks alike") {
  struct {
    double center;
    int highest;
    double bound;
  } const cases[] = {{0, 0, 1e-6}, {300, 4, 1e-4}, {0, 20, 1e-9}, {1e9, 60, 3e8}, {0, -60, 1e-25}};
  for (int const ranks : few_cases ? std::vector{1, 6} : std::vector{1, 2, 3, 6})
    for (auto const& options : merging_algorithms(ranks))
      for (auto const& one : cases) {
        CAPTURE(ranks);
        CAPTURE(options.algorithm.name());
        CAPTURE(one.bound);
        auto const x = around(one.center, one.highest, ranks, 5000, 1);
        doubles said(x.size());
        auto const found = on_ranks(x, [&](in_process& transport, doubles& mine) {
          host_executor executor;
          plan sum(mine.size(), error_bounded<double>({.bound = one.bound}), transport, executor,
                   options);
          said[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine).error;
        });
        for (auto const& answer : found) CHECK(answer == found[0]);
        for (double const error : said) CHECK(error == said[0]);
        double const off = largest_error(x, found[0]);
        CHECK(off <= one.bound);
        CHECK(off <= said[0]);
        CHECK(said[0] <= one.bound);
        if (ranks > 1) CHECK(off > 0);
      }
}

TEST_CASE("error bound of doubles: means, and single steps of a sum") {
  for (int const ranks : {2, 5})
    for (auto const& options : merging_algorithms(ranks)) {
      CAPTURE(ranks);
      CAPTURE(options.algorithm.name());
      auto const x = around(100, 2, ranks, 3000, 2);
      doubles of_mean(x.size()), of_parts(x.size());
      on_ranks(x, [&](in_process& transport, doubles& mine) {
        host_executor executor;
        auto const rank = static_cast<std::size_t>(transport.rank());
        plan sum(mine.size(), error_bounded<double>({.bound = 1e-4}), transport, executor, options);
        auto const mean = sum.all_reduce(mine, {.op = reduce_op::mean});
        of_mean[rank] = largest_error(x, mine, ranks) - mean.error;
        mine = x[rank];
        auto const scattered = sum.reduce_scatter(mine);
        auto const shard = sum.shard();
        vectors parts;
        for (auto const& one : x)
          parts.emplace_back(one.begin() + static_cast<std::ptrdiff_t>(shard.first),
                             one.begin() + static_cast<std::ptrdiff_t>(shard.first + shard.count));
        doubles const mine_alone(
            mine.begin() + static_cast<std::ptrdiff_t>(shard.first),
            mine.begin() + static_cast<std::ptrdiff_t>(shard.first + shard.count));
        of_parts[rank] = largest_error(parts, mine_alone) - scattered.error;
        sum.all_gather(mine);
      });
      for (double const one : of_mean) CHECK(one <= 0);
      for (double const one : of_parts) CHECK(one <= 0);
    }
}

TEST_CASE("error bound of doubles: NaN and infinity are refused on all ranks, or pass") {
  for (bool const pass : {false, true}) {
    auto const ended = outcomes_on(3, [&](in_process& transport) {
      host_executor executor;
      plan sum(1000, error_bounded<double>({.bound = 1e-4}), transport, executor,
               {.nonfinite = pass ? nonfinite_policy::propagate : nonfinite_policy::throw_error});
      doubles x(1000, 1.0);
      if (transport.rank() == 1) x[500] = std::numeric_limits<double>::infinity();
      sum.all_reduce(x);
      CHECK_FALSE(std::isfinite(x[500]));
      CHECK(std::fabs(x[499] - 3) <= 1e-4);
    });
    for (auto const& one : ended) CHECK(one.what == (pass ? "returned" : "nonfinite_error"));
  }
}

TEST_CASE("error bound of doubles: by name") {
  auto const x = around(0, 10, 3, 2000, 3);
  auto const found = on_ranks(x, [&](in_process& transport, doubles& mine) {
    host_executor executor;
    auto sum = make_plan<double>("error_bounded:1e-3", mine.size(), transport, executor);
    CHECK(sum.all_reduce(mine).bytes_sent < 2000 * 8);
  });
  CHECK(largest_error(x, found[0]) <= 1e-3);
}
