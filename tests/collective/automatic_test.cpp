#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Allows all codecs.
struct automatic : automatic_plan<float> {
  automatic(std::size_t values, in_process& transport, host_executor& executor,
            automatic_options const& options)
      : automatic_plan(values, transport, executor, options, registered_codecs<float>()) {}
};
constexpr std::size_t many = 100'001;
measure_options const brief{.values = 40'000, .codec_seconds = 1e-3, .link_seconds = 1e-2};

/// Costs that make `codec` with `how` the choice: every other codec takes one second per value.
cost_table in_favour_of(std::string const& codec, int ranks) {
  cost_table costs{{1e-6, 1e-9, 0}, {}};
  builtin_codecs<float>::for_each([&]<class C>() {
    auto cost = size_of(fit(C{}, static_cast<unsigned>(ranks)));
    cost.encode = codec == C::name ? 1e-9 : 1;
    costs.codecs.push_back({C::name, cost});
  });
  return costs;
}

std::vector<std::string> all_codecs() {
  std::vector<std::string> names;
  builtin_codecs<float>::for_each([&]<class C>() { names.push_back(C::name); });
  return names;
}

std::vector<std::vector<float>> inputs(int ranks) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(many, 3, rank));
  return x;
}

/// The result of a hand-written plan with the same codec and algorithm.
std::vector<std::vector<float>> by_hand(int ranks, std::string const& name, algorithm const& how,
                                        float magnitude, call_options const& call) {
  return on_ranks(inputs(ranks), [&](in_process& transport, auto& x) {
    host_executor executor;
    builtin_codecs<float>::with(name, [&]<class C>() {
      auto codec = fit(C{}, static_cast<unsigned>(ranks));
      if constexpr (requires { codec.magnitude; }) codec.magnitude = magnitude;
      all_reduce(std::span(x), codec, transport, executor, call, {.algorithm = how});
    });
  });
}

}  // namespace

TEST_CASE("automatic_plan: gives the bits of the plan that it chose, on every rank") {
  call_options const call{.seed = 5, .step = 2, .op = reduce_op::mean};
  for (int const ranks : {1, 3, 4})
    for (auto const& name : all_codecs())
      for (auto const& how : all_algorithms()) {
        if (how.kind == algorithm_kind::sampled && name != "sign") continue;
        CAPTURE(ranks);
        CAPTURE(name);
        CAPTURE(how.name());
        auto const x = on_ranks(inputs(ranks), [&](in_process& transport, auto& mine) {
          host_executor executor;
          automatic plan(many, transport, executor,
                         {.allowed = {all_codecs(), {how}},
                          .magnitude = 0.25,
                          .costs = in_favour_of(name, ranks)});
          CHECK(plan.chosen().codec == name);
          CHECK(plan.chosen().algorithm == how.fitted(ranks));
          auto const report = plan.all_reduce(mine, call);
          CHECK(report.weight == static_cast<std::uint64_t>(ranks));
          CHECK(digest(std::span(mine), transport).same());
        });
        CHECK(first_difference(x[0], by_hand(ranks, name, how, 0.25f, call)[0]) == nowhere);
      }
}

TEST_CASE(
    "automatic_plan: all ranks make the same choice from the measurements, and can explain it") {
  for (int const ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    std::vector<std::string> reasons(static_cast<std::size_t>(ranks));
    auto const x = on_ranks(inputs(ranks), [&](in_process& transport, auto& mine) {
      host_executor executor(transport.rank() == 0 ? 2 : 1);
      automatic plan(many, transport, executor,
                     {.allowed = {.codecs = all_codecs()}, .measuring = brief});
      plan.all_reduce(mine);
      auto& reason = reasons[static_cast<std::size_t>(transport.rank())];
      for (auto const& one : plan.choices()) reason += to_text(one) + "\n";
      CHECK(plan.choices().size() == 8 * 4 + 1);
      CHECK(plan.costs().codecs.size() == 8);
      CHECK(plan.chosen().codec == plan.choices().front().codec);
    });
    for (auto const& reason : reasons) CHECK(reason == reasons[0]);
    for (auto const& one : x) CHECK(first_difference(one, x[0]) == nowhere);
  }
}

TEST_CASE("automatic_plan: uses only lossless codecs unless lossy ones are allowed") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    automatic_plan<float> plan(1000, transport, executor, {.measuring = brief});
    for (auto const& one : plan.choices()) CHECK(one.codec == "identity");
    std::vector<float> x(1000, 0.125f);
    plan.all_reduce(x);
    CHECK(x == std::vector<float>(1000, 0.25f));
  });
}

TEST_CASE("automatic_plan: without a codec registry it has the codecs that only round") {
  auto const outcomes = outcomes_on(2, [](in_process& transport) {
    host_executor executor;
    automatic_plan<float>(10, transport, executor,
                          {.allowed = {.codecs = {"fp16", "bf16"}}, .measuring = brief});
    automatic_plan<float>(10, transport, executor, {.allowed = {.codecs = {"sign"}}});
  });
  CHECK(all_ended_alike(outcomes, "invalid_argument"));
  CHECK(outcomes[0].text ==
        "no codec is called 'sign'; hcomp has: identity, fp16, bf16; automatic_plan has more if it "
        "is given registered_codecs");
}

TEST_CASE("automatic_plan: also chooses among codecs of variable rate and codecs with settings") {
  std::vector<std::string> const allowed{"error_bounded:0.25", "inceptionn:8", "thc:bits=2",
                                         "thc:bits=4", "sign:0.5"};
  for (auto const& name : allowed) {
    CAPTURE(name);
    auto const x = on_ranks(inputs(3), [&](in_process& transport, auto& mine) {
      host_executor executor;
      automatic const measured(many, transport, executor,
                               {.allowed = {allowed, all_algorithms()}, .measuring = brief});
      // codecs of variable rate have ring, torus and direct
      CHECK(measured.choices().size() == 2 * 3 + 3 * 4 + 1);
      auto costs = measured.costs();
      CHECK(costs.of("thc:bits=2").one_bits < costs.of("thc:bits=4").one_bits);
      for (auto& row : costs.codecs) row.cost.encode = row.codec == name ? 1e-9 : 1;
      automatic plan(many, transport, executor,
                     {.allowed = {allowed, all_algorithms()}, .costs = costs});
      CHECK(plan.chosen().codec == name);
      plan.all_reduce(mine, {.seed = 5});
    });
    for (auto const& one : x) CHECK(first_difference(one, x[0]) == nowhere);
  }
}

TEST_CASE("automatic_plan: takes vectors of no values and of one value") {
  for (std::size_t const values : {0, 1})
    run_ranks(3, [&](in_process& transport) {
      host_executor executor;
      automatic plan(values, transport, executor, {.measuring = brief});
      for (int i = 0; i < 20; ++i) {
        std::vector<float> x(values, 1);
        CHECK(plan.all_reduce(x).weight == 3);
        CHECK(x == std::vector<float>(values, 3));
      }
    });
}

TEST_CASE("automatic_plan: a magnitude can follow, and codecs without a magnitude ignore it") {
  for (std::string const name : {"sign", "identity"}) {
    CAPTURE(name);
    run_ranks(2, [&](in_process& transport) {
      host_executor executor;
      automatic plan(
          100, transport, executor,
          {.allowed = {{name}, all_algorithms()}, .magnitude = 2, .costs = in_favour_of(name, 2)});
      std::vector<float> x(100, 3);
      plan.all_reduce(x, {.op = reduce_op::mean});
      CHECK(x == std::vector<float>(100, name == "sign" ? 2.f : 3.f));
      plan.set_magnitude(0.5);
      plan.all_reduce(x, {.op = reduce_op::mean});
      CHECK(x == std::vector<float>(100, name == "sign" ? 0.5f : 3.f));
    });
  }
}

TEST_CASE("automatic_plan: compensation reaches the chosen plan") {
  for (auto const& how : all_algorithms())
    run_ranks(2, [&](in_process& transport) {
      CAPTURE(how.name());
      host_executor executor;
      automatic plan(100, transport, executor,
                     {.allowed = {{"sign"}, {how}}, .costs = in_favour_of("sign", 2)});
      error_feedback<float> residual(100);
      std::vector<float> x(100, 3);
      plan.all_reduce(x, residual, {.op = reduce_op::mean});
      CHECK(x == std::vector<float>(100, 1));
      x.assign(100, -1);  // the residual of 2 outweighs it
      plan.all_reduce(x, residual, {.op = reduce_op::mean});
      CHECK(x == std::vector<float>(100, 1));
      global_compensation<float> compensation(100);
      x.assign(100, 3);
      plan.all_reduce(x, compensation, {.op = reduce_op::mean});
      x.assign(100, -1);
      plan.all_reduce(x, compensation, {.op = reduce_op::mean});
      CHECK(x == std::vector<float>(100, 1));
    });
}

TEST_CASE("automatic_plan: counters have room for the announced weights") {
  auto const outcome = [](std::uint32_t total_weight) {
    return outcomes_on(2, [&](in_process& transport) {
      host_executor executor;
      automatic plan(100, transport, executor,
                     {.allowed = {{"sign_count"}, all_algorithms()},
                      .total_weight = total_weight,
                      .measuring = brief});
      unsigned const planes = total_weight == 100 ? 7 : 2;
      CHECK(plan.costs().of("sign_count").block_bytes == 32u + 8192u / 8 * planes);
      std::vector<float> x(100, 1);
      auto const report = plan.all_reduce(x, {.weight = 50});
      CHECK(report.weight == 100);
      CHECK(x == std::vector<float>(100, 100));
    });
  };
  CHECK(all_ended_alike(outcome(100), "returned"));
  CHECK(all_ended_alike(outcome(0), "invalid_argument"));
}

TEST_CASE("automatic_plan: other value types and the options of plan and calls are passed on") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    automatic_plan<double> doubles(3, transport, executor, {.measuring = brief});
    std::vector<double> x{1e300, 1, -1};
    doubles.all_reduce(x, {.op = reduce_op::mean});
    CHECK(x == std::vector<double>{1e300, 1, -1});

    automatic ignoring(1, transport, executor,
                       {.allowed = {{"sign"}, all_algorithms()},
                        .measuring = brief,
                        .plan = {.nonfinite = nonfinite_policy::ignore}});
    std::vector<float> nan{std::numeric_limits<float>::quiet_NaN()};
    ignoring.all_reduce(nan, {.op = reduce_op::mean});
    CHECK(nan[0] == -1);
  });
}

TEST_CASE(
    "automatic_plan: calls faster than predicted make all ranks change the strategy at once") {
  for (double const watching : {0.01, 0.}) {
    CAPTURE(watching);
    std::vector<std::vector<std::string>> codecs(3);
    run_ranks(3, [&](in_process& transport) {
      host_executor executor;
      auto costs = in_favour_of("sign", 3);
      for (auto& row : costs.codecs) row.cost.encode = row.codec == "sign" ? 1e-7 : 1e-10;
      costs.link.seconds_per_byte = 1e-3;  // ten seconds for signs, and hours for floats
      automatic plan(
          many, transport, executor,
          {.allowed = {.codecs = {"sign", "identity"}}, .costs = costs, .watching = watching});
      CHECK(plan.chosen().codec == "sign");
      for (int i = 0; i < 200; ++i) {
        auto x = uniform_values(many, 3, transport.rank());
        plan.all_reduce(x, {.seed = 5});
        if (i % 8 == 0) CHECK(digest(std::span(x), transport).same());
        codecs[static_cast<std::size_t>(transport.rank())].push_back(plan.chosen().codec);
      }
      CHECK((plan.changes() > 0) == (watching > 0));
      CHECK(plan.chosen().codec == (watching > 0 ? "identity" : "sign"));
      CHECK((plan.costs().link.seconds_per_byte < 1e-4) == (watching > 0));
    });
    CHECK(codecs[1] == codecs[0]);
    CHECK(codecs[2] == codecs[0]);
  }
}

TEST_CASE("automatic_plan: every call draws new random numbers, like a plan") {
  auto const x = on_ranks(inputs(3), [&](in_process& transport, auto& mine) {
    host_executor executor;
    automatic plan(many, transport, executor,
                   {.allowed = {{"sign"}, {algorithm{}}},
                    .magnitude = 0.25,
                    .costs = in_favour_of("sign", 3)});
    auto const once = mine;
    plan.all_reduce(mine, {.seed = 5});
    mine = once;
    plan.all_reduce(mine, {.seed = 5});
  });
  CHECK(first_difference(x[0], by_hand(3, "sign", {}, 0.25f, {.seed = 5, .step = 1})[0]) ==
        nowhere);
}

TEST_CASE("automatic_plan: impossible arguments are refused on all ranks, with the values") {
  auto const outcomes = [](std::size_t values, automatic_options const& options) {
    return outcomes_on(2, [&](in_process& transport) {
      host_executor executor;
      automatic plan(values, transport, executor, options);
    });
  };
  auto const unknown = outcomes(10, {.allowed = {.codecs = {"identity", "gzip"}}});
  CHECK(all_ended_alike(unknown, "invalid_argument"));
  CHECK(unknown[0].text ==
        "no codec is called 'gzip'; hcomp has: " + registered_codecs<float>().names());
  auto const setting = outcomes(10, {.allowed = {.codecs = {"thc:bits=9"}}});
  CHECK(all_ended_alike(setting, "invalid_argument"));
  CHECK(setting[0].text == "codec 'thc:bits=9': 'bits=9': bits is a whole number from 1 to 8");
  auto const unmeasured =
      outcomes(10, {.allowed = {.codecs = {"lossless_sparse"}}, .measuring = brief});
  CHECK(all_ended_alike(unmeasured, "invalid_argument"));
  CHECK(unmeasured[0].text ==
        "codec 'lossless_sparse' has no cost measurement; automatic_plan cannot choose it");

  auto costs = in_favour_of("sign", 2);
  std::erase_if(costs.codecs, [](auto const& row) { return row.codec == "sign_count"; });
  auto const missing =
      outcomes(10, {.allowed = {.codecs = {"identity", "sign_count"}}, .costs = costs});
  CHECK(all_ended_alike(missing, "invalid_argument"));
  CHECK(missing[0].text ==
        "there are no costs of codec 'sign_count'; there are of: identity, "
        "float_cast:fp16, float_cast:bf16, sign, thc, uniform_thc, reproducible");

  auto const none = outcomes(10, {.allowed = {.codecs = {}}, .measuring = brief});
  CHECK(all_ended_alike(none, "invalid_argument"));

  for (double const share : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    auto const watching = outcomes(10, {.measuring = brief, .watching = share});
    CHECK(all_ended_alike(watching, "invalid_argument"));
    CHECK(watching[0].text.find("it is a share of the time, from 0 to 1") != std::string::npos);
  }

  auto const magnitude = outcomes(10, {.allowed = {{"sign"}, all_algorithms()},
                                       .magnitude = std::numeric_limits<double>::infinity(),
                                       .costs = in_favour_of("sign", 2)});
  CHECK(all_ended_alike(magnitude, "invalid_argument"));
  CHECK(magnitude[0].text == "plan: codec 'sign' has a parameter inf");
}

TEST_CASE("automatic_plan: ranks with different arguments learn which ones differ") {
  struct row {
    char const* text;
    std::function<void(std::size_t&, automatic_options&)> change;
  };
  row const rows[] = {
      {"the number of values: rank 0 has 10, rank 2 has 11",
       [](auto& values, auto&) { values = 11; }},
      {"the allowed codecs: rank 0 has identity, rank 2 has identity, sign",
       [](auto&, auto& options) { options.allowed.codecs.push_back("sign"); }},
      {"the allowed codecs: rank 0 has identity, rank 2 has gzip",
       [](auto&, auto& options) { options.allowed.codecs = {"gzip"}; }},
      {"the allowed algorithms: rank 0 has ring, torus, direct, recursive_doubling, sampled, rank "
       "2 "
       "has ring, "
       "torus, "
       "direct",
       [](auto&, auto& options) { options.allowed.algorithms.pop_back(); }},
      {"the magnitude: rank 0 has 1, rank 2 has 0.5",
       [](auto&, auto& options) { options.magnitude = 0.5; }},
      {"the total weight: rank 0 has 0, rank 2 has 7",
       [](auto&, auto& options) { options.total_weight = 7; }},
      {"the given costs or other settings",
       [](auto&, auto& options) { options.costs->codecs[0].cost.merge = 1e-3; }},
      {"the given costs or other settings", [](auto&, auto& options) { options.costs = {}; }},
      {"the given costs or other settings", [](auto&, auto& options) { options.watching = 0.5; }},
      {"the given costs or other settings",
       [](auto&, auto& options) { options.plan.check = false; }},
  };
  for (auto const& one : rows) {
    CAPTURE(std::string(one.text));
    auto const outcomes = outcomes_on(3, [&](in_process& transport) {
      host_executor executor;
      std::size_t values = 10;
      automatic_options options{.costs = in_favour_of("identity", 3)};
      if (transport.rank() == 2) one.change(values, options);
      automatic plan(values, transport, executor, options);
    });
    CHECK(all_ended_alike(outcomes, "disagreement_error"));
    CHECK(
        outcomes[0].text.starts_with("automatic_plan: ranks disagree on " + std::string(one.text)));
  }
}
