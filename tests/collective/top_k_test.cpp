
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/feedback/sparsifier.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;
constexpr std::size_t many = 5000;
constexpr double share = 0.02;
std::string const top_k_name = "top_k:share=0.02";

std::vector<std::vector<float>> inputs() {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(many, 9, rank));
  return x;
}
std::vector<float> copy(std::span<float const> x) { return {x.begin(), x.end()}; }

}  // namespace

TEST_CASE(
    "top_k: equals a sparsifier and a lossless all-reduce, and the residual is the unsent rest") {
  for (auto const kind : {algorithm_kind::direct, algorithm_kind::ring}) {
    plan_options const options{.algorithm = {kind}};
    auto const summed = [&](bool by_name) {
      return on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
        auto const x = mine;
        host_executor executor;
        mine.clear();
        auto const keep = [&](std::span<float const> more) {
          mine.insert(mine.end(), more.begin(), more.end());
        };
        auto sum = make_plan<float>(top_k_name, many, transport, executor, options);
        plan exact(many, lossless_sparse<>{}, transport, executor, options);
        error_feedback<float> feedback(many);
        sparsifier largest(many, top_share{share});
        for (std::uint64_t step = 0; step < 4; ++step) {
          call_options const call{.step = step, .op = reduce_op::mean};
          auto y = x;
          bool const scatters = step % 2 == 1;
          if (by_name) {
            scatters ? sum.reduce_scatter(y, feedback, call) : sum.all_reduce(y, feedback, call);
          } else {
            largest(y);
            scatters ? exact.reduce_scatter(y, call) : exact.all_reduce(y, call);
            largest.commit();
          }
          auto const part = sum.shard();
          keep(scatters ? std::span<float const>(y).subspan(part.first, part.count) : y);
          keep(by_name ? feedback.residual() : largest.residual());
        }
      });
    };
    auto const by_hand = summed(false);
    auto const by_name = summed(true);
    for (int rank = 0; rank < ranks; ++rank) {
      auto const r = static_cast<std::size_t>(rank);
      CAPTURE(rank);
      CHECK(first_difference(by_name[r], by_hand[r]) == nowhere);
    }
  }
}

TEST_CASE("top_k: reduce_scatter leaves the rest of x, all_gather sends all of x") {
  on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    auto const before = mine;
    auto sum = make_plan<float>(top_k_name, many, transport, executor,
                                {.algorithm = {algorithm_kind::ring}});
    sum.reduce_scatter(mine);
    auto const part = sum.shard();
    for (std::size_t i = 0; i < many; ++i)
      if (i < part.first || i >= part.first + part.count) REQUIRE(mine[i] == before[i]);
    std::fill_n(mine.begin() + static_cast<std::ptrdiff_t>(part.first), part.count, 7.0f);
    sum.all_gather(mine);
    CHECK(std::ranges::count(mine, 7.0f) == static_cast<std::ptrdiff_t>(many));
  });
}

TEST_CASE("top_k: global compensation holds the values that no rank sent") {
  on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
    auto const x = mine;
    host_executor executor;
    auto sum = make_plan<float>(top_k_name, many, transport, executor);
    global_compensation<float> feedback(many);
    sum.all_reduce(mine, feedback, {.op = reduce_op::mean});
    for (std::size_t i = 0; i < many; ++i) REQUIRE(feedback.compensation()[i] == x[i] - mine[i]);
  });
}

TEST_CASE("top_k: wrong arguments are reported on all ranks, and change nothing") {
  struct fault {
    std::size_t values, of_feedback;
    float spoilt;  ///< first value
    std::string error, words;
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (fault const& wrong :
       {fault{many - 1, many, 1, "disagreement_error", "rank 1 has 4999"},
        fault{many, many - 1, 1, "invalid_argument", "the feedback has not the number of values"},
        fault{many, many, infinity, "nonfinite_error", "NaN"}})
    for (bool const scatters : {false, true}) {
      auto const outcomes = outcomes_on(ranks, [&](in_process& transport) {
        host_executor executor;
        bool const is_wrong = transport.rank() == 1;
        auto x = uniform_values(many, 9, transport.rank());
        auto sum = make_plan<float>(top_k_name, many, transport, executor,
                                    {.algorithm = {algorithm_kind::ring}});
        error_feedback<float> feedback(is_wrong ? wrong.of_feedback : many);
        auto const call = [&] {
          std::span const some = std::span(x).first(is_wrong ? wrong.values : many);
          scatters ? sum.reduce_scatter(some, feedback) : sum.all_reduce(some, feedback);
        };
        error_feedback<float> other(many);
        sum.all_reduce(x, other);  // gives a residual that could get lost
        if (feedback.values() == many) feedback.set_residual(other.residual());
        if (is_wrong) x[0] = wrong.spoilt;
        auto const before = x;
        auto const lost = copy(feedback.residual());
        try {
          call();
        } catch (...) {
          CHECK(first_difference(x, before) == nowhere);
          CHECK(first_difference(copy(feedback.residual()), lost) == nowhere);
          throw;
        }
      });
      CAPTURE(to_text(outcomes));
      CHECK(all_ended_alike(outcomes, wrong.error));
      CHECK(outcomes[0].text.find(wrong.words) != std::string::npos);
    }
}

TEST_CASE("top_k: NaN and infinity propagate where allowed, and get into no residual") {
  auto const found = on_ranks(inputs(), [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    auto sum = make_plan<float>(
        top_k_name, many, transport, executor,
        {.algorithm = {algorithm_kind::direct}, .nonfinite = nonfinite_policy::ignore});
    error_feedback<float> feedback(many);
    if (transport.rank() == 2) mine[17] = std::numeric_limits<float>::infinity();
    sum.all_reduce(mine, feedback);
    CHECK(mine[17] == std::numeric_limits<float>::infinity());
    for (float const lost : feedback.residual()) REQUIRE(is_finite(lost));
  });
  for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
}
