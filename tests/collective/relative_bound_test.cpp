/// @file
/// Bounds relative to the largest value: plans agree on that value in every call, and then give the
/// result of the absolute bound.

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
#include <stdexcept>
#include <string>
#include <support/exact_sum.hpp>
#include <support/few_cases.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class T> using vectors_of = std::vector<std::vector<T>>;

/// Values of either sign, over 40 powers of two up to `size`.
template <class T>
vectors_of<T> values_up_to(double size, int ranks, std::size_t n, std::uint64_t seed) {
  vectors_of<T> x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    for (auto& value : x.emplace_back(n)) {
      double const one = std::ldexp(size * numbers.uniform(), -numbers.integer(0, 40));
      value = static_cast<T>(numbers.integer(0, 1) == 0 ? one : -one);
    }
  }
  return x;
}
template <class T> double largest_in(vectors_of<T> const& x) {
  double most = 0;
  for (auto const& mine : x)
    for (T const value : mine)
      if (std::isfinite(value)) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

/// The values of rank 0, which are equal on all ranks.
template <class T> struct result_of {
  std::vector<T> answer;
  report told;
};
template <class T>
result_of<T> sum_by(error_bounded<T> const& codec, vectors_of<T> const& x, plan_options const& how,
                    reduce_op result = reduce_op::sum) {
  std::vector<report> told(x.size());
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
    host_executor executor;
    plan sum(mine.size(), codec, transport, executor, how);
    told[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine, {.op = result});
  });
  for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
  for (auto const& one : told) {
    CHECK(one.bound == told[0].bound);
    CHECK(one.error == told[0].error);
  }
  return {found[0], told[0]};
}

}  // namespace

TEST_CASE_TEMPLATE("relative bound: the result is that of the equivalent absolute bound", T, float,
                   double) {
  constexpr bool is_float = std::is_same_v<T, float>;
  struct {
    double size, share;
  } const cases[] = {{1, 1e-2},
                     {3e4, 1e-5},
                     {is_float ? 1e-20 : 1e-200, 1e-6},  // for floats: more bits than integers have
                     {is_float ? 1e20 : 1e200, is_float ? 1e-8 : 1e-13}};
  for (int const ranks : few_cases ? std::vector{3} : std::vector{1, 2, 3, 6})
    for (auto const& how : merging_algorithms(ranks))
      for (auto const& one : cases) {
        CAPTURE(ranks);
        CAPTURE(how.algorithm.name());
        CAPTURE(one.size);
        auto const x = values_up_to<T>(one.size, ranks, 3000, 1);
        double const bound = one.share * largest_in(x);
        auto const found = sum_by(error_bounded<T>({.bound = one.share, .relative = true}), x, how);
        CHECK(found.told.bound <= bound);
        CHECK(found.told.bound >= bound * (1 - 0x1p-19));  // of doubles 20 bits are measured
        auto const same = sum_by(error_bounded<T>({.bound = found.told.bound}), x, how);
        CHECK(first_difference(found.answer, same.answer) == nowhere);
        CHECK(found.told.error == same.told.error);
        std::size_t beyond = 0;
        for (std::size_t i = 0; i < found.answer.size(); ++i) {
          exact_sum exact;
          for (auto const& mine : x) exact.add(static_cast<double>(mine[i]));
          double const off = exact.distance(static_cast<double>(found.answer[i])),
                       rounding = std::numeric_limits<T>::epsilon() *
                                  std::fabs(static_cast<double>(found.answer[i]));
          beyond += off > std::max(bound, rounding);
        }
        CHECK(beyond == 0);
      }
}

TEST_CASE_TEMPLATE("relative bound: relates to the largest value of each call, on any rank", T,
                   float, double) {
  error_bounded<T> const codec({.bound = 1e-4, .relative = true});
  int const ranks = 3;
  auto small = values_up_to<T>(1, ranks, 1000, 2);
  run_ranks(ranks, [&](in_process& transport) {
    host_executor executor;
    plan sum(1000, codec, transport, executor);
    auto const rank = static_cast<std::size_t>(transport.rank());
    for (T const largest : {T(1000), T(1), T(0x1p40), T(3)}) {
      auto mine = small[rank];
      if (rank == 1) mine[500] = -largest;
      auto const told = sum.all_reduce(mine);
      CHECK(told.bound == doctest::Approx(1e-4 * static_cast<double>(largest)).epsilon(1e-5));
      CHECK(std::fabs(static_cast<double>(mine[500]) + static_cast<double>(largest)) <=
            2 + told.bound);
    }
    // means: relative to the bound of the sum
    auto mine = small[rank];
    double const of_mean = sum.all_reduce(mine, {.op = reduce_op::mean}).bound;
    CHECK(of_mean == doctest::Approx(1e-4 * largest_in(small) / ranks).epsilon(1e-5));
    // only zeros, and values too small for a bound relative to them
    std::vector<T> none(1000);
    sum.all_reduce(none);
    for (T const value : none) CHECK(value == 0);
    std::vector<T> least(1000, std::numeric_limits<T>::denorm_min());
    auto const told = sum.all_reduce(least);
    CHECK(told.bound == ranks * (std::is_same_v<T, float> ? 0x1p-100 : 0x1p-900));
  });
}

TEST_CASE_TEMPLATE("relative bound: NaN and infinity do not count as the largest value", T, float,
                   double) {
  auto x = values_up_to<T>(1, 3, 2000, 3);
  double const bound = 1e-3 * largest_in(x);
  x[1][700] = std::numeric_limits<T>::infinity();
  x[2][701] = std::numeric_limits<T>::quiet_NaN();
  auto const found = sum_by(error_bounded<T>({.bound = 1e-3, .relative = true}), x,
                            {.nonfinite = nonfinite_policy::propagate});
  CHECK(found.told.bound == doctest::Approx(bound).epsilon(1e-5));
  CHECK(found.answer[700] == std::numeric_limits<T>::infinity());
  CHECK(std::isnan(found.answer[701]));
}

TEST_CASE_TEMPLATE("relative bound: encoded vectors come from a fitted codec", T, float, double) {
  error_bounded<T> const codec({.bound = 0.25, .ranks = 4, .relative = true});
  std::vector<T> const x{1, -8, 2};
  std::vector<std::byte> out(codec.capacity(3));
  std::string const wanted =
      "error_bounded: bound 0.25 of the largest value, ranks 4, magnitude bits 18; encode with "
      "`fitted(largest, ranks)`, where `largest` is the maximum of `measure(x)` over all ranks";
  CHECK_THROWS_WITH_AS(codec.encode(x, out), wanted.c_str(), std::invalid_argument);
  auto const fitted = codec.fitted(codec.measure(x), 2);
  CHECK(fitted.options() == error_bounded_options{.bound = 2, .ranks = 2});
  out.resize(fitted.encode(x, out));
  CHECK_THROWS_AS(codec.check(out, 3), wire_error);
  // a value that no rank can have measured
  for (std::uint32_t const largest : {0x7fffffffu, 0xffffffffu, 0x80000000u})
    CHECK(codec.fitted(largest, 2).bound() <= 0x1p-90);
}

TEST_CASE("relative bound: ranks that disagree on the bound are all refused") {
  auto const ended = outcomes_on(2, [](in_process& transport) {
    host_executor executor;
    plan sum(100, error_bounded({.bound = 1e-3, .relative = transport.rank() == 1}), transport,
             executor);
    std::vector<float> x(100, 1.0f);
    sum.all_reduce(x);
  });
  for (auto const& one : ended) CHECK(one.what == "disagreement_error");
}

TEST_CASE("relative bound: by name") {
  auto const text_of = [](std::string const& name) {
    return outcome_of([&] { codec_from(registered_codecs<float>(), name); }).text;
  };
  CHECK(codec_from(registered_codecs<float>(), "error_bounded:rel=1e-4").text() ==
        "error_bounded:rel=1e-04");
  CHECK(text_of("error_bounded:1e-3,rel=1e-4") ==
        "codec 'error_bounded:1e-3,rel=1e-4': it takes bound or rel, not both");
  CHECK(text_of("error_bounded:rel=2")
            .starts_with("codec 'error_bounded:rel=2': 'rel=2': rel is a number from "));
  CHECK(text_of("error_bounded")
            .ends_with("; or rel, bound as a share of the largest value: "
                       "a number from 8.67e-19 to 1"));
  auto const x = values_up_to<double>(7, 3, 2000, 4);
  on_ranks(x, [&](in_process& transport, std::vector<double>& mine) {
    host_executor executor;
    auto sum = make_plan<double>("error_bounded:rel=1e-4", mine.size(), transport, executor);
    CHECK(sum.all_reduce(mine).bound == doctest::Approx(1e-4 * largest_in(x)).epsilon(1e-5));
  });
}
