#pragma once
/// @file
/// Concurrent all-reduces over any transport, compared with sequential ones.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <support/data.hpp>
#include <thread>
#include <vector>

namespace hcomp::testing {

/// Several plans of codec C over one transport, each with its own vectors.
template <class C> struct plans_of {
  plans_of(concurrent_transport& transport, std::vector<std::size_t> const& sizes)
      : over(transport) {
    for (std::size_t const values : sizes) {
      plans.push_back(std::make_unique<plan<C, any_transport, host_executor>>(
          values, fit(C{}, transport.size()), over, executor, plan_options{.segment_bytes = 1000}));
      inputs.push_back(data::uniform(
          values, -1, 1, {.seed = values * 16 + static_cast<std::uint64_t>(transport.rank())}));
    }
  }
  any_transport over;
  host_executor executor;
  std::vector<std::unique_ptr<plan<C, any_transport, host_executor>>> plans;
  std::vector<std::vector<float>> inputs;
};

inline std::vector<std::size_t> const sizes_of_reductions = {5000, 1,    20'000, 777,
                                                             0,    9999, 64,     3000};

/// Runs all-reduces of all sizes concurrently, on ranks of unequal speed.
/// @return  the difference to sequential all-reduces; empty: none
template <class C, Transport T>
std::string difference_of_concurrent_reductions(T& transport, progress_mode mode) {
  auto const& sizes = sizes_of_reductions;
  std::vector<std::vector<float>> expected;
  std::vector<std::uint64_t> bytes;
  {
    concurrent_transport over(transport);
    plans_of<C> one_by_one(over, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      expected.push_back(one_by_one.inputs[i]);
      bytes.push_back(one_by_one.plans[i]->all_reduce(std::span(expected.back())).bytes_sent);
    }
  }
  concurrent_transport over(transport, mode);
  plans_of<C> all(over, sizes);
  auto found = all.inputs;
  std::vector<hcomp::request<report>> under_way;
  std::mt19937 draw(static_cast<unsigned>(transport.rank()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    under_way.push_back(
        over.start([&, i] { return all.plans[i]->all_reduce(std::span(found[i])); },
                   {.priority = static_cast<int>(i % 3), .exclusive = all.plans[i].get()}));
    if (draw() % 2) std::this_thread::sleep_for(std::chrono::microseconds(draw() % 500));
  }
  std::string differences;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    auto const told = under_way[i].wait();
    if (found[i] != expected[i]) differences += "another sum of " + std::to_string(sizes[i]) + ". ";
    if (told.bytes_sent != bytes[i])
      differences += std::to_string(told.bytes_sent) + " bytes sent for " +
                     std::to_string(sizes[i]) + " values, not " + std::to_string(bytes[i]) + ". ";
  }
  return differences;
}

}  // namespace hcomp::testing
