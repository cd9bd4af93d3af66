
#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <collective/oracle.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <hcomp/codec/sign/sampled.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr std::size_t block = sign<>::block_values;
algorithm const sampled{algorithm_kind::sampled};

template <class V>
std::vector<std::vector<V>> signs(std::size_t values, int ranks, std::uint64_t seed) {
  std::vector<std::vector<V>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(integer_values<V>(values, seed, rank));
  return x;
}

struct selected_run {
  std::vector<report> reports;
  call_options call = {};
  std::vector<std::uint32_t> weights = {};
  int threads = 1;
  plan_options options = {};

  template <class V> std::vector<std::vector<V>> operator()(std::vector<std::vector<V>> const& x) {
    reports.resize(x.size());
    return on_ranks(x, [&](in_process& transport, auto& mine) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor(threads);
      auto my_call = call;
      if (!weights.empty()) my_call.weight = weights[rank];
      auto by_sampling = options;
      by_sampling.algorithm = sampled;
      plan selection(mine.size(), sign<V>{0.5f}, transport, executor, by_sampling);
      reports[rank] = selection.all_reduce(std::span(mine), my_call);
    });
  }
};

}  // namespace

TEST_CASE("sampled: gives the bits of sign merged along the balanced tree") {
  for (int const ranks : up_to_8_ranks())
    for (bool const weighted : {false, true})
      for (auto const result : {reduce_op::sum, reduce_op::mean}) {
        std::vector<std::size_t> sizes{
            0, 1, 63, 64, 65, 64 * 8 - 1, 5000, block - 1, block, block + 1, 2 * block + 77};
        for (auto const values : sizes) {
          CAPTURE(ranks);
          CAPTURE(weighted);
          CAPTURE(values);
          selected_run run{.reports = {}, .call = {.seed = 1, .step = values, .op = result}};
          std::uint64_t total = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            run.weights.push_back(weighted ? static_cast<std::uint32_t>(rank % 3 * 5 + 1) : 1);
            total += run.weights.back();
          }
          auto const x = signs<float>(values, ranks, 2);
          auto const expected = oracle<sign<>>({0.5f}, x, run.call, run.weights).sum(sampled);
          auto const got = run(x);
          std::size_t wrong = 0;
          for (auto const& one : got) wrong += first_difference(one, expected) != nowhere;
          CHECK(wrong == 0);
          for (auto const& one : run.reports) CHECK(one.weight == total);
        }
      }
}

TEST_CASE("sampled: the same for double, float16 and bfloat16 values") {
  auto const check = []<class V>(V) {
    auto const x = signs<V>(40000, 5, 3);
    selected_run run{.reports = {}, .call = {.seed = 4}};
    auto const expected = oracle<sign<V>>({0.5f}, x, run.call).sum(sampled);
    for (auto const& one : run(x)) CHECK(first_difference(one, expected) == nowhere);
  };
  check(double{});
  check(float16{});
  check(bfloat16{});
}

TEST_CASE("sampled: sampled_sign, ORed by hand, gives the same signs") {
  for (int const ranks : {1, 3, 8, 10, 11, -13, 24}) {  // below 0: equal weights
    CAPTURE(ranks);
    auto const x = signs<float>(70001, std::abs(ranks), 5);
    selected_run run{.reports = {}, .call = {.seed = 6, .op = reduce_op::mean}};
    for (int rank = 0; rank < std::abs(ranks); ++rank)
      run.weights.push_back(ranks < 0 ? 1 : static_cast<std::uint32_t>(rank + 1));
    sampled_sign<> codec{0, run.weights, 0.5f};
    std::vector<std::uint64_t> all(codec.lanes(70001)), mine(all.size());
    for (codec.rank = 0; codec.rank < run.weights.size(); ++codec.rank) {
      codec.encode_lanes(x[codec.rank], mine, philox_key(run.call.key()));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= mine[i];
    }
    std::vector<float> expected(70001);
    codec.decode_lanes(all, expected);
    for (auto const& one : run(x)) CHECK(first_difference(one, expected) == nowhere);
  }
}

TEST_CASE("sampled: draws each rank with the probability of its weight") {
  // Only rank r is positive. The share of + among n values is Binomial(n, w_r / W) / n.
  constexpr std::size_t values = 200000;
  constexpr int ranks = 5;
  selected_run run{.reports = {}, .call = {.seed = 7}, .weights = {1, 2, 3, 4, 7}};
  for (std::size_t lucky = 0; lucky < ranks; ++lucky) {
    CAPTURE(lucky);
    std::vector<std::vector<float>> x(ranks, std::vector<float>(values, -1.f));
    x[lucky].assign(values, 1.f);
    auto const got = run(x);
    double plus = 0;
    for (float const value : got[0]) plus += value > 0;
    double const p = run.weights[lucky] / 17.0;
    double const z = (plus / values - p) / std::sqrt(p * (1 - p) / values);
    CAPTURE(z);
    CHECK(std::abs(z) < 4.5);
  }
}

TEST_CASE("sampled: threads, checksums, missing checks and segments change no bit") {
  auto const x = signs<float>(5 * block + 3, 4, 8);
  selected_run run{.reports = {}, .call = {.seed = 9}};
  auto const plain = run(x);
  for (run.threads = 1; run.threads <= 3; ++run.threads)
    for (bool const checksum : {false, true})
      for (bool const check : {false, true})
        for (std::size_t const segment : {std::size_t{1}, 2 * (block / 8 + 32), 3 * block}) {
          run.options.checksum = checksum;
          run.options.check = check;
          run.options.segment_bytes = segment;  // one block, two, all six
          CHECK(run(x) == plain);
        }
}

TEST_CASE(
    "sampled: one object with changing weights and magnitudes gives the results of new objects") {
  auto const x = signs<float>(3000, 3, 10);
  auto const steps = [&](bool one_object) {
    return on_ranks(x, [&](in_process& transport, auto& mine) {
      host_executor executor;
      plan kept(mine.size(), sign<>{1.f}, transport, executor, {.algorithm = sampled});
      for (std::uint64_t step = 0; step < 20; ++step) {
        call_options const call{
            .step = step,
            .weight = 1 + static_cast<std::uint32_t>(
                              (step / 4 + static_cast<std::uint64_t>(transport.rank())) % 3)};
        sign<> const codec{1.f + static_cast<float>(step)};
        plan fresh(mine.size(), codec, transport, executor, {.algorithm = sampled});
        kept.set_codec(codec);
        (one_object ? kept : fresh).all_reduce(std::span(mine), call);
        mine[step] -= static_cast<float>(transport.rank()) * 1000;
      }
    });
  };
  CHECK(steps(true) == steps(false));
}

TEST_CASE("sampled: more than 1024 ranks are refused") {
  struct large_world : in_process {
    using in_process::in_process;
    int size() const { return 1025; }
  };
  in_process_world world(1);
  large_world transport(world, 0);
  host_executor executor;
  CHECK_THROWS_WITH_AS(plan(1, sign<>{}, transport, executor, {.algorithm = sampled}),
                       "plan: algorithm sampled: 1025 ranks, it can choose among 1 to 1024",
                       std::invalid_argument);
}
