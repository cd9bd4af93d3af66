#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <hcomp/node/shared_segment.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

// One value, few that every rank adds, one more than these, and several rounds.
std::vector<std::size_t> const sizes{0, 1, 2048, 2049, 20'000, 600'001};

std::vector<std::vector<float>> inputs(int ranks, std::size_t n) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(n, 7, rank));
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("shared memory: sums and means in rank order, with the same bits on all ranks",
                   V, float, float16) {
  for (int const ranks : {2, 3})
    for (auto const policy : {nonfinite_policy::throw_error, nonfinite_policy::propagate})
      for (auto const n : sizes) {
        auto const x = inputs(ranks, n);
        run_ranks(ranks, [&](in_process& transport) {
          host_executor executor;
          auto plan = node::make_plan<V>("identity", n, transport, executor, {.nonfinite = policy});
          for (auto const op : {reduce_op::sum, reduce_op::mean}) {
            auto const& own = x[static_cast<std::size_t>(transport.rank())];
            std::vector<V> mine(n);
            for (std::size_t i = 0; i < n; ++i) mine[i] = static_cast<V>(own[i]);
            auto const made = plan.all_reduce(mine, {.op = op});
            CHECK(made.messages == message_memory::shared);
            CHECK(made.bytes_sent == 0);
            CHECK(made.weight == static_cast<std::uint64_t>(ranks));
            CHECK(made.error == 0);
            for (std::size_t i = 0; i < n; ++i) {
              accumulator_t<V> sum = 0;
              for (auto const& one : x)
                sum += static_cast<accumulator_t<V>>(static_cast<V>(one[i]));
              if (op == reduce_op::mean) sum /= static_cast<accumulator_t<V>>(ranks);
              REQUIRE(mine[i] == static_cast<V>(sum));
            }
          }
        });
      }
}

TEST_CASE("shared memory: not with another algorithm, checksums or a codec that compresses") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    auto const messages_of = [&](std::string const& codec, plan_options const& options) {
      std::vector<float> x(5000, 1.0f);
      auto const made =
          node::make_plan<float>(codec, x.size(), transport, executor, options).all_reduce(x);
      CHECK(made.bytes_sent > 0);
      CHECK(x == std::vector<float>(x.size(), 2.0f));
      return made.messages;
    };
    CHECK(messages_of("identity", {.algorithm = algorithm::from("direct")}) ==
          message_memory::host);
    CHECK(messages_of("identity", {.checksum = true}) == message_memory::host);
    CHECK(messages_of("fp16", {}) == message_memory::host);
  });
}

TEST_CASE("shared memory: without memory the plan sends messages, and the report says so") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    any_transport over(transport);
    std::vector<std::shared_ptr<node::collectives>> all;
    while (auto one = node::make_shared_memory(over)) all.push_back(std::move(one));
    CHECK(all.size() >= node::shared_segment::most / 2 - 1);  // two ranks in one process
    auto const report_of_plan = [&] {
      std::vector<float> x(5000, 1.0f);
      auto plan = node::make_plan<float>("identity", x.size(), transport, executor, {});
      auto const made = plan.all_reduce(x);
      CHECK(x == std::vector<float>(x.size(), 2.0f));
      return made;
    };
    auto const made = report_of_plan();
    CHECK(made.messages == message_memory::host);
    CHECK(made.bytes_sent > 0);
    all.clear();
    std::vector<float> nothing;  // all ranks have freed theirs
    hcomp::make_plan<float>("identity", 0, transport, executor).all_reduce(nothing);
    CHECK(report_of_plan().messages == message_memory::shared);
  });
}

TEST_CASE("shared memory: errors on all ranks alike, with x unchanged, and the plan stays usable") {
  for (std::size_t const n : {std::size_t{100}, std::size_t{100'000}, std::size_t{300'000}}) {
    CAPTURE(n);
    enum class wrong { size, null, nan, overflow, weight, op, collective };
    struct expected {
      wrong what;
      std::string kind, text;
    };
    for (auto const& one : std::vector<expected>{
             {wrong::size, "disagreement_error", "ranks disagree on the number of values"},
             {wrong::null, "invalid_argument", "on rank 1 x is a null pointer"},
             {wrong::nan, "nonfinite_error", "NaN or infinity on some rank"},
             {wrong::overflow, "nonfinite_error", "NaN or infinity on some rank, or overflow"},
             {wrong::weight, "invalid_argument", "on rank 1 the weight is 0"},
             {wrong::op, "disagreement_error", "ranks disagree on the op (0 sum, 1 mean)"},
             {wrong::collective, "disagreement_error", "ranks disagree on the collective"}}) {
      CAPTURE(one.text);
      auto const outcomes = outcomes_on(2, [&](in_process& transport) {
        host_executor executor;
        auto plan = node::make_plan<float>("identity", n, transport, executor, {});
        bool const is_last = transport.rank() == 1;
        std::vector<float> x(n, 1.0f);
        if (one.what == wrong::nan && is_last) x[n - 1] = std::numeric_limits<float>::quiet_NaN();
        if (one.what == wrong::overflow) x[n / 2] = 3e38f;
        auto const before = x;
        std::span given(x);
        if (one.what == wrong::size && is_last) given = given.first(n - 1);
        if (one.what == wrong::null && is_last) given = {static_cast<float*>(nullptr), n};
        call_options call;
        if (one.what == wrong::weight && is_last) call.weight = 0;
        if (one.what == wrong::op && is_last) call.op = reduce_op::mean;
        auto const outcome = outcome_of([&] {
          if (one.what == wrong::collective && is_last)
            plan.all_gather(given, call);
          else
            plan.all_reduce(given, call);
        });
        CHECK(first_difference(x, before) == nowhere);
        std::vector<float> ones(n, 1.0f);
        CHECK(plan.all_reduce(ones).messages == message_memory::shared);
        CHECK(ones == std::vector<float>(n, 2.0f));
        if (outcome.what == "invalid_argument") throw std::invalid_argument(outcome.text);
        if (outcome.what == "nonfinite_error") throw nonfinite_error(outcome.text);
        if (outcome.what == "disagreement_error") throw disagreement_error(outcome.text);
      });
      for (auto const& outcome : outcomes) {
        CHECK(outcome.what == one.kind);
        CHECK(outcome.text.find(one.text) != std::string::npos);
        CHECK(outcome == outcomes[0]);
      }
    }
  }
}

TEST_CASE("shared memory: weights, error feedback and the halves of an all-reduce use messages") {
  static constexpr std::size_t n = 20'000;
  on_ranks(inputs(3, n), [](in_process& transport, std::vector<float>& x) {
    host_executor executor;
    auto plan = node::make_plan<float>("identity", n, transport, executor, {});
    auto other = hcomp::make_plan<float>("identity", n, transport, executor, {});
    CHECK(plan.encoded().count == n);
    CHECK(plan.shard().first == other.shard().first);
    CHECK(plan.shard_alignment() == other.shard_alignment());
    auto const compare = [&](auto const& call) {
      auto mine = x, expected = x;
      auto const made = call(plan, mine);
      call(other, expected);
      CHECK(made.messages == message_memory::host);
      CHECK(first_difference(mine, expected) == nowhere);
    };
    auto const weight = static_cast<std::uint32_t>(transport.rank()) + 1;  // 1 on rank 0
    compare([&](auto& by, auto& mine) {
      return by.all_reduce(mine, {.weight = weight, .op = reduce_op::mean});
    });
    compare([&](auto& by, auto& mine) {
      error_feedback<float> feedback(n);
      return by.all_reduce(mine, feedback);
    });
    compare([&](auto& by, auto& mine) { return by.reduce_scatter(mine); });
    compare([&](auto& by, auto& mine) { return by.all_gather(mine); });
  });
}
