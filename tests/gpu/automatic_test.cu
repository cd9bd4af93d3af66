/// @file
/// Plans that choose codec and algorithm, for vectors in device memory.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/device_plans.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/in_process_stream.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <string>
#include <support/placed.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using executor_type = gpu::stream_executor;
constexpr std::size_t many = 9'001;
measure_options const brief{.values = 2'000, .codec_seconds = 1e-4, .link_seconds = 1e-3};
std::vector<std::string> const names{"identity", "uniform_thc", "error_bounded:0.001"};

/// One codec per kind of work: blocks, narrow blocks with statistics, variable rate.
codec_registry<float, executor_type> const& some_codecs() {
  static codec_registry<float, executor_type> const table([] {
    std::vector<codec_entry<float, executor_type>> entries;
    entries.push_back(make_codec_entry<executor_type, identity<float>>(
        {.name = "identity"}, [](codec_settings const&) { return identity<float>{}; }));
    entries.push_back(make_codec_entry<executor_type, uniform_thc<float>>(
        {.name = "uniform_thc"}, [](codec_settings const&) { return uniform_thc<float>{}; }));
    entries.push_back(detail::error_bounded_entry<float, executor_type>());
    return entries;
  }());
  return table;
}

/// Costs that make `codec` the choice.
cost_table in_favour_of(std::string const& codec, cost_table costs) {
  for (auto& row : costs.codecs) row.cost.encode = row.codec == codec ? 1e-9 : 1;
  return costs;
}

/// Calls f(transport, executor, x on the device) on ranks with a stream each; returns x.
template <class F>
std::vector<std::vector<float>> on_devices(std::vector<std::vector<float>> const& x, F const& f) {
  return on_ranks(x, [&](in_process& from_to, auto& mine) {
    executor_type executor;
    host_staged over(from_to, executor);
    placed<float> on_device(mine, true);
    f(over, executor, std::span(static_cast<float*>(on_device.data()), mine.size()));
    executor.synchronize();
    mine = on_device.get();
  });
}

}  // namespace

TEST_CASE("gpu: automatic_plan measures every kind of codec on the device, on all ranks alike") {
  std::vector<std::string> reasons(2);
  on_devices(uniform_vectors(2, many, 3), [&](auto& transport, auto& executor, auto x) {
    automatic_plan<float, executor_type> plan(x.size(), transport, executor,
                                              {.allowed = {.codecs = names}, .measuring = brief},
                                              some_codecs());
    auto const& costs = plan.costs();
    CHECK(costs.link.seconds_per_message > 0);
    REQUIRE(costs.codecs.size() == names.size());
    for (auto const& [codec, cost] : costs.codecs) {
      CAPTURE(codec);
      CHECK(cost.encode > 0);
      CHECK(cost.merge > 0);
      CHECK(cost.decode > 0);
      CHECK((cost.narrow > 0) == (codec == "uniform_thc"));
      CHECK((cost.measure > 0) == (codec == "uniform_thc"));
      CHECK(!cost.algorithms.contains(algorithm_kind::sampled));
    }
    CHECK(plan.all_reduce(x).weight == 2);
    auto& reason = reasons[static_cast<std::size_t>(transport.rank())];
    for (auto const& one : plan.choices()) reason += to_text(one) + "\n";
  });
  CHECK(!reasons[0].empty());
  CHECK(reasons[0] == reasons[1]);
}

TEST_CASE("gpu: automatic_plan gives the bits of the plan that it chose") {
  auto const inputs = uniform_vectors(2, many, 5);
  cost_table measured;
  on_ranks(inputs, [&](in_process& transport, auto&) {
    host_executor executor(1);
    auto const costs = measure_costs(registered_codecs<float>(), names, executor, transport, brief);
    if (transport.rank() == 0) measured = costs;
  });
  for (auto const& name : names) {
    CAPTURE(name);
    std::string algorithm_of_it;
    call_options const call{.seed = 5, .step = 1};
    auto const found = on_devices(inputs, [&](auto& transport, auto& executor, auto x) {
      automatic_plan<float, executor_type> plan(
          x.size(), transport, executor,
          {.allowed = {.codecs = names}, .costs = in_favour_of(name, measured)}, some_codecs());
      CHECK(plan.chosen().codec == name);
      if (transport.rank() == 0) algorithm_of_it = plan.chosen().algorithm.name();
      plan.all_reduce(x, call);
      if (name != "uniform_thc") return;
      gpu::error_feedback<float> feedback(x.size());  // is taken, and does not change this result
      plan.all_reduce(x, feedback, call);
    });
    CHECK(!algorithm_of_it.empty());
    auto const wanted = on_ranks(inputs, [&](in_process& transport, auto& x) {
      host_executor executor(1);
      auto plan = make_plan<float>(name, x.size(), transport, executor,
                                   {.algorithm = algorithm::from(algorithm_of_it)});
      plan.all_reduce(x, call);
      if (name == "uniform_thc") plan.all_reduce(x, call);
    });
    for (std::size_t rank = 0; rank < inputs.size(); ++rank)
      CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
  }
}

TEST_CASE("gpu: automatic_plan refuses a stream-ordered transport") {
  on_ranks(uniform_vectors(2, 10, 1), [](in_process& from_to, auto&) {
    executor_type executor;
    gpu::in_process_stream over(from_to, nullptr);
    CHECK(outcome_of(
              [&] { automatic_plan<float, executor_type>(10, over, executor, {}, some_codecs()); })
              .text.starts_with("automatic_plan: it compares times between calls, for which a "
                                "stream-ordered transport does not wait"));
  });
}
