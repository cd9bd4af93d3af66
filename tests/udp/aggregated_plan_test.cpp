#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/aggregated_plan.hpp>
#include <hcomp/udp/aggregation_server.hpp>
#include <hcomp/udp/predict.hpp>
#include <hcomp/udp/statistics.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

/// A server in a thread of its own.
class running_server {
 public:
  explicit running_server(udp::server_options const& options = {})
      : server_(udp::address("127.0.0.1:0"), options), thread_([this] {
          while (!is_over_) server_.serve(1ms);
        }) {}
  ~running_server() { stop(); }

  std::string address() const { return server_.local(); }
  /// Stops the server: no datagram is answered any more.
  void stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  udp::server_stats stats() {
    stop();
    return server_.stats();
  }

 private:
  std::atomic<bool> is_over_ = false;
  udp::aggregation_server server_;
  std::thread thread_;
};

std::vector<std::vector<float>> vectors(int ranks, std::size_t values, std::uint64_t seed) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(values, seed, rank));
  return x;
}

/// Makes a plan of four values with a server that has `options`, and calls it once.
std::vector<outcome> outcomes_with(udp::server_options const& options) {
  running_server server(options);
  return outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(4, thc<float>(), transport, {.aggregators = {server.address()}});
    std::vector<float> x(4);
    plan.all_reduce(std::span(x));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("aggregated_plan: sums and means are the codec's own, bit for bit", C,
                   thc<float>, uniform_thc<float>) {
  running_server one, two;
  for (int const ranks : {1, 4})  // P times a mean is exact
    for (std::size_t const values : {0, 1, 1000, 20'000}) {
      CAPTURE(ranks);
      CAPTURE(values);
      auto const x = vectors(ranks, values, 5);
      auto const fitted = C{}.fitted(static_cast<std::uint32_t>(ranks));
      auto mean = mean_of_blocks(fitted, x, {.seed = 2, .step = 7, .tensor = 1});
      auto const got = on_ranks(x, [&](in_process& transport, std::vector<float>& own) {
        udp::aggregated_plan plan(values, C{}, transport,
                                  {.aggregators = {one.address(), two.address()}});
        auto again = own;
        auto const stats = plan.all_reduce(
            std::span(own), {.seed = 2, .step = 7, .tensor = 1, .op = reduce_op::mean});
        CHECK(stats.weight == static_cast<std::uint64_t>(ranks));
        CHECK((values == 0 || stats.bytes_sent > values * 4 / 8));
        plan.all_reduce(std::span(again), {.seed = 2, .step = 7, .tensor = 1});
        for (auto& value : again) value /= static_cast<float>(ranks);
        CHECK(first_difference(again, own) == nowhere);
      });
      for (auto const& own : got) CHECK(first_difference(own, mean) == nowhere);
    }
  CHECK(one.stats().jobs_left == 8);
}

TEST_CASE(
    "udp::predict: an all-reduce takes the time of its packets on one link, for any number of "
    "ranks") {
  // A second per byte and no other cost. A packet has 24 bytes of frame, 32 of header, the
  // members, and 1024 results of 8 bits or 512 of 16.
  link_cost const link{.seconds_per_byte = 1};
  std::size_t const values = 1 << 20;
  for (int const ranks : {2, 8}) {
    auto const fit = thc<float>{}.fitted(static_cast<std::uint32_t>(ranks));
    auto const eight = udp::predict(ranks, values, size_of(fit), link);
    CHECK(eight.all_gather == 1024 * (24 + 32 + 1024 + 1));
    CHECK(eight.reduce_scatter == 0);
    auto const wide = thc<float>({.bits = 8, .granularity = 255}).fitted(2);
    CHECK(udp::predict(2, values, size_of(wide), link).all_gather == 2048 * (24 + 32 + 1024 + 1));
  }
  CHECK_THROWS_AS(udp::predict(2, values, size_of(identity<float>{}), link), std::invalid_argument);
}

TEST_CASE("aggregated_plan: error feedback keeps the residual of sending") {
  // The means of 40 steps plus the final residual equal the inputs: P float roundings of a step
  // near 1.
  running_server server;
  constexpr int ranks = 2, steps = 40;
  constexpr std::size_t values = 300;
  auto const x = vectors(ranks, values, 6);
  std::vector<std::vector<double>> sums(ranks, std::vector<double>(values));
  std::vector<std::vector<float>> residuals(ranks);
  on_ranks(x, [&](in_process& transport, std::vector<float>& own) {
    auto const me = static_cast<std::size_t>(transport.rank());
    udp::aggregated_plan plan(values, thc<float>({.bits = 2}), transport,
                              {.aggregators = {server.address()}});
    error_feedback<float> feedback(values);
    for (int step = 0; step < steps; ++step) {
      auto mean = x[me];
      plan.all_reduce(std::span(mean), feedback, {.op = reduce_op::mean});
      for (std::size_t i = 0; i < values; ++i) sums[me][i] += mean[i];
    }
    own.assign(feedback.residual().begin(), feedback.residual().end());
    residuals[me] = own;
  });
  for (std::size_t i = 0; i < values; ++i) {
    double const given = steps * (double{x[0][i]} + x[1][i]) / ranks;
    double const left = (double{residuals[0][i]} + residuals[1][i]) / ranks;
    REQUIRE(std::abs(given - left - sums[0][i]) < 1e-4);
  }
}

TEST_CASE("aggregated_plan: an unreachable or refusing aggregator is one error on all ranks") {
  auto const start = std::chrono::steady_clock::now();
  std::string silent;
  {
    running_server server;  // the port of `server` is free again
    silent = server.address();
  }
  auto const unreached = outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(4, thc<float>(), transport,
                              {.aggregators = {silent}, .join_timeout = 150ms});
  });
  CHECK_MESSAGE(all_ended_alike(unreached, "transport_error"), to_text(unreached));
  CHECK(unreached[0].text.find("rank 0: udp: aggregator " + silent +
                               " did not answer rank 0 of job ") == 0);
  CHECK(unreached[0].text.find(" within 150 ms") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < 10s);

  // An aggregator that was joined learns that no other worker comes: its job ends at once.
  running_server answers;
  auto const half = outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(4, thc<float>(), transport,
                              {.aggregators = {answers.address(), silent}, .join_timeout = 150ms});
  });
  CHECK_MESSAGE(all_ended_alike(half, "transport_error"), to_text(half));
  CHECK(udp::ask_for_statistics(udp::address(answers.address()), 10s).jobs_left == 1);

  auto const full = outcomes_with({.jobs = 0});
  CHECK_MESSAGE(all_ended_alike(full, "transport_error"), to_text(full));
  CHECK(full[0].text.find("as many jobs, or as much memory, as it allows") != std::string::npos);

  auto const unknown = outcomes_on(2, [&](in_process& transport) {
    udp::aggregated_plan plan(4, thc<float>(), transport, {.aggregators = {"nowhere"}});
  });
  CHECK_MESSAGE(all_ended_alike(unknown, "invalid_argument"), to_text(unknown));
  CHECK(unknown[0].text == "rank 0: udp: address 'nowhere'; it is HOST:PORT");
}

TEST_CASE("aggregated_plan: ranks with different arguments all get an error") {
  running_server server;
  auto const sizes = outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(transport.rank() == 2 ? 5 : 4, thc<float>(), transport,
                              {.aggregators = {server.address()}});
  });
  CHECK_MESSAGE(all_ended_alike(sizes, "disagreement_error"), to_text(sizes));
  CHECK(sizes[0].text ==
        "all_reduce: ranks disagree on the number of values: rank 0 has 4, rank 2 has 5");
  // These have the same levels and packets.
  auto const codecs = outcomes_on(3, [&](in_process& transport) {
    uniform_thc<float> const codec({.truncation = transport.rank() == 1 ? 0.25 : 0.125});
    udp::aggregated_plan plan(4, codec, transport, {.aggregators = {server.address()}});
    std::vector<float> x(4, 1.0f);
    plan.all_reduce(std::span(x));
  });
  CHECK_MESSAGE(all_ended_alike(codecs, "disagreement_error"), to_text(codecs));
  CHECK(
      codecs[0].text ==
      "all_reduce: ranks disagree on parameter 3 of the codec: rank 0 has 0.125, rank 1 has 0.25");
  auto const calls = outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(4, thc<float>(), transport, {.aggregators = {server.address()}});
    auto const me = static_cast<std::size_t>(transport.rank());
    auto const fails = [&](char const* what, std::vector<float> x, call_options const& call) {
      auto const before = x;
      auto const end = outcome_of([&] { plan.all_reduce(std::span(x), call); });
      CHECK_MESSAGE(end.what == what, end.text);
      CHECK(first_difference(x, before) == nowhere);
    };
    std::vector<float> const four(4, 1.0f);
    fails("disagreement_error", four, {.step = me});
    fails("disagreement_error", std::vector<float>(me == 1 ? 3 : 4), {});
    fails("invalid_argument", std::vector<float>(3), {});
    fails("invalid_argument", four, {.weight = me == 1 ? 2u : 1u});
    auto bad = four;
    if (me == 1) bad[2] = std::numeric_limits<float>::infinity();
    fails("nonfinite_error", bad, {});
    auto good = four;  // the plan still works
    plan.all_reduce(std::span(good));
    CHECK(std::abs(good[0] - 3) < 0.5);
  });
  CHECK_MESSAGE(all_ended_alike(calls, "returned"), to_text(calls));
}

TEST_CASE("aggregated_plan: with a deadline and without checks no rank waits for a late one") {
  running_server server;
  constexpr std::size_t values = 3000;
  auto const x = vectors(3, values, 8);
  std::atomic<int> ended = 0, ended_before_the_last = 0;
  auto const got = on_ranks(x, [&](in_process& transport, std::vector<float>& own) {
    udp::aggregated_plan plan(values, thc<float>(), transport,
                              {.aggregators = {server.address()},
                               .deadline = 100ms,
                               .resend_after = 20ms,
                               .check = false});
    bool const is_late = transport.rank() == 2;
    if (is_late) {
      for (int n = 0; n < 2000 && ended < 2; ++n) std::this_thread::sleep_for(10ms);
      ended_before_the_last = ended.load();
    }
    plan.all_reduce(std::span(own), {.step = 0, .op = reduce_op::mean});
    ++ended;
    CHECK(plan.last().lost == 0);
    CHECK(plan.last().contributions == 2 * plan.last().chunks);
    CHECK(plan.last().left_out == (is_late ? plan.last().chunks : 0));
  });
  CHECK(ended_before_the_last == 2);
  auto const two = mean_of_blocks(thc<float>{}.fitted(3), {x[0], x[1]}, {});
  for (auto const& own : got) CHECK(first_difference(own, two) == nowhere);
}

TEST_CASE("aggregated_plan: a call ends within the timeouts when its aggregator disappears") {
  running_server server;
  auto const ends = outcomes_on(3, [&](in_process& transport) {
    udp::aggregated_plan plan(3000, thc<float>(), transport,
                              {.aggregators = {server.address()},
                               .norm_timeout = 100ms,
                               .timeout = 100ms,
                               .resend_after = 20ms});
    std::vector<float> x(3000, 1.0f);
    plan.all_reduce(std::span(x));
    std::uint64_t arrived = 0;
    unite_records(transport, 0, arrived, [](auto& a, auto b) { a |= b; });
    if (transport.rank() == 0) server.stop();
    unite_records(transport, 0, arrived, [](auto& a, auto b) { a |= b; });
    plan.all_reduce(std::span(x));
  });
  CHECK_MESSAGE(all_ended_alike(ends, "transport_error"), to_text(ends));
  CHECK_MESSAGE(ends[0].text.find("none of 4 sums came from 1 aggregators") != std::string::npos,
                ends[0].text);
  CHECK(ends[0].text.ends_with("; aggregators: " + server.address()));
}
