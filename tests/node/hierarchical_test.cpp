#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/measure.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <support/hierarchical_reductions.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using node::hierarchical_plan;

namespace {

constexpr std::size_t many = 5000;
using nodes = std::vector<std::uint64_t>;

std::vector<std::vector<float>> inputs(std::size_t ranks, std::size_t values = many) {
  std::vector<std::vector<float>> x;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    x.push_back(uniform_values(values, 4, static_cast<int>(rank)));
  return x;
}
double exact_mean(std::vector<std::vector<float>> const& x, std::size_t i) {
  double sum = 0;
  for (auto const& one : x) sum += static_cast<double>(one[i]);
  return sum / static_cast<double>(x.size());
}

/// Equal numbers of ranks per node, fewer ranks on some nodes, one rank per node, and one node.
std::vector<nodes> const clusters{{0, 0, 1, 1, 2, 2}, {7, 8, 7, 8}, {1, 1, 1, 5, 5},
                                  {1, 2, 3},          {4, 4, 4},    {9}};

}  // namespace

TEST_CASE("hierarchy: the ranks of a node, and the ranks that carry data between nodes") {
  nodes const where{7, 8, 7, 8, 7};
  auto const of = [&](int rank) { return node::hierarchy::from(where, rank); };
  CHECK(of(0).nodes == 2);
  CHECK(of(0).carriers == 2);
  CHECK(of(0).inside == std::vector{0, 2, 4});
  CHECK(of(3).inside == std::vector{1, 3});
  CHECK(of(2).between == std::vector{2, 3});
  CHECK(of(3).between == std::vector{2, 3});
  CHECK(of(4).between.empty());
  CHECK(!of(0).is_by_blocks);
  CHECK(!node::hierarchy::from(nodes{7, 8, 7, 8}, 0).is_by_blocks);
  CHECK(!node::hierarchy::from(nodes{7, 7, 7, 8}, 0).is_by_blocks);
  CHECK(node::hierarchy::from(nodes{7, 7, 3, 3}, 2).is_by_blocks);
}

TEST_CASE("hierarchical: the sum of all ranks, the same bits on all of them") {
  for (auto const& where : clusters)
    for (std::string const codec : {"identity", "lossless_sparse", "error_bounded:1e-3", "fp16"})
      for (auto const result : {reduce_op::sum, reduce_op::mean}) {
        CAPTURE(codec);
        CAPTURE(where.size());
        auto const ranks = where.size();
        for (std::size_t const values : {many, std::size_t{1}, std::size_t{130}}) {
          auto const x = inputs(ranks, values);
          auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
            host_executor executor;
            hierarchical_plan<float> sum(codec, values, transport, executor, {.node_of = where});
            auto const report = sum.all_reduce(mine, {.op = result});
            CHECK(report.weight == ranks);
          });
          double const times = result == reduce_op::sum ? static_cast<double>(ranks) : 1;
          // A sum of up to 6 values below 1 is below 8. Every addition rounds by 2^-24 of that, and
          // fp16 by 2^-11, once per node and once for its own encoding.
          double const bound = codec == "fp16"       ? 4 * 8 * 0x1p-11
                               : codec == "identity" ? 8 * 8 * 0x1p-24
                                                     : 1e-3 + 8 * 8 * 0x1p-24;
          for (std::size_t i = 0; i < values; ++i)
            REQUIRE(std::fabs(static_cast<double>(found[0][i]) - times * exact_mean(x, i)) <=
                    bound);
          for (auto const& one : found) REQUIRE(first_difference(one, found[0]) == nowhere);
        }
      }
}

TEST_CASE("hierarchical: reduce_scatter and all_gather are the two halves of all_reduce") {
  for (auto const& where : clusters)
    for (std::string const codec : {"identity", "lossless_sparse", "fp16"})
      for (std::size_t const values : {many, std::size_t{1}, std::size_t{40000}}) {
        CAPTURE(codec);
        CAPTURE(where.size());
        CAPTURE(values);
        auto const x = inputs(where.size(), values);
        std::vector<int> owners(values, 0);
        std::mutex one_at_a_time;
        auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          host_executor executor;
          hierarchical_plan<float> sum(codec, values, transport, executor, {.node_of = where});
          auto const part = sum.shard();
          {
            std::lock_guard const lock(one_at_a_time);
            for (std::size_t i = 0; i < part.count; ++i) ++owners[part.first + i];
          }
          auto whole = mine;
          sum.all_reduce(whole);
          sum.reduce_scatter(mine);
          std::span const own = std::span(mine).subspan(part.first, part.count);
          // The all-gather encodes a sum once more. That changes no value of these codecs.
          CHECK(std::ranges::equal(own, std::span(whole).subspan(part.first, part.count)));
          std::vector<float> gathered(values, std::numeric_limits<float>::quiet_NaN());
          std::ranges::copy(own, gathered.begin() + static_cast<std::ptrdiff_t>(part.first));
          sum.all_gather(gathered);
          CHECK(first_difference(gathered, whole) == nowhere);
        });
        CHECK(owners == std::vector<int>(values, 1));
      }
}

TEST_CASE(
    "hierarchical: all ranks own equal numbers of values at multiples of the shard alignment") {
  for (auto const& where : clusters) {
    auto const ranks = where.size();
    on_ranks(inputs(ranks, 1), [&](in_process& transport, std::vector<float>&) {
      host_executor executor;
      auto const plan_of = [&](std::size_t values) {
        return std::make_unique<hierarchical_plan<float>>(
            "fp16", values, transport, executor, node::hierarchical_options{.node_of = where});
      };
      auto const unit = plan_of(0)->shard_alignment();
      CHECK((unit == 0) == (where == nodes{1, 1, 1, 5, 5}));
      for (std::size_t const times : {1, 3})
        if (unit > 0) CHECK(plan_of(times * unit * ranks)->shard().count == times * unit);
    });
  }
}

TEST_CASE("hierarchical: on one node the result is exact, with every codec") {
  auto const x = inputs(3);
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    hierarchical_plan<float> sum("thc:bits=2", many, transport,
                                 executor);  // the plan detects the node
    CHECK(sum.ranks().nodes == 1);
    error_feedback<float> feedback(sum.share().count), other(sum.share().count + 1);
    auto const before = mine;
    CHECK_THROWS_WITH_AS(sum.all_reduce(mine, other), doctest::Contains("has a feedback of"),
                         std::invalid_argument);
    CHECK(first_difference(mine, before) == nowhere);
    sum.all_reduce(mine, feedback);
    CHECK(sum.all_reduce(std::span(std::vector<float>(many).data(), many)).bytes_sent == 0);
  });
  for (std::size_t i = 0; i < many; ++i) REQUIRE(found[0][i] == x[0][i] + x[1][i] + x[2][i]);
}

TEST_CASE("hierarchical: residuals of a share are sent in later steps") {
  nodes const where{0, 0, 1, 1, 2};
  auto const x = inputs(where.size());
  constexpr int steps = 20;
  std::vector<std::vector<float>> totals(where.size(), std::vector<float>(many));
  std::vector<std::vector<float>> lost(where.size(), std::vector<float>(many));
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    auto const r = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    hierarchical_plan<float> sum("thc:bits=4", many, transport, executor, {.node_of = where});
    error_feedback<float> feedback(sum.share().count);
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto y = mine;
      sum.all_reduce(y, feedback, {.step = step, .op = reduce_op::mean});
      for (std::size_t i = 0; i < many; ++i) totals[r][i] += y[i];
    }
    for (std::size_t i = 0; i < sum.share().count; ++i)
      lost[r][sum.share().first + i] = feedback.residual()[i];
  });
  for (auto const& one : totals) CHECK(first_difference(one, totals[0]) == nowhere);
  double error = 0, exact = 0;
  for (std::size_t i = 0; i < many; ++i) {
    double const wanted = steps * exact_mean(x, i);
    double missing = 0;
    for (auto const& one : lost) missing += static_cast<double>(one[i]) / 3;
    error += std::pow(static_cast<double>(totals[0][i]) + missing - wanted, 2);
    exact += std::pow(wanted, 2);
  }
  // In totals over steps only the last residuals are missing, and the rounding of the result
  // itself: levels of 4 bits are coarse, and every step rounds its result.
  CHECK(std::sqrt(error / exact) < 0.02);
}

TEST_CASE("hierarchical: node::make_plan accepts the algorithm, make_plan refuses it") {
  nodes const where{0, 0, 1, 1};
  auto const x = inputs(4);
  for (std::string const name : {"ring", "hierarchical", "hierarchical:direct"}) {
    CAPTURE(name);
    auto const how = algorithm::from(name);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor;
      auto sum = node::make_plan<float>("error_bounded:1e-3", many, transport, executor,
                                        {.algorithm = how}, where);
      CHECK(sum.codec() == "error_bounded:bound=0.001");
      CHECK(sum.encoded().count ==
            (how.hierarchical ? (transport.rank() % 2 ? 2440 : 2560) : many));
      sum.all_reduce(mine, {.op = reduce_op::mean});
      global_compensation<float> compensation(many);
      if (how.hierarchical)
        CHECK_THROWS_AS(sum.all_reduce(mine, compensation), std::invalid_argument);
    });
    for (std::size_t i = 0; i < many; ++i)
      REQUIRE(std::fabs(static_cast<double>(found[0][i]) - exact_mean(x, i)) <= 1e-3);
  }
  auto const outcomes = outcomes_on(2, [&](in_process& transport) {
    host_executor executor;
    make_plan<float>("fp16", many, transport, executor, {.algorithm = {.hierarchical = true}});
  });
  CHECK(all_ended_alike(outcomes, "invalid_argument"));
  CHECK(outcomes[0].text ==
        "plan: algorithm 'hierarchical' needs to know nodes; hcomp::node::make_plan does");
}

TEST_CASE("hierarchical: measure_nodes gives the same costs on all ranks") {
  std::mutex one_at_a_time;
  std::vector<node_cost> all;
  on_ranks(inputs(3, 1), [&](in_process& transport, std::vector<float>&) {
    any_transport any(transport);
    auto const cost = node::measure_nodes<float>(any, {.values = 4096, .link_seconds = 0.01});
    REQUIRE(cost);
    std::lock_guard const lock(one_at_a_time);
    all.push_back(*cost);
  });
  for (auto const& one : all) {
    CHECK(one.ranks == 3);  // all on this node
    CHECK(one.call > 0);
    CHECK(one.inside >= 0);
    CHECK(one.call == all[0].call);
    CHECK(one.inside == all[0].inside);
  }
}

TEST_CASE("hierarchical: concurrent calls have the bits of sequential ones") {
  for (auto const mode : {progress_mode::caller, progress_mode::thread})
    for (int const ranks : {2, 4, 5}) {
      CAPTURE(ranks);
      CAPTURE(mode == progress_mode::thread);
      std::mutex one_at_a_time;
      std::string differences;
      on_ranks(inputs(static_cast<std::size_t>(ranks), 1),
               [&](in_process& transport, std::vector<float>&) {
                 auto const mine = difference_of_hierarchical_reductions(transport, mode);
                 std::lock_guard const lock(one_at_a_time);
                 differences += mine;
               });
      CHECK(differences == "");
    }
}

TEST_CASE(
    "hierarchical: one refused call among several is refused on all ranks, and the rest complete") {
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    auto const x = inputs(4);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      concurrent_transport over(transport, mode);
      host_executor executor;
      std::vector<std::unique_ptr<hierarchical_plan<float>>> plans;
      for (int i = 0; i < 3; ++i)
        over.start([&] {
              plans.push_back(std::make_unique<hierarchical_plan<float>>(
                  "fp16", many, over, executor,
                  node::hierarchical_options{.node_of = {0, 0, 1, 1}}));
            })
            .wait();
      auto wrong = mine, other = mine;
      if (transport.rank() == 1) wrong.pop_back();
      auto first = over.start([&] { return plans[0]->all_reduce(mine); });
      auto second = over.start([&] { return plans[1]->all_reduce(wrong); });
      auto third = over.start([&] { return plans[2]->all_reduce(other); });
      CHECK_THROWS_AS(second.wait(), std::invalid_argument);
      first.wait();
      third.wait();
      CHECK(first_difference(mine, other) == nowhere);
    });
    for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
    CHECK(first_difference(found[0], x[0]) != nowhere);
  }
}

TEST_CASE("hierarchical: ranks of a node that make different calls are refused") {
  auto const outcomes = outcomes_on(4, [&](in_process& transport) {
    host_executor executor;
    hierarchical_plan<float> sum("fp16", many, transport, executor, {.node_of = {0, 0, 1, 1}});
    auto x = uniform_values(many, 4, transport.rank());
    auto const unchanged = x;
    try {
      transport.rank() == 1 ? sum.reduce_scatter(x) : sum.all_reduce(x);
    } catch (...) {
      CHECK(first_difference(x, unchanged) == nowhere);
      throw;
    }
  });
  CAPTURE(to_text(outcomes));
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(outcomes[rank].what == "disagreement_error");
  for (std::size_t rank = 2; rank < 4; ++rank) CHECK(outcomes[rank].what != "returned");
}

TEST_CASE("hierarchical: wrong arguments are errors on all ranks and change nothing") {
  nodes const where{0, 0, 1, 1};
  struct fault {
    std::string what, error, elsewhere, words;
  };
  for (fault const& wrong :
       {fault{"size", "invalid_argument", "invalid_argument", "4999 values"},
        fault{"infinity", "nonfinite_error", "nonfinite_error", "NaN or infinity"},
        fault{"weight", "invalid_argument", "invalid_argument", "weight 2"},
        fault{"feedback", "invalid_argument", "invalid_argument", "feedback"}}) {
    CAPTURE(wrong.what);
    auto const outcomes = outcomes_on(4, [&](in_process& transport) {
      host_executor executor;
      bool const is_wrong = transport.rank() == 1;
      auto x = uniform_values(many, 4, transport.rank());
      hierarchical_plan<float> sum("thc:bits=4", many, transport, executor, {.node_of = where});
      error_feedback<float> feedback(sum.share().count +
                                     (is_wrong && wrong.what == "feedback" ? 1 : 0));
      auto other = x;
      error_feedback<float> before(sum.share().count);
      sum.all_reduce(other, before, {.step = 0});
      if (feedback.values() == before.values()) feedback.set_residual(before.residual());
      std::vector<float> const lost(feedback.residual().begin(), feedback.residual().end());
      call_options call{.step = 1};
      if (is_wrong && wrong.what == "infinity") x[0] = std::numeric_limits<float>::infinity();
      if (is_wrong && wrong.what == "weight") call.weight = 2;
      auto const unchanged = x;
      try {
        std::span const some =
            std::span(x).first(is_wrong && wrong.what == "size" ? many - 1 : many);
        sum.all_reduce(some, feedback, call);
      } catch (...) {
        CHECK(first_difference(x, unchanged) == nowhere);
        CHECK(std::ranges::equal(feedback.residual(), lost));
        throw;
      }
    });
    CAPTURE(to_text(outcomes));
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(outcomes[rank].what == (rank < 2 ? wrong.error : wrong.elsewhere));
    CHECK(outcomes[0].text.find(wrong.words) != std::string::npos);
    CHECK(outcomes[0] == outcomes[1]);
  }
}

TEST_CASE("hierarchical: impossible plans are refused on all ranks, carriers or not") {
  auto const made = [](nodes const& where, auto const& codec_of) {
    return outcomes_on(5, [&](in_process& transport) {
      host_executor executor;
      hierarchical_plan<float> const sum(codec_of(transport.rank()), many, transport, executor,
                                         {.node_of = where});
    });
  };
  nodes const where{0, 0, 0, 1, 1};  // rank 2 has no peer
  auto const differ = made(where, [](int rank) { return rank == 2 ? "fp16" : "bf16"; });
  CAPTURE(to_text(differ));
  CHECK(all_ended_alike(differ, "disagreement_error"));
  for (std::string const codec : {"gzip", "thc:bits=99", "error_bounded"}) {
    auto const outcomes = made(where, [&](int) { return codec; });
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "invalid_argument"));
  }
  auto const too_few = made({0, 1}, [](int) { return "fp16"; });
  CAPTURE(to_text(too_few));
  CHECK(all_ended_alike(too_few, "invalid_argument"));
  CHECK(too_few[0].text.find("nodes of 2 ranks, there are 5") != std::string::npos);
}
