/// @file
/// Plans of lossless_integers: sums that wrap around, by every algorithm and by name; no means.

#include <doctest/doctest.h>

#include <collective/endings.hpp>
#include <collective/merging_algorithms.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <stdexcept>
#include <support/integers.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

TEST_CASE_TEMPLATE("lossless_integers: plans sum as MPI does, by every algorithm", T, std::int32_t,
                   std::uint64_t) {
  for (int const ranks : {1, 2, 4, 5})
    for (auto const& options : merging_algorithms(ranks))
      for (std::size_t const n : {0, 1, 5000}) {
        CAPTURE(ranks);
        CAPTURE(options.algorithm.name());
        CAPTURE(n);
        std::vector<std::vector<T>> x;
        std::vector<T> expected(n);
        for (int r = 0; r < ranks; ++r) {  // extremes overflow
          x.push_back(integers_of_kind<T>(3, n, static_cast<std::uint64_t>(r)));
          expected = wrapped_sum(expected, x.back());
        }
        auto const found = on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
          host_executor executor;
          plan sum(mine.size(), lossless_integers<T>(), transport, executor, options);
          sum.all_reduce(mine);
        });
        for (auto const& answer : found) CHECK(answer == expected);
      }
}

TEST_CASE("lossless_integers: by name; unsigned integers have the same bits; no means") {
  auto const ended = outcomes_on(3, [&](in_process& transport) {
    host_executor executor;
    auto sum = make_plan<std::int64_t>("lossless_integers", 1000, transport, executor);
    std::vector<std::uint64_t> x(1000, ~std::uint64_t{0} / 2);
    sum.all_reduce({reinterpret_cast<std::int64_t*>(x.data()), x.size()});
    CHECK(x == std::vector<std::uint64_t>(1000, ~std::uint64_t{0} / 2 * 3));
    sum.all_gather({reinterpret_cast<std::int64_t*>(x.data()), x.size()}, {.op = reduce_op::mean});
    CHECK_THROWS_WITH_AS(
        sum.all_reduce({reinterpret_cast<std::int64_t*>(x.data()), x.size()},
                       {.op = reduce_op::mean}),
        "all_reduce: codec 'lossless_integers' sums integers, and integers have no mean",
        std::invalid_argument);
    CHECK_THROWS_WITH_AS(make_plan<std::int32_t>("thc", 1, transport, executor),
                         "no codec is called 'thc'; hcomp has: lossless_integers",
                         std::invalid_argument);
  });
  for (auto const& one : ended) CHECK(one.what == "returned");
}

TEST_CASE_TEMPLATE("lossless_integers: few bits travel where values differ in few", T, std::int32_t,
                   std::int64_t) {
  std::size_t const n = 100'000;
  std::vector<std::vector<T>> x;
  for (std::uint64_t r = 0; r < 4; ++r) x.push_back(integers_of_kind<T>(0, n, r));
  std::vector<std::uint64_t> sent(4);
  on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
    host_executor executor;
    plan sum(mine.size(), lossless_integers<T>(), transport, executor);
    sent[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine).bytes_sent;
  });
  // 3 parts of 7, 8 and 9 bits, and then 3 of 9; 2 % for bytes of blocks and messages
  for (auto const bytes : sent)
    CHECK(static_cast<double>(bytes) <
          1.02 * (7 + 8 + 9 + 3 * 9) / 8. * static_cast<double>(n) / 4);
}
