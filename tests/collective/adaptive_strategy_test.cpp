// optimise sanitized: -O1

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/automatic/detail/adaptive_strategy.hpp>
#include <hcomp/collective/automatic/detail/running_costs.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace hcomp;
using detail::adaptive_strategy;
using detail::call_time;
using detail::running_costs;

namespace {

constexpr int ranks = 4;
constexpr std::size_t values = std::size_t{1} << 22;
constexpr double no_limit = 1e-10, gbit10 = 0.8e-9, gbit = 8e-9, mbit100 = 8e-8, mbit10 = 8e-7;
plan_options const few_segments{.segment_bytes = 1 << 20};  // few enough for the cost model to walk

cost_table costs_with(double per_byte) {
  static std::vector<cost_table::row> const codecs = [] {
    std::vector<cost_table::row> rows;
    builtin_codecs<float>::for_each([&]<class C>() {
      auto cost = size_of(fit(C{}, ranks));
      double const seconds = std::string(C::name) == "identity" ? 1e-10 : 1e-9;
      cost.encode = cost.merge = cost.decode = seconds;
      cost.pack = cost.unpack = seconds;
      rows.push_back({C::name, cost});
    });
    return rows;
  }();
  return {{5e-5, per_byte, 1e-6}, codecs};
}
allowed_strategies const allowed{.codecs = {"identity", "float_cast:fp16", "thc", "sign"}};

/// Simulated costs of a machine: speed of the link, load of the processors, error of the model.
struct world {
  double per_byte = gbit;
  double load = 1;
  double error = 1;  ///< factor on the time of every codec except identity that the model does not
                     ///< predict

  double seconds(choice const& strategy, double link) const {
    auto costs = costs_with(link);
    auto cost = costs.of(strategy.codec);
    for (auto const metric : detail::codec_times) cost.*metric *= load;
    if (link == 0) costs.link = {};
    auto options = few_segments;
    options.check = false;
    return error_of(strategy) *
           predicted_seconds(strategy.algorithm, ranks, values, cost, costs.link, options);
  }
  double error_of(choice const& strategy) const { return strategy.codec == "identity" ? 1 : error; }
  call_time sum(choice const& strategy) const {
    return {seconds(strategy, per_byte), seconds(strategy, 0) / error_of(strategy)};
  }
  double best(std::vector<choice> const& strategies) const {
    double least = std::numeric_limits<double>::infinity();
    for (auto const& strategy : strategies) least = std::min(least, seconds(strategy, per_byte));
    return least;
  }
};

running_costs costs_at(double per_byte) {
  return {costs_with(per_byte), ranks, values, allowed, few_segments};
}

/// Behaves like an automatic_plan that checks its strategy after every all-reduce.
struct follower {
  adaptive_strategy plan{costs_at(gbit), 0.01, 1e-4};
  int measured = 0, changes = 0;

  follower() { plan.take(plan.decide(0)); }
  std::vector<choice> const& strategies() const { return plan.costs().strategies(); }
  choice const& strategy() const { return strategies()[plan.used()]; }

  double step(world const& w) {
    auto const took = w.sum(strategy());
    if (plan.look(took, 1)) {
      plan.learn(took, w.per_byte);
      ++measured;
      changes += plan.take(plan.decide(0));
    } else if (plan.learn(took)) {
      changes += plan.take(plan.decide(0));
    }
    return took.seconds;
  }
  void steps(world const& w, int count) {
    for (int i = 0; i < count; ++i) step(w);
  }
  bool is_right(world const& w) { return step(w) < 1.06 * w.best(strategies()); }
};

/// Behaves like an automatic_plan, which checks its strategy only at scheduled calls.
struct watcher {
  adaptive_strategy plan;
  detail::recent_times times{1};
  std::uint64_t calls = 0, next_look, last_look = 0, looks = 0;
  double seconds_of_last = 0;

  explicit watcher(running_costs costs, double exchange) : plan(std::move(costs), 0.01, exchange) {
    plan.take(plan.decide(0));
    next_look = 1 + plan.decided().calls;
  }
  /// One all-reduce with strategy plan.used().
  /// @param per_byte  seconds per byte of the link, as a measurement would give them
  /// @param sum       returns the call_time of the call
  template <class Sum> double step(double per_byte, Sum const& sum) {
    if (calls >= next_look && times.added() > 0) {
      auto const took = plan.judge(times);
      bool learns = true;
      if (plan.look(took, calls - last_look))
        plan.learn(took, per_byte);
      else
        learns = plan.learn(took);
      last_look = calls;
      ++looks;
      auto const decision = learns ? plan.decide(0) : plan.decided();
      std::uint64_t const cold = plan.take(decision) ? 1 : 0;
      times = detail::recent_times(cold);
      next_look = calls + cold + decision.calls;
      if (cold) seconds_of_last = 0;  // the plan is new: no previous call
    }
    ++calls;
    call_time const took = sum();
    times.add(took.seconds, took.work);
    if (plan.hurries(times, seconds_of_last)) next_look = calls;
    seconds_of_last = took.seconds;
    return took.seconds;
  }
};

}  // namespace

TEST_CASE(
    "running_costs: the first strategy is the one that choose ranks first, if none crowds links") {
  auto rings = allowed;
  rings.algorithms = {algorithm::from("ring")};
  for (double const link : {no_limit, gbit10, gbit, mbit100, mbit10}) {
    running_costs const running(costs_with(link), ranks, values, rings, few_segments);
    auto const chosen = choose(costs_with(link), ranks, values, rings, few_segments);
    CHECK(running.strategies().size() == chosen.size());
    CHECK(to_text(running.strategies()[running.fastest()]) == to_text(chosen.front()));
    CHECK(running.best(running.fastest()) == running.fastest());
    auto const sorted = running.choices(running.fastest());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      CHECK(sorted[i].seconds() == chosen[i].seconds());
  }
}

TEST_CASE(
    "running_costs: chooses the ring for long vectors, and crowds links only for short ones") {
  auto const kind = [](double link, std::size_t count) {
    running_costs const running(costs_with(link), ranks, count, {.codecs = {"identity"}},
                                few_segments);
    return running.strategies()[running.fastest()].algorithm.kind;
  };
  for (double const link : {gbit, mbit100, mbit10})
    CHECK(kind(link, values) == algorithm_kind::ring);
  for (double const link : {no_limit, gbit10, gbit})
    CHECK(detail::facts_of(kind(link, 1000)).crowds_links);
}

TEST_CASE(
    "adaptive_strategy: follows a slower link within four calls, and a faster one once measuring "
    "pays") {
  for (double const before : {no_limit, gbit10, gbit, mbit100, mbit10})
    for (double const after : {no_limit, gbit10, gbit, mbit100, mbit10}) {
      CAPTURE(before);
      CAPTURE(after);
      follower plan;
      world w{.per_byte = before};
      plan.steps(w, 40);
      CHECK(plan.is_right(w));
      w.per_byte = after;
      // While a codec's own work dominates the time, a faster link does not show. Measuring the
      // link takes 1 % of the time.
      plan.steps(w, after < before ? 60 : 4);
      CHECK(plan.is_right(w));
      int const changes = plan.changes;
      plan.steps(w, 20);
      CHECK(plan.changes == changes);
    }
}

TEST_CASE(
    "adaptive_strategy: between scheduled checks, two calls reveal a sudden change of the link") {
  for (auto const& change : {std::pair{gbit, mbit10}, std::pair{mbit100, no_limit}}) {
    double const before = change.first, after = change.second;
    CAPTURE(before);
    CAPTURE(after);
    watcher watch(costs_at(before), 0.1);  // checks are expensive and therefore rare
    world w{.per_byte = before};
    auto const& strategies = watch.plan.costs().strategies();
    auto const step = [&] {
      return watch.step(w.per_byte, [&] { return w.sum(strategies[watch.plan.used()]); });
    };
    while (watch.calls < 1000) step();
    auto const strategy = watch.plan.used();
    auto const turn = watch.next_look - watch.last_look;
    CHECK(turn > 100);
    while (watch.times.added() < 20 || watch.next_look < watch.calls + 20) step();
    CHECK(watch.plan.used() == strategy);

    w.per_byte = after;
    step();
    step();
    step();  // with another strategy if a known one is faster
    auto rings = strategies;
    std::erase_if(rings,
                  [](choice const& one) { return one.algorithm.kind != algorithm_kind::ring; });
    if (after > before) CHECK(step() < 1.06 * w.best(rings));
    CHECK(watch.last_look + 4 >= watch.calls);
  }
}

TEST_CASE(
    "adaptive_strategy: disappointing calls lead to the ring, whatever the link measured "
    "meanwhile") {
  adaptive_strategy plan({costs_with(no_limit), ranks, 1000, allowed, few_segments}, 0.01, 1e-4);
  plan.take(plan.decide(0));
  auto const& strategies = plan.costs().strategies();
  auto const kind = [&] { return strategies[plan.used()].algorithm.kind; };
  CHECK(kind() != algorithm_kind::ring);
  call_time const lost{1, 0};  // seconds, as with lost packets on a congested link
  CHECK(plan.look(lost, 2));
  plan.learn(lost, no_limit);
  plan.take(plan.decide(0));
  CHECK(kind() == algorithm_kind::ring);
  // From here on the calls take their predicted time again.
  for (int i = 0; i < 4000 && kind() == algorithm_kind::ring; ++i) {
    call_time const again{plan.decided().expected, plan.decided().expected};
    if (plan.look(again, 1)) {
      plan.learn(again, no_limit);
      plan.take(plan.decide(0));
    } else if (plan.learn(again)) {
      plan.take(plan.decide(0));
    }
  }
  CHECK(kind() != algorithm_kind::ring);
}

TEST_CASE(
    "adaptive_strategy: a single slow call causes at most one check per period and no change") {
  constexpr double exchange = 0.01;
  watcher watch(costs_at(gbit), exchange);
  world const w{.per_byte = gbit};
  auto const& strategies = watch.plan.costs().strategies();
  while (watch.calls < 1000)
    watch.step(w.per_byte, [&] { return w.sum(strategies[watch.plan.used()]); });
  auto const strategy = watch.plan.used();
  auto const looks_before = watch.looks;
  for (int sums = 0; sums < 4000; ++sums) {
    watch.step(w.per_byte, [&] {
      auto took = w.sum(strategies[watch.plan.used()]);
      if (sums % 5 == 0) took.seconds *= 4;  // another program runs
      return took;
    });
    CHECK(watch.plan.used() == strategy);
  }
  double const spent = 4000 * w.sum(strategies[strategy]).seconds;
  CHECK(static_cast<double>(watch.looks - looks_before) * exchange <= 0.011 * spent);
  CHECK(static_cast<double>(watch.looks - looks_before) * exchange > 0.006 * spent);
}

TEST_CASE("adaptive_strategy: busy processors rule codecs out until they are idle again") {
  follower plan;
  world w{.per_byte = gbit10};
  plan.steps(w, 4);
  CHECK(plan.strategy().codec != "identity");
  w.load = 12;
  plan.steps(w, 12);
  CHECK(plan.strategy().codec == "identity");
  CHECK(plan.is_right(w));
  // Calls with identity do not show the load. Each of two trials of another codec takes 1 % of the
  // time.
  double in_vain = 0, spent = 0;
  for (auto const& strategy : plan.strategies())
    if (strategy.codec != "identity")
      in_vain = std::max(in_vain, 2 * w.seconds(strategy, w.per_byte));
  int const changes = plan.changes;
  while (plan.changes == changes && spent < 1.1 * in_vain / 0.01) spent += plan.step(w);
  CHECK(plan.changes == changes + 1);
  plan.steps(w, 4);
  CHECK(plan.strategy().codec == "identity");  // the load persists
  w.load = 1;
  for (spent = 0; plan.strategy().codec == "identity" && spent < 1.1 * in_vain / 0.01;)
    spent += plan.step(w);
  CHECK(plan.strategy().codec != "identity");
  plan.steps(w, 4);
  CHECK(plan.is_right(w));
}

TEST_CASE("adaptive_strategy: a disappointing strategy is tried once while nothing changes") {
  follower plan;
  world w{.per_byte = no_limit};
  plan.steps(w, 40);
  CHECK(plan.strategy().codec == "identity");
  w = {.per_byte = 7e-10, .error = 1.9};
  double spent = 0, plain = 0;
  auto const identity = plan.strategy();
  auto const& strategies = plan.strategies();
  CHECK(world{w.per_byte}.best(strategies) < 0.9 * w.seconds(identity, w.per_byte));
  CHECK(w.best(strategies) > 0.99 * w.seconds(identity, w.per_byte));
  for (int i = 0; i < 60; ++i) {
    spent += plan.step(w);
    plain += w.seconds(identity, w.per_byte);
  }
  // Each other strategy is tried once, and takes `error` times the predicted time.
  auto const others = static_cast<double>(strategies.size());
  CHECK(plan.changes <= 1 + static_cast<int>(strategies.size()));
  CHECK(spent < plain + others * (w.error - 1) * plain / 60);
}

TEST_CASE(
    "adaptive_strategy: while link rates change now and then, it stays close to the best "
    "strategy") {
  std::mt19937 draw(7);
  std::uniform_real_distribution<double> exponent(std::log(no_limit), std::log(mbit10));
  follower plan;
  world w;
  double spent = 0, plain = 0, best = 0;
  for (int change = 0; change < 20; ++change) {
    w.per_byte = std::exp(exponent(draw));
    double fastest_plain = std::numeric_limits<double>::infinity();
    for (auto const& strategy : plan.strategies())
      if (strategy.codec == "identity")
        fastest_plain = std::min(fastest_plain, w.seconds(strategy, w.per_byte));
    constexpr int sums = 20;
    for (int i = 0; i < sums; ++i) spent += plan.step(w);
    plain += sums * fastest_plain;
    best += sums * w.best(plan.strategies());
  }
  MESSAGE("seconds: ", spent, ", plain ", plain, ", best at each ", best);
  CHECK(spent < 1.25 * best);
  CHECK(spent < plain);
}

TEST_CASE(
    "adaptive_strategy: occasional packet loss does not make it switch strategies repeatedly") {
  // A lost packet delays a call by a fixed time. Probabilities: 0.3 where several ranks send to one
  // at once, 0.02 elsewhere, and 0.4 in the first three calls of a strategy, whose connections are
  // new. For comparison, the ring runs with its own draws.
  constexpr double lost_packet = 0.24, long_call = 0.008;
  constexpr std::size_t count = 1 << 18;
  allowed_strategies const some{.codecs = {"identity", "float_cast:fp16", "thc"}};
  double spent = 0, by_ring = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 draw(seed);
    std::normal_distribution<double> noise(0, 0.08);
    std::uniform_real_distribution<double> chance(0, 1);
    watcher watch({costs_with(gbit), ranks, count, some, {}}, 3e-4);
    auto const& strategies = watch.plan.costs().strategies();
    auto const ring =
        static_cast<std::size_t>(std::find_if(strategies.begin(), strategies.end(),
                                              [](choice const& strategy) {
                                                return to_text(strategy).starts_with("thc by ring");
                                              }) -
                                 strategies.begin());
    for (double const per_byte :
         {mbit10, 5 * no_limit, gbit, mbit100, 5 * no_limit, mbit10, gbit, 5 * no_limit}) {
      std::vector<int> sums(strategies.size());
      auto const took = [&](std::size_t strategy, double link) {
        auto costs = costs_with(link);
        if (link == 0) costs.link = {};
        return predicted_seconds(strategies[strategy].algorithm, ranks, count,
                                 costs.of(strategies[strategy].codec), costs.link,
                                 {.check = false});
      };
      auto const lost = [&](std::size_t strategy) {
        if (took(strategy, per_byte) < long_call) return 0.;
        bool const crowds = detail::facts_of(strategies[strategy].algorithm.kind).crowds_links;
        double const odds = sums[strategy]++ < 3 ? 0.4 : crowds ? 0.3 : 0.02;
        return chance(draw) < odds ? lost_packet : 0;
      };
      for (double passed = 0; passed < 6;) {
        double const beside = took(ring, per_byte) + lost(ring),
                     seconds = watch.step(per_byte * std::exp(noise(draw)), [&]() -> call_time {
                       std::size_t const strategy = watch.plan.used();
                       return {took(strategy, per_byte) * std::exp(noise(draw)) + lost(strategy),
                               took(strategy, 0)};
                     });
        spent += seconds;
        by_ring += beside;
        passed += seconds + beside;
      }
    }
  }
  MESSAGE("seconds: ", spent, ", thc by the ring ", by_ring);
  CHECK(spent < 1.1 * by_ring);
}

TEST_CASE("recent_times: ignores the cold calls, and takes the time of the slowest rank") {
  detail::recent_times mine(1), other(1);
  for (double const seconds : {50., 3., 1., 2.}) {
    mine.add(seconds, seconds / 2);
    other.add(seconds + 1, seconds);
  }
  mine.unite(other);
  CHECK(mine.median().seconds == 3);
  CHECK(mine.median().work == 2);
  CHECK(mine.nearest(2.9).seconds == 3);
  CHECK(mine.nearest(2.9).work == 2);
  CHECK(mine.nearest(1).seconds == 2);
  for (int i = 0; i < 8; ++i) mine.add(7, 6);
  CHECK(mine.median().seconds == 7);
}
