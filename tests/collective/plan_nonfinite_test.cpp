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
#include <hcomp/feedback/error_feedback.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float specials[] = {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};

struct result {
  std::vector<outcome> outcomes;
  std::vector<std::vector<float>> x;
};

/// All-reduce by `Sum` of integers on all ranks, with `special` at index `at` of rank 1, under
/// `policy`.
template <class Sum, class C>
result summed(C const& codec, std::size_t values, std::size_t at, float special,
              nonfinite_policy policy, algorithm const& how = {},
              std::size_t decode_on_arrival_bytes = plan_options{}.decode_on_arrival_bytes) {
  result run;
  for (int rank = 0; rank < ranks; ++rank) run.x.push_back(integer_values(values, 1, rank));
  run.x[1][at] = special;
  run.outcomes = outcomes_on(ranks, [&](in_process& transport) {
    host_executor executor;
    Sum(values, codec, transport, executor,
        {.algorithm = how, .nonfinite = policy, .decode_on_arrival_bytes = decode_on_arrival_bytes})
        .all_reduce(std::span(run.x[static_cast<std::size_t>(transport.rank())]), {.seed = 2});
  });
  return run;
}

template <class C> using plan_of = plan<C, in_process, host_executor>;
algorithm const sampled{algorithm_kind::sampled};

bool same_on_all(result const& run) {
  for (auto const& x : run.x)
    if (first_difference(x, run.x[0]) != nowhere) return false;
  return true;
}

/// All ranks threw the same nonfinite_error and kept their x.
void check_thrown(result const& run, std::size_t at, float special, std::string const& where) {
  CAPTURE(to_text(run.outcomes));
  CHECK(all_ended_alike(run.outcomes, "nonfinite_error"));
  CHECK(run.outcomes[0].text.find(where) != std::string::npos);
  for (int rank = 0; rank < ranks; ++rank) {
    auto before = integer_values(run.x[0].size(), 1, rank);
    if (rank == 1) before[at] = special;
    CHECK(first_difference(run.x[static_cast<std::size_t>(rank)], before) == nowhere);
  }
}

}  // namespace

TEST_CASE(
    "nonfinite throw_error: NaN or infinity on one rank throws the same on all, x unchanged") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    builtin_codecs<float>::for_each([&]<class C>() {
      constexpr std::size_t values = 4 * C::block_values + 1;
      std::size_t const block = layout_of(C{}, values, ranks).block_values;
      for (float const special : specials)
        for (std::size_t const early : {plan_options{}.decode_on_arrival_bytes, std::size_t{0}}) {
          CAPTURE(how);
          CAPTURE(std::string(C::name));
          CAPTURE(special);
          CAPTURE(early);
          std::size_t const at = block + 17;
          check_thrown(summed<plan_of<C>>(C{}, values, at, special, nonfinite_policy::throw_error,
                                          algorithm::from(how), early),
                       at, special,
                       "first in block 1 (values " + std::to_string(block) + " to " +
                           std::to_string(2 * block - 1) + ") of " + std::to_string(values) +
                           " values, 1 blocks concerned");
        }
    });
  for (float const special : specials)
    check_thrown(summed<plan_of<sign<>>>(sign<>{}, 40000, 39999, special,
                                         nonfinite_policy::throw_error, sampled),
                 39999, special, "all_reduce: NaN or infinity on some rank");
}

TEST_CASE("nonfinite throw_error: a sum of finite values that overflows throws the same on all") {
  // of one value per rank, or of a value that overflows by thc's rounding
  struct {
    float value;
    reduce_op op;
    bool overflows;
  } const cases[] = {{3e38f, reduce_op::sum, true},
                     {1.2e38f, reduce_op::sum, true},
                     {1e38f, reduce_op::sum, false},
                     {3e38f, reduce_op::mean, false},
                     {-1e37f, reduce_op::sum, false}};
  auto const check = []<class C>(C const& codec, std::string const& how, auto const& one) {
    constexpr std::size_t values = 3 * std::size_t{16384} + 9, at = 16384 + 77;
    for (bool const early : {false, true})
      for (bool const whole : {false, true}) {
        CAPTURE(std::string(C::name));
        CAPTURE(how);
        CAPTURE(one.value);
        CAPTURE(early);
        CAPTURE(whole);
        std::vector<std::vector<float>> x;
        for (int rank = 0; rank < ranks; ++rank) x.push_back(integer_values(values, 1, rank));
        for (auto& mine : x) mine[at] = one.value;
        auto const before = x;
        std::vector<error_feedback<float>> residuals(ranks, error_feedback<float>(values));
        plan_options options{.algorithm = algorithm::from(how)};
        if (early) options.decode_on_arrival_bytes = 0;
        auto const outcomes = outcomes_on(ranks, [&](in_process& transport) {
          host_executor executor;
          auto const me = static_cast<std::size_t>(transport.rank());
          plan sum(values, fit(codec, ranks), transport, executor, options);
          call_options const call{.seed = 2, .op = one.op};
          whole ? sum.all_reduce(std::span(x[me]), residuals[me], call)
                : sum.reduce_scatter(std::span(x[me]), residuals[me], call);
        });
        CAPTURE(to_text(outcomes));
        CHECK(all_ended_alike(outcomes, one.overflows ? "nonfinite_error" : "returned"));
        for (std::size_t r = 0; r < ranks; ++r) {
          std::size_t infinite = 0;
          for (float const v : x[r]) infinite += !std::isfinite(v);
          CHECK(infinite == 0);
          if (one.overflows) CHECK(x[r] == before[r]);
          if (one.overflows)
            CHECK(std::ranges::all_of(residuals[r].residual(), [](float e) { return e == 0; }));
        }
        if (!one.overflows || std::is_same_v<C, identity<>>) continue;
        auto const layout = layout_of(fit(codec, ranks), values, ranks);
        std::size_t const b = at / layout.block_values, first = b * layout.block_values;
        CHECK(outcomes[0].text ==
              (whole ? "all_reduce" : "reduce_scatter") +
                  std::string(": a sum of finite values overflows, first in block ") +
                  std::to_string(b) + " (values " + std::to_string(first) + " to " +
                  std::to_string(first + layout.block_values - 1) + ") of " +
                  std::to_string(values) + " values; x is unchanged");
      }
  };
  for (std::string const how : {"ring", "direct", "aggregator"})
    for (auto const& one : cases) {
      check(thc<>(), how, one);
      if (how == "ring") check(uniform_thc<>(), how, one);
      if (how == "ring" && one.op == reduce_op::sum) check(identity<>(), how, one);
      if (one.op == reduce_op::sum) check(reproducible<>(), how, one);
    }
}

TEST_CASE("nonfinite throw_error: magnitudes that overflow together throw the same on all") {
  for (std::string const how : {"ring", "sampled"})
    for (auto const result : {reduce_op::sum, reduce_op::mean}) {
      CAPTURE(how);
      bool const is_sum = result == reduce_op::sum;
      auto const ended = [&](auto const& codec, nonfinite_policy policy) {
        using V = typename std::remove_cvref_t<decltype(codec)>::value_type;
        auto const outcomes = outcomes_on(ranks, [&](in_process& transport) {
          host_executor executor;
          std::vector<V> x(100, V(1));
          plan sum(100, codec, transport, executor,
                   {.algorithm = algorithm::from(how), .nonfinite = policy});
          sum.all_reduce(std::span(x), {.op = result});
        });
        CHECK(all_ended_alike(outcomes, outcomes[0].what));
        return outcomes[0];
      };
      auto const large = ended(sign<>{2e38f}, nonfinite_policy::throw_error);
      CHECK(large.what == (is_sum ? "nonfinite_error" : "returned"));
      if (is_sum)
        CHECK(large.text ==
              "all_reduce: codec 'sign' has a magnitude of " + detail::error_text({double{2e38f}}) +
                  ", the ranks' weights add up to 3; values of the result of up to " +
                  detail::error_text({3 * double{2e38f}}) + " overflow, the largest is " +
                  detail::error_text({double{std::numeric_limits<float>::max()}}) +
                  "; x is unchanged");
      CHECK(ended(sign<>{1e38f}, nonfinite_policy::throw_error).what == "returned");
      CHECK(ended(sign<>{2e38f}, nonfinite_policy::ignore).what == "returned");
      CHECK(ended(sign<double>{2e38}, nonfinite_policy::throw_error).what == "returned");
      CHECK(ended(sign<float16>{3e4f}, nonfinite_policy::throw_error).what ==
            (is_sum ? "nonfinite_error" : "returned"));
      if (how == "ring")
        CHECK(ended(sign_count<>{2e38f}, nonfinite_policy::throw_error).what ==
              (is_sum ? "nonfinite_error" : "returned"));
    }
}

TEST_CASE(
    "nonfinite throw_error: reduce_scatter throws on all ranks, also where the shard is finite") {
  builtin_codecs<float>::for_each([]<class C>() {
    for (bool const whole : {false, true}) {
      CAPTURE(std::string(C::name));
      CAPTURE(whole);
      constexpr std::size_t block = C::block_values, values = 4 * block;
      std::vector<std::vector<float>> x(ranks, std::vector<float>(values, 1.f));
      x[1][block] = infinity;
      x[2][values - 1] = infinity;
      auto const before = x;
      auto const outcomes = outcomes_on(ranks, [&](in_process& transport) {
        host_executor executor;
        plan sum(values, C{}, transport, executor, {.checksum = true});
        auto const mine = std::span(x[static_cast<std::size_t>(transport.rank())]);
        whole ? sum.all_reduce(mine) : sum.reduce_scatter(mine);
      });
      CAPTURE(to_text(outcomes));
      CHECK(all_ended_alike(outcomes, "nonfinite_error"));
      CHECK(outcomes[0].text.find("first in block 1 ") != std::string::npos);
      CHECK(outcomes[0].text.find(" 2 blocks concerned") != std::string::npos);
      CHECK(x == before);
    }
  });
}

TEST_CASE(
    "nonfinite propagate: codecs that propagate NaN and infinity add them as plain addition does") {
  auto const check = []<class C>(C const& codec) {
    for (float const special : specials) {
      CAPTURE(std::string(C::name));
      CAPTURE(special);
      auto const run = summed<plan_of<C>>(codec, 9000, 5000, special, nonfinite_policy::propagate);
      auto const plain = summed<plan_of<C>>(codec, 9000, 5000, 0, nonfinite_policy::propagate);
      CHECK(all_ended_alike(run.outcomes, "returned"));
      CHECK(same_on_all(run));
      if (std::isnan(special))
        CHECK(std::isnan(run.x[0][5000]));
      else
        CHECK(run.x[0][5000] == special);
      auto others = run.x[0];
      others[5000] = plain.x[0][5000];
      CHECK(first_difference(others, plain.x[0]) == nowhere);
    }
  };
  check(identity<>{});
  check(float_cast<float16>{});
  check(float_cast<bfloat16>{});
}

TEST_CASE("nonfinite propagate: with other codecs the affected block is NaN, and only that block") {
  auto const check = []<class C>(C const& codec) {
    constexpr std::size_t values = 3 * C::block_values + 5;
    std::size_t const block = layout_of(codec, values, ranks).block_values, at = block + 3;
    for (float const special : specials) {
      CAPTURE(std::string(C::name));
      CAPTURE(special);
      auto const run = summed<plan_of<C>>(codec, values, at, special, nonfinite_policy::propagate);
      auto const plain = summed<plan_of<C>>(codec, values, at, 0, nonfinite_policy::propagate);
      CHECK(all_ended_alike(run.outcomes, "returned"));
      CHECK(same_on_all(run));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values; ++i)
        wrong += i / block == 1 ? !std::isnan(run.x[0][i]) : run.x[0][i] != plain.x[0][i];
      CHECK(wrong == 0);
    }
  };
  check(sign<>{});
  check(sign_count<>{});
}

TEST_CASE("nonfinite propagate: algorithm sampled makes the whole result NaN") {
  for (float const special : specials) {
    auto const run =
        summed<plan_of<sign<>>>(sign<>{}, 40000, 3, special, nonfinite_policy::propagate, sampled);
    CHECK(all_ended_alike(run.outcomes, "returned"));
    for (auto const& x : run.x)
      for (float const value : x) REQUIRE(std::isnan(value));
  }
}

TEST_CASE("nonfinite ignore: NaN and -infinity count as negative, infinity as positive") {
  auto const check = [](auto const& votes_of) {
    for (float const special : specials) {
      CAPTURE(special);
      float const stand_in = special > 0 ? 1.f : -1.f;
      result const run = votes_of(special), plain = votes_of(stand_in);
      CHECK(all_ended_alike(run.outcomes, "returned"));
      CHECK(same_on_all(run));
      CHECK(first_difference(run.x[0], plain.x[0]) == nowhere);
    }
  };
  auto const ignore = nonfinite_policy::ignore;
  check([&](float special) {
    return summed<plan_of<sign<>>>(sign<>{}, 40000, 39000, special, ignore);
  });
  check([&](float special) {
    return summed<plan_of<sign_count<>>>(sign_count<>{}, 9000, 8999, special, ignore);
  });
  check([&](float special) {
    return summed<plan_of<sign<>>>(sign<>{}, 40000, 77, special, ignore, sampled);
  });
}

TEST_CASE("nonfinite: a partial sum that overflows fp16 is detected though every input is finite") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"}) {
    CAPTURE(how);
    std::vector<std::vector<float>> x(4, std::vector<float>(10000, 1.f));
    for (auto& of_rank : x) of_rank[9000] = 20000.f;  // 4 x 20000 > 65504
    auto const before = x;
    auto const outcomes = outcomes_on(4, [&](in_process& transport) {
      host_executor executor;
      all_reduce(std::span(x[static_cast<std::size_t>(transport.rank())]), float_cast<float16>{},
                 transport, executor, {}, {.algorithm = algorithm::from(how)});
    });
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "nonfinite_error"));
    CHECK(outcomes[0].text.find("block 3") != std::string::npos);
    CHECK(x == before);
  }
}

TEST_CASE("nonfinite: error feedback keeps every bit of its residual when the call throws") {
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    constexpr std::size_t values = 2 * C::block_values + 1;
    std::vector<std::vector<float>> before(ranks), after(ranks), later(ranks), alone(ranks);
    auto const run = [&](bool with_nan, std::vector<std::vector<float>>& residuals) {
      return outcomes_on(ranks, [&](in_process& transport) {
        auto const rank = static_cast<std::size_t>(transport.rank());
        host_executor executor;
        plan sum(values, C{}, transport, executor);
        error_feedback<float> feedback(values);
        auto const step = [&](std::uint64_t number, bool broken) {
          auto x = uniform_values(values, number, transport.rank());
          if (broken && rank == 2) x[values / 2] = infinity;
          return outcome_of([&] { sum.all_reduce(std::span(x), feedback, {.step = number}); });
        };
        auto const residual = [&] {
          return std::vector<float>(feedback.residual().begin(), feedback.residual().end());
        };
        for (std::uint64_t number = 0; number < 3; ++number) step(number, false);
        if (with_nan) {
          before[rank] = residual();
          if (step(3, true).what != "nonfinite_error") throw std::runtime_error("did not throw");
          after[rank] = residual();
        }
        step(4, false);
        residuals[rank] = residual();
      });
    };
    CHECK(all_ended_alike(run(true, later), "returned"));
    CHECK(all_ended_alike(run(false, alone), "returned"));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CHECK(first_difference(before[rank], after[rank]) == nowhere);
      CHECK(first_difference(later[rank], alone[rank]) == nowhere);
    }
  });
}
