#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/automatic_options.hpp>
#include <hcomp/collective/automatic/detail/running_costs.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/automatic.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/transport/in_process.hpp>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr std::size_t many = 5000;
std::vector<std::uint64_t> const two_nodes{0, 0, 1, 1};

/// Costs of identity. A byte on a rank's link takes a microsecond.
/// @param inside  seconds per value for adding within a node
automatic_options costs_with(double inside) {
  codec_cost identity;
  identity.encode = identity.merge = identity.decode = 1e-9;
  identity.block_values = 4096;
  identity.block_bytes = 4 * 4096 + 16;
  identity.header_bytes = 16;
  link_cost const link{.seconds_per_message = 1e-6, .seconds_per_byte = 1e-6};
  return {.costs = cost_table{.link = link,
                              .codecs = {{"identity", identity}},
                              .nodes = node_cost{.ranks = 2, .between = link, .inside = inside}},
          .watching = 0};
}

std::vector<std::vector<float>> inputs() {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < 4; ++rank) x.push_back(uniform_values(many, 4, rank));
  return x;
}

}  // namespace

TEST_CASE(
    "node::automatic_plan: takes a hierarchical strategy where it is fastest, with its bits") {
  auto const expected = on_ranks(inputs(), [](in_process& transport, std::vector<float>& x) {
    host_executor executor;
    node::hierarchical_plan<float> sum("identity", many, transport, executor,
                                       {.node_of = two_nodes});
    sum.all_reduce(x);
  });
  for (double const inside : {1e-9, 1.0}) {
    CAPTURE(inside);
    auto const found = on_ranks(inputs(), [&](in_process& transport, std::vector<float>& x) {
      host_executor executor;
      node::automatic_plan<float> sum(many, transport, executor, costs_with(inside),
                                      registered_codecs<float>(), two_nodes);
      CHECK(sum.chosen().algorithm.hierarchical == (inside < 1));
      CHECK(sum.choices().size() > 6);
      sum.all_reduce(x);
      error_feedback<float> feedback(many);
      CHECK_THROWS_WITH_AS(sum.all_reduce(x, feedback), doctest::Contains("hierarchical"),
                           std::invalid_argument);
    });
    for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
    if (inside < 1) CHECK(first_difference(found[0], expected[0]) == nowhere);
  }
}

TEST_CASE("node::automatic_plan: measures nodes, follows real times, and allows for no nodes") {
  for (auto const& where : {two_nodes, {0, 0, 0, 1}}) {
    std::mutex one_at_a_time;
    std::vector<std::string> choices;
    auto const found = on_ranks(inputs(), [&](in_process& transport, std::vector<float>& x) {
      host_executor executor;
      node::automatic_plan<float> sum(
          many, transport, executor,
          {.measuring = {.values = 5000, .codec_seconds = 1e-3, .link_seconds = 1e-2},
           .watching = 1},
          registered_codecs<float>(), where);
      std::vector<float> y;
      for (int turn = 0; turn < 20; ++turn) {
        y = x;
        sum.all_reduce(y);
      }
      x = y;
      std::string text;
      bool has_nodes = false;
      for (auto const& one : sum.choices()) has_nodes |= one.algorithm.hierarchical;
      CHECK(has_nodes == (where == two_nodes));
      std::lock_guard const lock(one_at_a_time);
      choices.push_back(to_text(sum.chosen()));
    });
    for (auto const& one : choices) CHECK(one == choices[0]);
    for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
  }
}

TEST_CASE(
    "running_costs: links between nodes change like other links, and then the fastest strategy") {
  auto const asked = node::with_hierarchical(costs_with(1e-5));
  detail::running_costs costs(*asked.costs, 4, many, asked.allowed, {});
  auto const fast = costs.fastest();
  CHECK(!costs.strategies()[fast].algorithm.hierarchical);
  costs.learn_link(1e-5);  // ten times slower
  auto const slow = costs.best(fast);
  REQUIRE(costs.strategies()[slow].algorithm.hierarchical);
  auto now = *asked.costs;
  now.nodes->between.seconds_per_byte = 1e-5;
  auto const expected = predict_by_nodes(costs.strategies()[slow].algorithm, 4, many,
                                         now.of("identity"), *now.nodes, {.check = false})
                            .seconds();
  CHECK(costs.seconds(slow) == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("node::automatic_plan: ranks that disagree on nodes or costs are refused") {
  for (bool const of_costs : {false, true}) {
    auto const outcomes = outcomes_on(4, [&](in_process& transport) {
      host_executor executor;
      bool const is_other = transport.rank() == 2;
      auto const options = node::with_hierarchical(costs_with(is_other && of_costs ? 1 : 1e-9));
      node::hierarchical_strategies<float> nodes(two_nodes);
      automatic_plan<float> const sum(many, transport, executor, options,
                                      registered_codecs<float>(),
                                      is_other && !of_costs ? nullptr : &nodes);
    });
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "disagreement_error"));
  }
}

TEST_CASE("automatic_plan: omits hierarchical algorithms without information on nodes") {
  on_ranks(inputs(), [](in_process& transport, std::vector<float>&) {
    host_executor executor;
    automatic_plan<float> sum(many, transport, executor, node::with_hierarchical(costs_with(1e-9)));
    for (auto const& one : sum.choices()) CHECK(!one.algorithm.hierarchical);
  });
}
