
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/plan/marsit.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class V> using synchronizer = marsit<V, in_process, host_executor>;

/// Results on all ranks: after round t, g[t] is the common update, c[t][rank] the compensation.
template <class V> struct history {
  using number = accumulator_t<V>;
  std::vector<std::vector<V>> g;
  std::vector<std::vector<std::vector<number>>> c;
  std::vector<std::vector<std::vector<V>>> u;  // [t][rank], the inputs
  std::vector<double> shares;                  // weights of the ranks in the mean
  bool same_on_all = true;                     // g, in every round, bit for bit

  std::size_t rounds() const { return g.size(); }
  std::size_t values() const { return g[0].size(); }
  double mean_u(std::size_t t, std::size_t i) const { return mean(u[t], i); }
  double mean_c(std::size_t t, std::size_t i) const { return mean(c[t], i); }

 private:
  template <class X> double mean(std::vector<X> const& of_ranks, std::size_t i) const {
    double sum = 0;
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      sum += shares[rank] * static_cast<double>(of_ranks[rank][i]);
    return sum;
  }
};

struct run_options {
  int ranks = 3;
  std::size_t values = 70;
  int rounds = 40;
  std::vector<std::uint32_t> weights = {};
};

/// Updates with a constant difference between ranks, and noise: these make compensation grow.
template <class V> std::vector<V> update_of(int rank, std::size_t round, std::size_t values) {
  auto u = uniform_values<V>(values, 1000 + round, rank);
  for (std::size_t i = 0; i < values; ++i)
    u[i] = static_cast<V>(static_cast<float>(u[i]) * 0.01f +
                          0.002f * static_cast<float>((rank + static_cast<int>(i)) % 5 - 2));
  return u;
}

template <class V = float> history<V> run(run_options const& how, marsit_options const& options) {
  auto const ranks = static_cast<std::size_t>(how.ranks);
  auto const rounds = static_cast<std::size_t>(how.rounds);
  history<V> all;
  all.g.resize(rounds);
  all.c.resize(rounds, std::vector<std::vector<accumulator_t<V>>>(ranks));
  all.u.resize(rounds, std::vector<std::vector<V>>(ranks));
  double total = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    all.shares.push_back(how.weights.empty() ? 1 : how.weights[rank]);
  for (double const share : all.shares) total += share;
  for (double& share : all.shares) share /= total;

  std::vector<std::vector<std::vector<V>>> g(ranks, std::vector<std::vector<V>>(rounds));
  run_ranks(how.ranks, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    synchronizer<V> synchronize(how.values, options, transport, executor);
    for (std::size_t t = 0; t < rounds; ++t) {
      auto update = update_of<V>(transport.rank(), t, how.values);
      all.u[t][rank] = update;
      synchronize(std::span(update), how.weights.empty() ? 1 : how.weights[rank]);
      g[rank][t] = update;
      auto const c = synchronize.state().compensation();
      all.c[t][rank].assign(c.begin(), c.end());
    }
  });
  all.g = g[0];
  for (auto const& of_rank : g)
    for (std::size_t t = 0; t < rounds; ++t)
      all.same_on_all &= first_difference(of_rank[t], all.g[t]) == nowhere;
  return all;
}

/// Invariants 13 and 14: with x the model, x - mean(c) = first x - sum of mean(u) after every
/// round. Returns the largest violation in units of epsilon * t * max(|x|, |c|). In every round
/// every rank rounds a few times, by half of `epsilon` of at most that size.
template <class V> double worst_violation(history<V> const& run, double epsilon) {
  double worst = 0;
  for (std::size_t i = 0; i < run.values(); ++i) {
    double x = 0, wanted = 0, largest = 0;
    for (std::size_t t = 0; t < run.rounds(); ++t) {
      x -= static_cast<double>(run.g[t][i]);
      wanted += run.mean_u(t, i);
      largest = std::max(largest, std::abs(x));
      for (auto const& c : run.c[t]) largest = std::max(largest, std::abs(double{c[i]}));
      for (auto const& u : run.u[t])
        largest = std::max(largest, std::abs(static_cast<double>(u[i])));
      double const violation = std::abs(x - run.mean_c(t, i) + wanted);
      worst = std::max(worst, violation / (epsilon * static_cast<double>(t + 1) * largest));
    }
  }
  return worst;
}

bool is_full(std::size_t t, marsit_options const& options) {  // t counts from 0
  return t < options.warm_up || (options.period > 0 && (t + 1) % options.period == 0);
}

}  // namespace

TEST_CASE(
    "marsit: the model lags behind the exact one by the mean compensation, after every round") {
  // 1e-6 t max(|x|, |c|): about ten roundings of 2^-24 per round
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "sampled"})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (std::uint64_t const period : {0, 1, 7}) {
        CAPTURE(how);
        CAPTURE(ranks);
        CAPTURE(period);
        marsit_options const options{.sign_step = 0.004,
                                     .period = period,
                                     .warm_up = 3,
                                     .seed = 1,
                                     .plan = {.algorithm = algorithm::from(how)}};
        auto const all = run<float>({.ranks = ranks}, options);
        CHECK(all.same_on_all);
        CHECK(worst_violation(all, 1e-6) < 1);
      }
}

TEST_CASE("marsit: the invariant holds for weighted ranks, with the weighted means") {
  for (std::string const how : {"ring", "torus", "sampled"}) {
    CAPTURE(how);
    auto const all =
        run<float>({.ranks = 4, .weights = {1, 5, 2, 9}},
                   {.sign_step = 0.004, .period = 9, .plan = {.algorithm = algorithm::from(how)}});
    CHECK(all.same_on_all);
    CHECK(worst_violation(all, 1e-6) < 1);
  }
}

TEST_CASE("marsit: the invariant holds for every value of several blocks and parts of blocks") {
  for (std::size_t const values :
       {0, 1, 63, 64, 65, 511, 512, 513, 4096, 4097, 32767, 32769, 70000}) {
    CAPTURE(values);
    auto const all = run<float>({.values = values, .rounds = 5}, {.sign_step = 0.004, .period = 3});
    CHECK(all.same_on_all);
    CHECK(worst_violation(all, 1e-6) < 1);
  }
}

TEST_CASE("marsit: the invariant holds for double to double's precision, and for 16-bit values") {
  // 1e-6 / 2^29 for double
  auto const doubles = run<double>({}, {.sign_step = 0.004, .period = 8});
  CHECK(doubles.same_on_all);
  CHECK(worst_violation(doubles, 1e-6 * 0x1p-29) < 1);
  // c is float. It is computed from the update after rounding to 16 bits. Only full rounds lose
  // bits, and this test has none.
  CHECK(worst_violation(run<float16>({}, {.sign_step = 0.004, .period = 0}), 1e-6) < 1);
  CHECK(worst_violation(run<bfloat16>({}, {.sign_step = 0.004, .period = 0}), 1e-6) < 1);
}

TEST_CASE(
    "marsit: since the last full round, mean(c) plus the applied updates is the sum of the "
    "inputs") {
  marsit_options const options{.sign_step = 0.004, .period = 10};
  auto const all = run<float>({.ranks = 5}, options);
  double worst = 0;
  for (std::size_t i = 0; i < all.values(); ++i) {
    double done = 0, wanted = 0;
    for (std::size_t t = 0; t < all.rounds(); ++t) {
      if (is_full(t, options)) {
        done = wanted = 0;
        continue;
      }
      done += double{all.g[t][i]};
      wanted += all.mean_u(t, i);
      worst = std::max(worst, std::abs(all.mean_c(t, i) + done - wanted));
    }
  }
  CHECK(worst <= 1e-6 * 9 * 0.2);  // 9 rounds, |c| and |x| stay below 9 (0.01 + 0.004 + 0.004)
}

TEST_CASE("marsit: c of two ranks differs by their updates, for all random bits") {
  auto const of_seed = [](std::uint64_t seed) {
    return run<float>({.ranks = 4}, {.sign_step = 0.004, .period = 0, .seed = seed});
  };
  auto const a = of_seed(1), b = of_seed(2);
  CHECK(a.g != b.g);  // the bits differ
  for (auto const* all : {&a, &b}) {
    double worst = 0;
    for (std::size_t m = 0; m < 4; ++m)
      for (std::size_t i = 0; i < all->values(); ++i) {
        double wanted = 0;
        for (std::size_t t = 0; t < all->rounds(); ++t) {
          wanted += double{all->u[t][m][i]} - double{all->u[t][0][i]};
          worst = std::max(worst, std::abs(double{all->c[t][m][i]} - all->c[t][0][i] - wanted));
        }
      }
    CHECK(worst <= 1e-6 * 40 * 1);  // 40 rounds, |c| below 1
  }
}

TEST_CASE("marsit: after a full round c is exactly 0 and g the mean in single precision") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "sampled"})
    for (int const ranks : {1, 2, 3, 4, 5}) {
      CAPTURE(how);
      CAPTURE(ranks);
      marsit_options const options{.sign_step = 0.004,
                                   .period = 6,
                                   .warm_up = 2,
                                   .plan = {.algorithm = algorithm::from(how)}};
      auto const all = run<float>({.ranks = ranks, .rounds = 20}, options);
      double worst = 0;
      for (std::size_t t = 0; t < all.rounds(); ++t) {
        bool zero = true, all_of_size = true;
        for (std::size_t i = 0; i < all.values(); ++i) {
          for (auto const& c : all.c[t]) zero &= c[i] == 0;
          all_of_size &= std::abs(all.g[t][i]) == 0.004f;
          if (!is_full(t, options)) continue;
          double mean = 0, sizes = 0;
          for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
            double const before = t == 0 ? 0 : double{all.c[t - 1][rank][i]};
            mean += (double{all.u[t][rank][i]} + before) / ranks;
            sizes += std::abs(double{all.u[t][rank][i]}) + std::abs(before);
          }
          // u + c, ranks - 1 additions and a division, each rounded by 2^-24 of at most `sizes`
          worst = std::max(worst,
                           std::abs(double{all.g[t][i]} - mean) / ((ranks + 2) * 0x1p-24 * sizes));
        }
        CAPTURE(t);
        CHECK(zero == is_full(t, options));
        CHECK(all_of_size == !is_full(t, options));
      }
      CHECK(worst <= 1);
    }
}

TEST_CASE("marsit: every round, seed and tensor draws anew whose sign it takes") {
  // Two ranks with always opposite signs: two independent draws of 2000 fair bits differ in 1000
  // places, with a standard deviation of sqrt(500).
  constexpr std::size_t values = 2000;
  for (std::string const how : {"ring", "sampled"}) {
    CAPTURE(how);
    auto const draws = [&](std::uint64_t seed, std::uint64_t tensor) {
      std::vector<std::vector<float>> rounds;
      run_ranks(2, [&](in_process& transport) {
        host_executor executor;
        synchronizer<float> synchronize(values,
                                        {.sign_step = 0.001,
                                         .period = 0,
                                         .seed = seed,
                                         .tensor = tensor,
                                         .plan = {.algorithm = algorithm::from(how)}},
                                        transport, executor);
        for (int t = 0; t < 5; ++t) {
          std::vector<float> update(values, transport.rank() == 0 ? 1.f : -1.f);
          synchronize(std::span(update));
          if (transport.rank() == 0) rounds.push_back(update);
        }
      });
      return rounds;
    };
    auto all = draws(1, 1);
    for (auto const& other : {draws(2, 1), draws(1, 2)})
      all.insert(all.end(), other.begin(), other.end());
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        CAPTURE(a);
        CAPTURE(b);
        double differ = 0;
        for (std::size_t i = 0; i < values; ++i) differ += all[a][i] != all[b][i];
        CHECK(std::abs(differ - values / 2.0) < 4.5 * std::sqrt(values / 4.0));
      }
  }
}

TEST_CASE(
    "marsit: a coordinate without gradient moves by one sign step to and fro and never drifts") {
  for (std::string const how : {"ring", "sampled"}) {
    std::vector<float> trace;
    run_ranks(3, [&](in_process& transport) {
      host_executor executor;
      synchronizer<float> synchronize(
          2, {.sign_step = 0.1, .period = 0, .plan = {.algorithm = algorithm::from(how)}},
          transport, executor);
      float x = 0;
      for (int t = 0; t < 100; ++t) {
        std::vector<float> update{0.f, -0.f};
        synchronize(std::span(update));
        if (update[0] != update[1]) throw std::runtime_error("-0 is not treated as +0");
        x -= update[0];
        if (transport.rank() == 0) trace.push_back(x);
      }
    });
    for (std::size_t t = 0; t < trace.size(); ++t) {
      CAPTURE(t);
      CHECK(trace[t] == (t % 2 == 0 ? -0.1f : 0.f));
    }
  }
}

TEST_CASE("marsit: a flush limit bounds every full round, leaves equal c, and loses nothing") {
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    marsit_options const options{.sign_step = 0.0005, .period = 8, .flush_limit = 0.003};
    auto const all = run<float>({.ranks = ranks, .rounds = 48}, options);
    CHECK(all.same_on_all);
    CHECK(worst_violation(all, 1e-6) < 1);
    std::size_t clipped = 0, unclipped = 0;
    for (std::size_t t = 7; t < all.rounds(); t += 8)
      for (std::size_t i = 0; i < all.values(); ++i) {
        float const g = all.g[t][i];
        REQUIRE(std::abs(g) <= 0.003f);
        for (auto const& c : all.c[t]) REQUIRE(c[i] == all.c[t][0][i]);
        if (std::abs(g) == 0.003f) ++clipped;
        if (all.c[t][0][i] == 0) ++unclipped;
        REQUIRE((all.c[t][0][i] == 0 || std::abs(g) == 0.003f));
      }
    CHECK(clipped > 10);
    CHECK(unclipped > 10);
  }
}

TEST_CASE("marsit: next_is_full() announces the rounds of warm-up and period") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    struct {
      std::uint64_t period, warm_up;
      std::string rounds;
    } const cases[] = {{4, 2, "FFsFsssFsssF"}, {0, 0, "ssssssssssss"}, {1, 0, "FFFFFFFFFFFF"},
                       {0, 5, "FFFFFsssssss"}, {5, 0, "ssssFssssFss"}, {100, 0, "ssssssssssss"}};
    for (auto const& one : cases) {
      synchronizer<float> synchronize(
          10, {.sign_step = 0.5, .period = one.period, .warm_up = one.warm_up}, transport,
          executor);
      std::string rounds;
      for (int t = 0; t < 12; ++t) {
        std::vector<float> update(10, 0.125f);
        rounds += synchronize.next_is_full() ? 'F' : 's';
        synchronize(std::span(update));
        if ((update[3] == 0.5f || update[3] == -0.5f) != (rounds.back() == 's'))
          throw std::runtime_error("round " + std::to_string(t) + " was not as announced");
      }
      if (rounds != one.rounds) throw std::runtime_error(rounds + " is not " + one.rounds);
      if (synchronize.state().rounds() != 12) throw std::runtime_error("rounds() is not 12");
    }
  });
}

TEST_CASE(
    "marsit: set_sign_step takes effect from the next round on, a refused step has no effect") {
  for (std::string const how : {"ring", "sampled"})
    run_ranks(2, [&](in_process& transport) {
      host_executor executor;
      synchronizer<float> synchronize(
          3, {.sign_step = 0.5, .period = 0, .plan = {.algorithm = algorithm::from(how)}},
          transport, executor);
      auto const step = [&] {
        std::vector<float> update(3, 1.f);
        synchronize(std::span(update));
        return std::abs(update[1]);
      };
      if (step() != 0.5f) throw std::runtime_error("first step");
      synchronize.set_sign_step(0.25);
      if (step() != 0.25f) throw std::runtime_error("second step");
      for (double const wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity()}) {
        auto const ended = outcome_of([&] { synchronize.set_sign_step(wrong); });
        if (ended.what != "invalid_argument") throw std::runtime_error("took " + ended.text);
        if (step() != 0.25f) throw std::runtime_error("step after a refusal");
      }
      if (synchronize.lag() < 3 || synchronize.lag() > 30)
        throw std::runtime_error("lag " + std::to_string(synchronize.lag()));
    });
}

TEST_CASE("marsit: lag() is the largest |c| in sign steps") {
  run_ranks(1, [](in_process& transport) {
    host_executor executor;
    synchronizer<float> synchronize(3, {.sign_step = 0.25, .period = 0}, transport, executor);
    if (synchronize.lag() != 0) throw std::runtime_error("lag at the start");
    std::vector<float> update{1.f, -2.f, 0.5f};
    synchronize(std::span(update));  // c = 0.75, -1.75, 0.25
    if (synchronize.lag() != 7) throw std::runtime_error(std::to_string(synchronize.lag()));
    synchronize.set_sign_step(0.5);
    if (synchronize.lag() != 3.5) throw std::runtime_error(std::to_string(synchronize.lag()));
  });
}

TEST_CASE("marsit: sign steps and flush limits that are not above 0 are refused with their value") {
  in_process_world world(1);
  in_process transport(world, 0);
  host_executor executor;
  auto const made = [&](marsit_options const& options) {
    return outcome_of([&] { synchronizer<float>(1, options, transport, executor); });
  };
  CHECK(made({.sign_step = 0}) ==
        outcome{"invalid_argument", "marsit: sign_step is 0, as a parameter 0; it must be above 0",
                -1});
  CHECK(made({.sign_step = -0.5}).text ==
        "marsit: sign_step is -0.5, as a parameter -0.5; it must be above 0");
  CHECK(made({.sign_step = 1e-50}).text ==
        "marsit: sign_step is 1e-50, as a parameter 0; it must be above 0");
  CHECK(made({.flush_limit = 0}).text ==
        "marsit: flush_limit is 0, as a parameter 0; it must be above 0");
  CHECK(made({.flush_limit = std::numeric_limits<double>::quiet_NaN()}).what == "invalid_argument");
  CHECK(made({.sign_step = std::numeric_limits<double>::infinity()}).what == "invalid_argument");
  CHECK(made({.plan = {.algorithm = algorithm::from("torus:2x2")}}).what == "invalid_argument");
}

TEST_CASE("marsit: after save and restore in the middle, it continues bit for bit") {
  for (std::string const how : {"ring", "torus", "sampled"}) {
    CAPTURE(how);
    constexpr int ranks = 4;
    constexpr std::size_t values = 500;
    marsit_options const options{
        .sign_step = 0.004, .period = 9, .seed = 5, .plan = {.algorithm = algorithm::from(how)}};
    std::vector<bool> same(ranks);
    std::vector<std::vector<float>> straight(ranks), resumed(ranks);
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor;
      auto const go_on = [&](auto& synchronize, std::size_t from, std::size_t to,
                             std::vector<float>& model) {
        for (std::size_t t = from; t < to; ++t) {
          auto update = update_of<float>(transport.rank(), t, values);
          synchronize(std::span(update));
          for (std::size_t i = 0; i < values; ++i) model[i] -= update[i];
        }
      };
      straight[rank].resize(values);
      synchronizer<float> one(values, options, transport, executor);
      go_on(one, 0, 40, straight[rank]);

      resumed[rank].resize(values);
      std::vector<std::byte> saved;
      {
        synchronizer<float> first(values, options, transport, executor);
        go_on(first, 0, 23, resumed[rank]);
        saved = first.save();
      }
      synchronizer<float> second(values, options, transport, executor);
      second.restore(saved);
      go_on(second, 23, 40, resumed[rank]);
      if (one.save() != second.save()) throw std::runtime_error("the states differ");
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CHECK(first_difference(straight[rank], resumed[rank]) == nowhere);
      CHECK(first_difference(straight[rank], straight[0]) == nowhere);
    }
  }
}

TEST_CASE("marsit: ranks restored to different rounds are refused on all ranks") {
  auto const outcomes = outcomes_on(3, [](in_process& transport) {
    host_executor executor;
    synchronizer<float> synchronize(10, {.period = 5}, transport, executor);
    auto const fresh = synchronize.save();
    std::vector<float> update(10, 0.5f);
    synchronize(std::span(update));
    if (transport.rank() == 1) synchronize.restore(fresh);
    synchronize(std::span(update));
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "disagreement_error"));
  CHECK(outcomes[0].text == "all_reduce: ranks disagree on the step: rank 0 has 1, rank 1 has 0");
}

TEST_CASE("marsit: a NaN throws on all ranks; update, compensation and round stay unchanged") {
  for (std::string const how : {"ring", "sampled"})
    for (std::uint64_t const period : {0, 4}) {  // the 4th round is a sign round, or a full one
      CAPTURE(how);
      CAPTURE(period);
      constexpr int ranks = 3;
      constexpr std::size_t values = 40000;
      marsit_options const options{
          .sign_step = 0.004, .period = period, .plan = {.algorithm = algorithm::from(how)}};
      std::vector<std::vector<float>> with(ranks), without(ranks);
      auto const go = [&](bool with_nan, std::vector<std::vector<float>>& last) {
        return outcomes_on(ranks, [&](in_process& transport) {
          host_executor executor;
          synchronizer<float> synchronize(values, options, transport, executor);
          for (std::size_t t = 0; t < 8; ++t) {
            auto update = update_of<float>(transport.rank(), t, values);
            if (with_nan && t == 3) {
              auto broken = update;
              if (transport.rank() == 2)
                broken[values - 1] = std::numeric_limits<float>::quiet_NaN();
              auto const before = broken;
              auto const state = synchronize.save();
              auto const ended = outcome_of([&] { synchronize(std::span(broken)); });
              if (ended.what != "nonfinite_error") throw std::runtime_error("ended " + ended.what);
              if (first_difference(broken, before) != nowhere || synchronize.save() != state)
                throw std::runtime_error("something was changed");
            }
            synchronize(std::span(update));
            last[static_cast<std::size_t>(transport.rank())] = update;
          }
        });
      };
      auto const outcomes = go(true, with);
      CAPTURE(to_text(outcomes));
      CHECK(all_ended_alike(outcomes, "returned"));
      CHECK(all_ended_alike(go(false, without), "returned"));
      for (std::size_t rank = 0; rank < ranks; ++rank)
        CHECK(first_difference(with[rank], without[rank]) == nowhere);
    }
}

TEST_CASE("marsit: ranks with different optima reach the mean one with full rounds, not without") {
  // f_m(x) = (x - b_m)^2 / 2, b = -3, -1, 1, 7, gradient steps of 0.02, 64 times side by side.
  // Without full rounds c of rank m grows by 0.02 (1 - b_m) per round without end: after 4000
  // rounds it is 480 at b = 7, and its sign carries no information.
  constexpr std::size_t copies = 64;
  struct ending {
    double mean = 0, worst = 0, largest_c = 0;
  };
  auto const optimise = [](std::uint64_t period, double sign_step, int rounds) {
    std::vector<ending> of_rank(4);
    run_ranks(4, [&](in_process& transport) {
      float const b[] = {-3, -1, 1, 7};
      host_executor executor;
      synchronizer<float> synchronize(
          copies, {.sign_step = sign_step, .period = period, .seed = 3, .plan = {.check = false}},
          transport, executor);
      std::vector<float> x(copies), update(copies);
      for (int t = 0; t < rounds; ++t) {
        for (std::size_t i = 0; i < copies; ++i) update[i] = 0.02f * (x[i] - b[transport.rank()]);
        synchronize(std::span(update));
        for (std::size_t i = 0; i < copies; ++i) x[i] -= update[i];
      }
      auto& mine = of_rank[static_cast<std::size_t>(transport.rank())];
      for (float const value : x) {
        mine.mean += double{value} / copies;
        mine.worst = std::max(mine.worst, std::abs(double{value} - 1));
      }
      mine.largest_c = synchronize.lag() * sign_step;
    });
    auto result = of_rank[0];
    for (auto const& one : of_rank) result.largest_c = std::max(result.largest_c, one.largest_c);
    return result;
  };
  auto const every_10 = optimise(10, 0.005, 1500), every_50 = optimise(50, 0.005, 1500),
             never = optimise(0, 0.05, 4000);
  CAPTURE(every_10.mean);
  CAPTURE(every_50.mean);
  CAPTURE(never.mean);
  CAPTURE(never.worst);
  CAPTURE(never.largest_c);
  CHECK(every_10.worst < 0.1);
  CHECK(std::abs(every_10.mean - 1) < 0.02);
  CHECK(every_50.worst < 0.3);
  CHECK(std::abs(every_50.mean - 1) < 0.05);
  CHECK(never.worst > 1);
  CHECK(never.largest_c > 400);
  CHECK(never.largest_c < 800);
}
