#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/choose.hpp>
#include <hcomp/collective/cost_model.hpp>
#include <hcomp/collective/detail/automatic_agreement.hpp>
#include <hcomp/collective/detail/running_costs.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace hcomp;
using detail::running_costs;
using detail::sum_time;

namespace {

constexpr int ranks = 4;
constexpr std::size_t values = std::size_t{1} << 22;
constexpr double no_limit = 1e-10, gbit10 = 0.8e-9, gbit = 8e-9, mbit100 = 8e-8, mbit10 = 8e-7;

cost_table costs_with(double per_byte) {
  cost_table costs{{5e-5, per_byte, 1e-6}, {}};
  builtin_codecs<float>::for_each([&]<class C>() {
    auto cost = size_of(fit(C{}, ranks));
    double const seconds = std::string(C::name) == "identity" ? 1e-10 : 1e-9;
    cost.encode = cost.merge = cost.decode = seconds;
    cost.pack = cost.unpack = seconds;
    costs.codecs.push_back({C::name, cost});
  });
  return costs;
}
allowed_ways const allowed{.codecs = {"identity", "float_cast:fp16", "thc", "sign"}};

/// A machine that costs what it costs.
struct world {
  double per_byte = gbit;
  double load = 1;
  double error = 1;  ///< of all codecs but identity: their sums take longer than work and link

  double seconds(choice const& way, double link) const {
    auto costs = costs_with(link);
    auto cost = costs.of(way.codec);
    for (auto const figure : detail::codec_times) cost.*figure *= load;
    if (link == 0) costs.link = {};
    return error_of(way) *
           predicted_seconds(way.how, ranks, values, cost, costs.link, {.check = false});
  }
  double error_of(choice const& way) const { return way.codec == "identity" ? 1 : error; }
  sum_time sum(choice const& way) const {
    return {seconds(way, per_byte), seconds(way, 0) / error_of(way)};
  }
  double best(std::vector<choice> const& ways) const {
    double least = std::numeric_limits<double>::infinity();
    for (auto const& way : ways) least = std::min(least, seconds(way, per_byte));
    return least;
  }
};

/// What an automatic_plan does at every look, each after one sum.
struct follower {
  running_costs costs{costs_with(gbit), ranks, values, allowed, {}};
  std::size_t used = costs.quickest();
  bool is_first = true;
  int measured = 0, changes = 0;
  double since_measured = 0;

  double step(world const& w) {
    auto const took = w.sum(costs.ways()[used]);
    since_measured += took.seconds;
    double const measuring = 2e5 * costs.per_byte() / (costs.is_link_quicker() ? 10 : 1);
    if (detail::is_disappointing(took.seconds, costs.seconds(used), is_first)) {
      costs.learn(used, took, w.per_byte);
      ++measured;
    } else if (detail::is_surprising(took.seconds, costs.seconds(used))) {
      costs.learn(used, took);
    }
    if (costs.wants_link(used) && measuring < 0.01 * since_measured) {
      costs.learn_link(w.per_byte);
      since_measured = 0;
      ++measured;
    }
    auto const next = costs.best(used);
    is_first = next != used;
    changes += is_first;
    used = next;
    return took.seconds;
  }
};

}  // namespace

TEST_CASE("running_costs: the first way is the one that choose puts first") {
  for (double const link : {no_limit, gbit10, gbit, mbit100, mbit10}) {
    auto const costs = costs_with(link);
    running_costs const running(costs, ranks, values, allowed, {});
    auto const chosen = choose(costs, ranks, values, allowed);
    CHECK(running.ways().size() == chosen.size());
    CHECK(to_text(running.ways()[running.quickest()]) == to_text(chosen.front()));
    CHECK(running.best(running.quickest()) == running.quickest());
    auto const sorted = running.choices(running.quickest());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      CHECK(sorted[i].seconds() == chosen[i].seconds());
  }
}

TEST_CASE("running_costs: follows a link from any rate to any other in a few sums") {
  // A link that becomes quicker where nobody notices is found when measuring it is cheap enough.
  auto const is_hidden = [](double before, double after) {
    return before < mbit10 && after < before;
  };
  for (double const before : {no_limit, gbit10, gbit, mbit100, mbit10})
    for (double const after : {no_limit, gbit10, gbit, mbit100, mbit10}) {
      CAPTURE(before);
      CAPTURE(after);
      follower plan;
      world w{.per_byte = before};
      for (int i = 0; i < 100; ++i) plan.step(w);
      CHECK(plan.step(w) < 1.08 * w.best(plan.costs.ways()));
      w.per_byte = after;
      for (int i = 0; i < (is_hidden(before, after) ? 100 : 4); ++i) plan.step(w);
      CHECK(plan.step(w) < 1.08 * w.best(plan.costs.ways()));
      int const changes = plan.changes;
      for (int i = 0; i < 50; ++i) plan.step(w);
      CHECK(plan.changes == changes);
    }
}

TEST_CASE("running_costs: busy processors make codecs dear, and they come back") {
  follower plan;
  world w{.per_byte = gbit10};
  for (int i = 0; i < 4; ++i) plan.step(w);
  auto const codec = [&] { return plan.costs.ways()[plan.used].codec; };
  CHECK(codec() != "identity");
  w.load = 12;
  for (int i = 0; i < 12; ++i) plan.step(w);
  CHECK(codec() == "identity");
  CHECK(plan.step(w) < 1.06 * w.best(plan.costs.ways()));
}

TEST_CASE("running_costs: a way that disappoints is tried once while the world stays as it is") {
  follower plan;
  world w{.per_byte = no_limit};
  for (int i = 0; i < 100; ++i) plan.step(w);
  CHECK(plan.costs.ways()[plan.used].codec == "identity");
  w = {.per_byte = 7e-10, .error = 1.9};
  double spent = 0, plain = 0;
  auto const identity = plan.costs.ways()[plan.used];
  auto const& ways = plan.costs.ways();
  CHECK(world{w.per_byte}.best(ways) < 0.9 * w.seconds(identity, w.per_byte));
  CHECK(w.best(ways) > 0.99 * w.seconds(identity, w.per_byte));
  for (int i = 0; i < 200; ++i) {
    spent += plan.step(w);
    plain += w.seconds(identity, w.per_byte);
  }
  // Each of the others once, with the error.
  auto const others = static_cast<double>(ways.size());
  CHECK(plan.changes <= 1 + static_cast<int>(ways.size()));
  CHECK(spent < plain + others * (w.error - 1) * plain / 200);
}

TEST_CASE("running_costs: among rates that change now and then it loses little to plain") {
  std::mt19937 draw(7);
  std::uniform_real_distribution<double> exponent(std::log(no_limit), std::log(mbit10));
  follower plan;
  world w;
  double spent = 0, plain = 0, best = 0;
  for (int change = 0; change < 50; ++change) {
    w.per_byte = std::exp(exponent(draw));
    for (int i = 0; i < 20; ++i) {
      spent += plan.step(w);
      double least = std::numeric_limits<double>::infinity();
      for (auto const& way : plan.costs.ways())
        if (way.codec == "identity") least = std::min(least, w.seconds(way, w.per_byte));
      plain += least;
      best += w.best(plan.costs.ways());
    }
  }
  MESSAGE("seconds: ", spent, ", plain ", plain, ", best at each ", best);
  CHECK(spent < 1.25 * best);
  CHECK(spent < plain);
}

TEST_CASE(
    "recent_times: sums count that come after those left out; the rank that took longest is "
    "believed") {
  detail::recent_times mine(1), other(1);
  for (double const seconds : {50., 3., 1., 2.}) {
    mine.add(seconds, seconds / 2);
    other.add(seconds + 1, seconds);
  }
  mine.unite(other);
  CHECK(mine.median().seconds == 3);
  CHECK(mine.median().work == 2);
  for (int i = 0; i < 8; ++i) mine.add(7, 6);
  CHECK(mine.median().seconds == 7);
}
