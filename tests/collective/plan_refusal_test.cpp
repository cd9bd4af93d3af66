#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 4;
constexpr int odd_one = 2;  // the rank with different arguments

/// Outcome of one rank, and whether its x kept every bit.
struct refusal {
  std::vector<outcome> outcomes;
  bool unchanged = true;
};

/// Runs `call(transport, executor, x)` on all ranks with random x.
template <class F> refusal refused(F const& call, std::size_t values = 1000) {
  auto x = uniform_vectors(ranks, values, 1);
  auto const before = x;
  refusal result;
  result.outcomes = outcomes_on(ranks, [&](in_process& transport) {
    host_executor executor;
    call(transport, executor, std::span(x[static_cast<std::size_t>(transport.rank())]));
  });
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    result.unchanged &= first_difference(x[rank], before[rank]) == nowhere;
  return result;
}

/// All ranks threw `what` with `text`, and x is unchanged.
void check_refused(refusal const& result, std::string const& what, std::string const& text) {
  CAPTURE(to_text(result.outcomes));
  CHECK(all_ended_alike(result.outcomes, what));
  CHECK(result.outcomes[0].text == text);
  CHECK(result.unchanged);
}

/// The argument in which one rank differs, and the expected text.
struct difference {
  std::function<void(plan_options&, call_options&)> make;
  std::string text;
};

std::vector<difference> differences() {
  return {
      {[](auto& plan, auto&) { plan.algorithm = algorithm::from("torus:2x2"); },
       "the algorithm: rank 0 has ring, rank 2 has torus:2x2"},
      {[](auto& plan, auto&) { plan.algorithm = algorithm::from("direct"); },
       "the algorithm: rank 0 has ring, rank 2 has direct"},
      {[](auto&, auto& call) { call.seed = 7; }, "the seed: rank 0 has 0, rank 2 has 7"},
      {[](auto&, auto& call) { call.step = 11; }, "the step: rank 0 has 0, rank 2 has 11"},
      {[](auto&, auto& call) { call.tensor = 3; }, "the tensor: rank 0 has 0, rank 2 has 3"},
      {[](auto&, auto& call) { call.op = reduce_op::mean; },
       "the op (0 sum, 1 mean): rank 0 has 0, rank 2 has 1"},
      {[](auto& plan, auto&) { plan.nonfinite = nonfinite_policy::ignore; },
       "the nonfinite policy (0 throw_error, 1 propagate, 2 ignore): rank 0 has 0, rank 2 has 2"},
      {[](auto& plan, auto&) { plan.checksum = true; },
       "the checksum (0 off, 1 on): rank 0 has 0, rank 2 has 1"},
      {[](auto& plan, auto&) { plan.narrow = false; },
       "narrow (0 off, 1 on): rank 0 has 1, rank 2 has 0"},
      {[](auto& plan, auto&) { plan.segment_bytes = 4096; },
       "segment_bytes (device_segment_bytes if x is in device memory): rank 0 has 262144, rank 2 "
       "has 4096"},
      {[](auto& plan, auto&) { plan.decode_on_arrival_bytes = 1; },
       "decode_on_arrival_bytes: rank 0 has 4194304, rank 2 has 1"},
  };
}

bool is_odd(in_process const& transport) { return transport.rank() == odd_one; }

}  // namespace

TEST_CASE(
    "plan: one rank with other options or another call is refused on all, in the same words") {
  for (auto const& one : differences()) {
    CAPTURE(one.text);
    check_refused(refused([&](in_process& transport, host_executor& executor, auto x) {
                    plan_options options;
                    call_options call;
                    if (is_odd(transport)) one.make(options, call);
                    all_reduce(x, sign<>{}, transport, executor, call, options);
                  }),
                  "disagreement_error", "all_reduce: ranks disagree on " + one.text);
  }
}

TEST_CASE(
    "plan: reduce_scatter, all_gather and algorithm sampled refuse the same, by their names") {
  for (auto const& one : differences()) {
    CAPTURE(one.text);
    auto const options_of = [&](in_process const& transport, plan_options& options,
                                call_options& call) {
      if (is_odd(transport)) one.make(options, call);
    };
    check_refused(refused([&](in_process& transport, host_executor& executor, auto x) {
                    plan_options options;
                    call_options call;
                    options_of(transport, options, call);
                    plan(x.size(), sign<>{}, transport, executor, options).reduce_scatter(x, call);
                  }),
                  "disagreement_error", "reduce_scatter: ranks disagree on " + one.text);
    check_refused(refused([&](in_process& transport, host_executor& executor, auto x) {
                    plan_options options;
                    call_options call;
                    options_of(transport, options, call);
                    plan(x.size(), sign<>{}, transport, executor, options).all_gather(x, call);
                  }),
                  "disagreement_error", "all_gather: ranks disagree on " + one.text);
    auto by_sampling = one.text;
    if (auto const at = by_sampling.find("rank 0 has ring"); at != std::string::npos)
      by_sampling.replace(at, 15, "rank 0 has sampled");
    check_refused(refused([&](in_process& transport, host_executor& executor, auto x) {
                    plan_options options;
                    call_options call;
                    options.algorithm = {algorithm_kind::sampled};
                    options_of(transport, options, call);
                    plan(x.size(), sign<>{}, transport, executor, options).all_reduce(x, call);
                  }),
                  "disagreement_error", "all_reduce: ranks disagree on " + by_sampling);
  }
}

TEST_CASE("plan: ranks with different sizes, codecs, value types or parameters are all refused") {
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  auto const mine = is_odd(transport) ? x.first(999) : x;
                  all_reduce(mine, sign<>{}, transport, executor);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the number of values: rank 0 has 1000, rank 2 has "
                "999");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  if (is_odd(transport))
                    all_reduce(x, sign_count<>{}, transport, executor);
                  else
                    all_reduce(x, sign<>{}, transport, executor);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the codec (its id): rank 0 has 16, rank 2 has 17");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  std::vector<double> other(x.begin(), x.end());
                  if (is_odd(transport))
                    all_reduce(std::span(other), sign<double>{}, transport, executor);
                  else
                    all_reduce(x, sign<>{}, transport, executor);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the bytes of a value: rank 0 has 4, rank 2 has 8");
  check_refused(
      refused([](in_process& transport, host_executor& executor, auto x) {
        all_reduce(x, sign_count<>{1.f, is_odd(transport) ? 5u : 4u}, transport, executor);
      }),
      "disagreement_error",
      "all_reduce: ranks disagree on parameter 2 of the codec: rank 0 has 4, rank 2 has "
      "5");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  all_reduce(x, sign<>{is_odd(transport) ? 0x1p-21f : 0x1p-20f}, transport,
                             executor);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on parameter 1 of the codec: rank 0 has "
                "9.5367431640625e-07, rank 2 has 4.76837158203125e-07");
}

TEST_CASE("plan: ranks that call different collectives are all refused instead of waiting") {
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor);
                  if (is_odd(transport))
                    sum.reduce_scatter(x);
                  else
                    sum.all_reduce(x);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the collective: rank 0 has all_reduce, rank 2 has "
                "reduce_scatter");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor);
                  plan select(x.size(), sign<>{}, transport, executor,
                              {.algorithm = {algorithm_kind::sampled}});
                  if (is_odd(transport))
                    sum.all_gather(x);
                  else
                    select.all_reduce(x);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the collective: rank 0 has all_reduce, rank 2 has "
                "all_gather");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor,
                           {.algorithm = algorithm::from(is_odd(transport) ? "sampled" : "ring")});
                  sum.all_reduce(x);
                }),
                "disagreement_error",
                "all_reduce: ranks disagree on the algorithm: rank 0 has ring, rank 2 has sampled");
}

TEST_CASE("plan: algorithm sampled refuses reduce_scatter and all_gather on all ranks") {
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan(x.size(), sign<>{}, transport, executor,
                       {.algorithm = {algorithm_kind::sampled}})
                      .reduce_scatter(x);
                }),
                "invalid_argument", "reduce_scatter: algorithm 'sampled' knows only all_reduce");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan(x.size(), sign<>{}, transport, executor,
                       {.algorithm = {algorithm_kind::sampled}})
                      .all_gather(x);
                }),
                "invalid_argument", "all_gather: algorithm 'sampled' knows only all_reduce");
}

TEST_CASE("plan: after a refusal the same plan and transport work") {
  std::vector<float> sums(ranks);
  auto const outcomes = outcomes_on(ranks, [&](in_process& transport) {
    host_executor executor;
    plan sum(5, identity<>{}, transport, executor);
    std::vector<float> x(5, 1.f);
    for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
      auto const step = is_odd(transport) ? attempt : 0;
      auto const ended = outcome_of([&] { sum.all_reduce(std::span(x), {.step = step}); });
      if ((attempt == 0) != (ended.what == "returned"))
        throw std::runtime_error("attempt " + std::to_string(attempt) + " " + ended.what);
    }
    sum.all_reduce(std::span(x), {.step = 9});
    sums[static_cast<std::size_t>(transport.rank())] = x[4];
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "returned"));
  CHECK(sums == std::vector<float>(ranks, 16.f));
}

TEST_CASE("plan: wrong arguments of one rank are refused on all ranks, with that rank's numbers") {
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  // its own plan has another size; the vectors have equal sizes
                  plan sum(is_odd(transport) ? 999 : 1000, sign<>{}, transport, executor);
                  sum.all_reduce(x);
                }),
                "invalid_argument",
                "all_reduce: on rank 2 x has not the number of values of the plan (x has 1000 "
                "values, the plan 999, the weight is 1)");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  all_reduce(x, sign<>{}, transport, executor,
                             {.weight = is_odd(transport) ? 0u : 5u});
                }),
                "invalid_argument",
                "all_reduce: on rank 2 the weight is 0, or not 1 in all_gather (x has 1000 values, "
                "the plan 1000, the weight is 0)");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor);
                  sum.all_gather(x, {.weight = is_odd(transport) ? 2u : 1u});
                }),
                "invalid_argument",
                "all_gather: on rank 2 the weight is 0, or not 1 in all_gather (x has 1000 values, "
                "the plan 1000, the weight is 2)");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  auto* const shifted =
                      reinterpret_cast<float*>(reinterpret_cast<std::byte*>(x.data()) + 2);
                  plan sum(999, sign<>{}, transport, executor);
                  sum.all_reduce(is_odd(transport) ? std::span(shifted, 999) : x.first(999));
                }),
                "invalid_argument",
                "all_reduce: on rank 2 x is not aligned to its values (x has 999 values, the plan "
                "999, the weight is 1)");
}

TEST_CASE("plan: error feedback of another size, or whose memory is x, is refused on all ranks") {
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor);
                  error_feedback<float> feedback(is_odd(transport) ? 1001 : 1000);
                  sum.all_reduce(x, feedback);
                }),
                "invalid_argument",
                "all_reduce: on rank 2 the feedback has not the number of values of x (x has 1000 "
                "values, the plan 1000, the weight is 1)");
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  plan sum(x.size(), sign<>{}, transport, executor);
                  error_feedback<float> feedback(1000);
                  auto* const inside = const_cast<float*>(feedback.residual().data());
                  sum.all_reduce(is_odd(transport) ? std::span(inside, 1000) : x, feedback);
                }),
                "invalid_argument",
                "all_reduce: on rank 2 x overlaps the feedback's memory (x has 1000 values, the "
                "plan 1000, the weight is 1)");
}

TEST_CASE("plan: error feedback whose residual would grow is refused on all ranks") {
  std::string const why =
      "all_reduce: codec 'thc:bits=1,granularity=1,truncation=0.03125' loses 3.702 of a vector's "
      "energy, and error feedback works below 0.75";
  for (bool const on_all : {true, false})
    check_refused(refused([=](in_process& transport, host_executor& executor, auto x) {
                    plan sum(x.size(), fit(thc<>({.bits = 1, .truncation = 1. / 32}), 4), transport,
                             executor);
                    error_feedback<float> feedback(x.size());
                    if (on_all || is_odd(transport))
                      sum.all_reduce(x, feedback);
                    else
                      sum.all_reduce(x);
                  }),
                  "invalid_argument", why);
  auto const taken = refused([](in_process& transport, host_executor& executor, auto x) {
    plan sum(x.size(), fit(thc<>({.bits = 1}), 4), transport, executor);
    error_feedback<float> feedback(x.size());
    sum.all_reduce(x, feedback);
  });
  CHECK(all_ended_alike(taken.outcomes, "returned"));
}

TEST_CASE(
    "plan: more summands than the codec holds are refused on all ranks, a fitted codec is not") {
  auto const summed = [](std::uint32_t summands, std::uint32_t weight) {
    return refused([=](in_process& transport, host_executor& executor, auto x) {
      all_reduce(x, sign_count<>{1.f, summands}, transport, executor, {.weight = weight});
    });
  };
  check_refused(summed(2, 1), "invalid_argument",
                "all_reduce: codec 'sign_count' holds 2 summands, the ranks' weights add up to 4; "
                "fit it: fit(codec, 4)");
  check_refused(summed(4, 2), "invalid_argument",
                "all_reduce: codec 'sign_count' holds 4 summands, the ranks' weights add up to 8; "
                "fit it: fit(codec, 8)");
  CHECK(all_ended_alike(summed(fit(sign_count<>{}, 4).summands, 1).outcomes, "returned"));
  // 4 (2^30) is one more than sign can hold
  check_refused(refused([](in_process& transport, host_executor& executor, auto x) {
                  all_reduce(x, sign<>{}, transport, executor, {.weight = 1u << 30});
                }),
                "invalid_argument",
                "all_reduce: codec 'sign' holds 4294967295 summands, the ranks' weights add up to "
                "4294967296; fit it: fit(codec, 4294967296)");
}

TEST_CASE(
    "plan: refuses another codec's algorithm, a torus that does not fit, and a NaN parameter") {
  in_process_world world(6);
  in_process transport(world, 0);
  host_executor executor;
  CHECK_THROWS_WITH_AS(
      plan(10, sign_count<>{}, transport, executor, {.algorithm = algorithm::from("sampled")}),
      "plan: codec 'sign_count' has no algorithm 'sampled'; it has: ring, torus, direct, "
      "recursive_doubling, "
      "aggregator",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      plan(10, sign<>{}, transport, executor, {.algorithm = algorithm::from("torus:2x4")}),
      "torus: 2 rows of 4 are 8 places, the transport has 6 ranks", std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      plan(10, sign<>{std::numeric_limits<float>::quiet_NaN()}, transport, executor),
      "plan: codec 'sign' has a parameter nan", std::invalid_argument);
  plan sum(10, sign<>{2.f}, transport, executor);
  CHECK_THROWS_AS(sum.set_codec({std::numeric_limits<float>::infinity()}), std::invalid_argument);
  CHECK(sum.codec().magnitude == 2.f);
}

TEST_CASE("plan without checks: other steps or seeds end in a wire_error on all ranks") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    for (bool const other_seed : {false, true})
      builtin_codecs<float>::for_each([&]<class C>() {
        CAPTURE(how);
        CAPTURE(other_seed);
        CAPTURE(std::string(C::name));
        auto const result = refused(
            [&](in_process& transport, host_executor& executor, auto x) {
              call_options call;
              if (is_odd(transport) && other_seed) call.seed = 5;
              if (is_odd(transport) && !other_seed) call.step = 5;
              all_reduce(x, C{}, transport, executor, call,
                         {.algorithm = algorithm::from(how), .check = false});
            },
            20 * 4096);
        CAPTURE(to_text(result.outcomes));
        for (auto const& one : result.outcomes) {
          CHECK(one.what == "wire_error");
          CHECK(one.text.find("blocks of different seeds, steps or tensors met") !=
                std::string::npos);
        }
        CHECK(result.unchanged);
      });
}

TEST_CASE("plan without checks: another codec of the same size ends in a wire_error on all ranks") {
  auto const result = refused([](in_process& transport, host_executor& executor, auto x) {
    plan_options const options{.check = false};
    if (is_odd(transport))
      all_reduce(x, float_cast<bfloat16>{}, transport, executor, {}, options);
    else
      all_reduce(x, float_cast<float16>{}, transport, executor, {}, options);
  });
  CAPTURE(to_text(result.outcomes));
  for (auto const& one : result.outcomes) {
    CHECK(one.what == "wire_error");
    CHECK(one.text.find("blocks of different codecs met") != std::string::npos);
  }
  CHECK(result.unchanged);
}

TEST_CASE("plan: a rank that dies between two calls is named on all ranks, and no rank waits") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    for (int dying = 0; dying < ranks; ++dying) {
      CAPTURE(how);
      CAPTURE(dying);
      std::vector<outcome> outcomes(ranks);
      auto const whole = outcome_of([&] {
        run_ranks(ranks, [&](in_process& transport) {
          host_executor executor;
          plan sum(50000, identity<>{}, transport, executor,
                   {.algorithm = algorithm::from(how), .segment_bytes = 1});
          std::vector<float> x(50000, 1.f);
          try {
            sum.all_reduce(std::span(x));
            if (transport.rank() == dying) throw std::runtime_error("out of memory");
            for (;;) sum.all_reduce(std::span(x), {.op = reduce_op::mean});
          } catch (transport_error const& error) {
            outcomes[static_cast<std::size_t>(transport.rank())] = {"transport_error", error.what(),
                                                                    error.peer()};
            throw;
          }
        });
      });
      CHECK(whole == outcome{"exception", "out of memory", -1});
      outcomes.erase(outcomes.begin() + dying);
      CAPTURE(to_text(outcomes));
      CHECK(all_ended_alike(outcomes, "transport_error"));
      CHECK(outcomes[0].peer == dying);
      CHECK(outcomes[0].text ==
            "in_process: rank " + std::to_string(dying) + " failed: out of memory");
    }
}
