#pragma once
/// @file
/// Concurrent hierarchical all-reduces over any transport, compared with sequential ones.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <support/data.hpp>
#include <thread>
#include <vector>

namespace hcomp::testing {

/// Runs two all-reduces by each of several hierarchical plans concurrently, on ranks of unequal
/// speed and with different priorities. Two ranks form a node.
/// @return  the difference to sequential all-reduces; empty: none
template <Transport T>
std::string difference_of_hierarchical_reductions(T& transport, progress_mode mode) {
  struct one {
    std::string codec, algorithm;
    std::size_t values;
  };
  std::vector<one> const sums{{"fp16", "hierarchical", 5000},
                              {"thc:bits=4", "hierarchical:direct", 20'000},
                              {"identity", "hierarchical:recursive_doubling", 200'000},
                              {"lossless_sparse", "hierarchical:direct", 130},
                              {"fp16", "hierarchical", 1}};
  constexpr std::size_t turns = 2;
  auto const rank = static_cast<std::uint64_t>(transport.rank());
  std::vector<std::uint64_t> node_of;
  for (int r = 0; r < transport.size(); ++r) node_of.push_back(static_cast<std::uint64_t>(r) / 2);
  host_executor executor;
  auto const plan_of = [&](one const& sum, Transport auto& over) {
    return node::make_plan<float>(sum.codec, sum.values, over, executor,
                                  {.algorithm = algorithm::from(sum.algorithm)}, node_of);
  };
  std::vector<std::vector<float>> found, expected;  // all turns of all plans
  for (one const& sum : sums)
    for (std::size_t turn = 0; turn < turns; ++turn)
      found.push_back(data::uniform(sum.values, -1, 1, {.seed = (sum.values + turn) * 16 + rank}));

  expected = found;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    auto plan = plan_of(sums[i], transport);
    for (std::size_t turn = 0; turn < turns; ++turn)
      plan.all_reduce(std::span(expected[i * turns + turn]));
  }

  concurrent_transport over(transport, mode);
  std::vector<any_plan<float>> plans;
  over.start([&] {
        for (one const& sum : sums) plans.push_back(plan_of(sum, over));
      })
      .wait();
  std::vector<hcomp::request<report>> under_way;
  std::mt19937 draw(static_cast<unsigned>(rank));
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (std::size_t turn = 0; turn < turns; ++turn) {
      under_way.push_back(over.start(
          [&, i, turn] { return plans[i].all_reduce(std::span(found[i * turns + turn])); },
          {.priority = static_cast<int>(draw() % 3), .exclusive = &plans[i]}));
      if (draw() % 2) std::this_thread::sleep_for(std::chrono::microseconds(draw() % 500));
    }
  for (auto& sum : under_way) sum.wait();
  std::string differences;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != expected[i])
      differences += "another sum of " + std::to_string(found[i].size()) + " values by " +
                     sums[i / turns].codec + " " + sums[i / turns].algorithm + ". ";
  return differences;
}

}  // namespace hcomp::testing
