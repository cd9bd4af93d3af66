#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <drop_in/faster_strategy.hpp>
#include <random>
#include <set>
#include <vector>

using namespace hcomp::drop_in;
using strategy = faster_strategy::strategy;

namespace {

/// Links and processors on which the time of both strategies is known.
struct world {
  double bytes_per_second = 12.5e6;  ///< of every link
  double latency = 100e-6;           ///< of a reduction by MPI; the codec takes three times
  double work = 1e-9;                ///< seconds of codec time per byte
  double ratio = 0.5;                ///< compressed bytes per byte
  double busy = 1;                   ///< factor on the codec's time
  double buffers = 0;  ///< bytes that network buffers absorb without waiting for a link

  double seconds(strategy by, double bytes) const {
    auto const sent = [&](double part) {
      return std::max(0., part * 1.5 * bytes - buffers) / bytes_per_second;
    };
    return by == strategy::mpi ? latency + sent(1)
                               : 3 * latency + busy * work * bytes + sent(ratio);
  }
};

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// Ranks that reduce in such a world, each with its own clock.
struct simulation {
  world here;
  double noise = 0;              ///< relative: measured times exceed the true ones by up to this
  double first_call_factor = 5;  ///< factor on the time of the first reduction of each strategy
  std::vector<faster_strategy> ranks = std::vector<faster_strategy>(3);
  std::mt19937 random{20261126};
  std::set<strategy> begun = {};
  int timed = 0, looks = 0;

  double clock(double seconds) {
    return seconds * (1 + std::uniform_real_distribution(0., noise)(random));
  }
  strategy_stats united(auto const& stats) {
    auto all = stats(ranks[0]);
    for (auto const& one : ranks) all.unite(stats(one));
    return all;
  }
  /// Returns the time of one call, including comparisons and probes.
  double call(std::size_t bytes = 1 << 20) {
    double took = 0;
    for (auto const& one : ranks) REQUIRE(one.compares() == ranks[0].compares());
    if (ranks[0].compares()) {
      auto const all = united([](faster_strategy const& one) { return one.stats(); });
      for (auto& one : ranks) one.learn_mean(all);
      took += here.latency;
    }
    auto const part = ranks[0].look_at();
    for (auto const& one : ranks) REQUIRE(one.look_at() == part);
    if (part > 0) {
      double const piece = static_cast<double>(bytes) / part,
                   mpi = here.seconds(strategy::mpi, piece),
                   codec = here.seconds(strategy::codec, piece),
                   look = mpi + codec + 3 * here.latency;  // ranks wait for all ranks and compare
      auto const all = united([&](faster_strategy const& one) {
        return one.stats_of_look(nanoseconds(clock(mpi)), nanoseconds(clock(codec)),
                                 nanoseconds(clock(look)));
      });
      for (auto& one : ranks) one.learn_look(all);
      took += look;
      ++looks;
    }
    auto const by = ranks[0].by();
    timed += ranks[0].is_timed();
    double const sum = here.seconds(by, static_cast<double>(bytes)) *
                       (begun.insert(by).second ? first_call_factor : 1);
    for (auto& one : ranks) {
      REQUIRE(one.by() == by);
      one.add(nanoseconds(clock(sum)), bytes);
    }
    took += sum;
    REQUIRE(ranks[0].ends_trial() == ranks[2].ends_trial());
    if (ranks[0].ends_trial()) {
      auto const all = united([](faster_strategy const& one) { return one.medians(); });
      for (auto& one : ranks) one.learn_trial(all);
    }
    return took;
  }
  std::vector<double> calls(int count, std::size_t bytes = 1 << 20) {
    std::vector<double> took;
    for (int i = 0; i < count; ++i) took.push_back(call(bytes));
    return took;
  }
  strategy used() const { return ranks[0].used(); }
};

double sum_of(std::vector<double> const& all) {
  double sum = 0;
  for (double const one : all) sum += one;
  return sum;
}
/// Returns the longest time of 20 calls in a row.
double worst_twenty(std::vector<double> const& took) {
  double worst = 0;
  for (std::size_t i = 0; i + 20 <= took.size(); ++i)
    worst = std::max(worst, sum_of({took.begin() + static_cast<std::ptrdiff_t>(i),
                                    took.begin() + static_cast<std::ptrdiff_t>(i) + 20}));
  return worst;
}

constexpr double slow = 12.5e6, fast = 5e9;  // bytes per second
constexpr int trial = faster_strategy::calls_of_trial;

}  // namespace

TEST_CASE("faster_strategy: a trial alternates, and later calls use the faster strategy") {
  for (double const rate : {slow, fast}) {
    CAPTURE(rate);
    simulation sums{.here = {.bytes_per_second = rate}};
    for (int i = 0; i < trial; ++i) {
      CAPTURE(i);
      auto const& one = sums.ranks[1];
      CHECK(one.is_timed());
      CHECK(one.look_at() == 0);
      CHECK(one.by() == (i % 2 == 0 ? strategy::mpi : strategy::codec));
      sums.call();
    }
    auto const expected = rate == slow ? strategy::codec : strategy::mpi;
    for (int i = 0; i < 3000; ++i) {
      CHECK(sums.ranks[1].by() == expected);
      CHECK_FALSE(sums.ranks[1].is_timed());
      sums.call();
    }
    CHECK(sums.ranks[1].trials() == 1);
    CHECK(sums.ranks[1].looks() > 10);
  }
}

TEST_CASE("faster_strategy: the codec must be faster by 5 %") {
  for (double const codec : {0.5, 0.94, 0.96, 1.0, 2.0}) {
    CAPTURE(codec);
    faster_strategy one;
    for (int i = 0; i < trial; ++i)
      one.add(nanoseconds(1e-3 * (one.by() == strategy::codec ? codec : 1)), 65536);
    REQUIRE(one.ends_trial());
    one.learn_trial(one.medians());
    CHECK(one.used() == (codec < 0.95 ? strategy::codec : strategy::mpi));
  }
}

TEST_CASE("faster_strategy: neither the first call of a strategy nor one slow call decides") {
  for (int const slow_strategy : {0, 1})
    for (int const slow_call : {2, 4, 6}) {
      CAPTURE(slow_strategy);
      CAPTURE(slow_call);
      faster_strategy one;
      for (int i = 0; i < trial; ++i) {
        bool const is_slow = i < 2 || i == slow_call + slow_strategy;
        one.add(nanoseconds((one.by() == strategy::codec ? 2e-3 : 3e-3) * (is_slow ? 1000 : 1)),
                65536);
      }
      CHECK(one.medians().by_mpi == 3'000'000);
      CHECK(one.medians().by_codec == 2'000'000);
    }
}

TEST_CASE("faster_strategy: the slowest rank's times decide, on all ranks") {
  std::vector<faster_strategy> ranks(2);
  strategy_stats all;
  for (int r = 0; r < 2; ++r) {
    auto& one = ranks[static_cast<std::size_t>(r)];
    // by its own clock rank 0 finds the codec faster
    for (int i = 0; i < trial; ++i)
      one.add(nanoseconds(one.by() == strategy::mpi ? 3e-3 : r == 0 ? 1e-3 : 4e-3), 65536);
    all.unite(one.medians());
  }
  for (auto& one : ranks) {
    one.learn_trial(all);
    CHECK(one.used() == strategy::mpi);
  }
}

TEST_CASE("faster_strategy: sizes that alternate with the strategies do not decide a trial") {
  // Both sizes are of one class; they differ by an eighth at most.
  REQUIRE(size_class(1'048'576) == size_class(1'179'647));
  for (double const gain : {0.94, 0.96}) {
    CAPTURE(gain);
    faster_strategy one;
    for (int i = 0; i < trial; ++i) {
      std::size_t const bytes = i % 2 == 0 ? 1'048'576 : 1'179'647;
      one.add(nanoseconds(1e-9 * static_cast<double>(bytes) * (i % 2 == 0 ? 1 : gain)), bytes);
    }
    one.learn_trial(one.medians());
    CHECK(one.used() == (gain < 0.95 ? strategy::codec : strategy::mpi));
  }
}

TEST_CASE("faster_strategy: after the trial 20 calls never take longer than MPI's time / 0.98") {
  for (double const rate : {1e6, slow, 125e6, 1e9, fast})
    for (double const work : {1e-10, 1e-9, 2e-8})
      for (std::size_t const bytes : {std::size_t{1} << 20, std::size_t{16} << 20}) {
        CAPTURE(rate);
        CAPTURE(work);
        CAPTURE(bytes);
        simulation sums{.here = {.bytes_per_second = rate, .latency = 5e-6, .work = work}};
        sums.calls(trial, bytes);
        auto const took = sums.calls(5000, bytes);
        double const plain = sums.here.seconds(strategy::mpi, static_cast<double>(bytes)),
                     codec = sums.here.seconds(strategy::codec, static_cast<double>(bytes)),
                     better = std::min(plain, codec);
        CHECK(20 * plain / worst_twenty(took) >= 0.98);
        CHECK(5000 * better / sum_of(took) >=
              0.94);  // 5 % below which the codec is not chosen, 1 % for probes
        if (codec < 0.9 * plain || codec > plain) CHECK(5000 * better / sum_of(took) >= 0.985);
      }
}

TEST_CASE("faster_strategy: follows a link that becomes fast and slow again") {
  simulation sums{.here = {.bytes_per_second = slow}};
  sums.calls(trial);
  for (int turn = 0; turn < 4; ++turn) {
    CAPTURE(turn);
    // at most 20 calls until ranks compare times, then three probes and a trial
    sums.here.bytes_per_second = slow;
    sums.calls(20 + 3 + trial);
    CHECK(sums.used() == strategy::codec);
    sums.calls(1000);
    CHECK(sums.used() == strategy::codec);
    sums.here.bytes_per_second = fast;
    sums.calls(20 + 3 + trial);
    CHECK(sums.used() == strategy::mpi);
    sums.calls(1000);
    CHECK(sums.used() == strategy::mpi);
  }
}

TEST_CASE("faster_strategy: detects a faster link though the codec takes as long as before") {
  // Codec time dominates, so the time of the codec's calls stays the same.
  simulation sums{.here = {.bytes_per_second = 12.5e6, .work = 1e-8, .ratio = 0}};
  sums.calls(1000);
  REQUIRE(sums.used() == strategy::codec);
  sums.here.bytes_per_second = 1e9;
  sums.calls(200);
  CHECK(sums.used() == strategy::mpi);
}

TEST_CASE("faster_strategy: detects a slower link though small parts take as long as before") {
  // Network buffers absorb an eighth of the vector.
  simulation sums{.here = {.bytes_per_second = fast, .buffers = 200e3}};
  sums.calls(1000);
  REQUIRE(sums.used() == strategy::mpi);
  sums.here.bytes_per_second = slow;
  sums.calls(20 + trial);
  CHECK(sums.used() == strategy::codec);
}

TEST_CASE("faster_strategy: unstable links cause few trials without effect") {
  // MPI is always faster, four times on the fast link.
  simulation sums{.here = {.bytes_per_second = 1e9, .work = 5e-9, .ratio = 0.9}};
  sums.calls(trial);
  double took = 0, plain = 0;
  for (int turn = 0; turn < 200; ++turn) {
    sums.here.bytes_per_second = turn % 2 == 0 ? 500e6 : 1e9;
    took += sum_of(sums.calls(40));
    plain += 40 * sums.here.seconds(strategy::mpi, 1 << 20);
  }
  CHECK(sums.used() == strategy::mpi);
  auto const trials = sums.ranks[0].trials();
  CHECK(trials > 1);
  CHECK(took / plain < 1.03);
  // on a link slower than at the last trial, a trial follows at once
  sums.here.bytes_per_second = slow;
  sums.here.ratio = 0.5;
  sums.calls(20 + trial);
  CHECK(sums.ranks[0].trials() == trials + 1);
  CHECK(sums.used() == strategy::codec);
}

TEST_CASE("faster_strategy: leaves a codec whose processors become busy, and returns") {
  simulation sums{.here = {.bytes_per_second = 125e6, .work = 2e-9}};
  sums.calls(500);
  REQUIRE(sums.used() == strategy::codec);
  sums.here.busy = 10;
  sums.calls(300);
  CHECK(sums.used() == strategy::mpi);
  sums.here.busy = 1;
  sums.calls(300);
  CHECK(sums.used() == strategy::codec);
}

TEST_CASE("faster_strategy: follows data that becomes compressible") {
  simulation sums{.here = {.ratio = 1.01}};
  sums.calls(500);
  REQUIRE(sums.used() == strategy::mpi);
  sums.here.ratio = 0.6;
  sums.calls(300);
  CHECK(sums.used() == strategy::codec);
}

TEST_CASE("faster_strategy: misleading probes make trials rare") {
  // Latency dominates a part, and the codec has three times as much of it: probes favour MPI, calls
  // favour the codec.
  simulation sums{.here = {.bytes_per_second = 1e9, .latency = 200e-6, .work = 0}};
  sums.calls(trial);
  REQUIRE(sums.used() == strategy::codec);
  auto const took = sums.calls(20000);
  CHECK(sums.ranks[0].trials() > 1);
  CHECK(sums.used() == strategy::codec);
  double const codec = sums.here.seconds(strategy::codec, 1 << 20);
  CHECK(sum_of(took) / (20000 * codec) < 1.02);
}

TEST_CASE("faster_strategy: a disturbed probe starts no trial and delays the next one little") {
  faster_strategy one;
  for (int i = 0; i < trial; ++i)
    one.add(one.by() == strategy::codec ? 1'000'000 : 4'000'000, 1 << 20);
  one.learn_trial(one.medians());
  auto const calls_to_look = [&] {
    int calls = 0;
    for (; one.look_at() == 0; ++calls) {
      REQUIRE_FALSE(one.is_timed());
      one.add(1'000'000, 1 << 20);
    }
    return calls;
  };
  calls_to_look();
  one.learn_look(one.stats_of_look(200'000, 50'000, 300'000));
  int const usual = calls_to_look();
  // disturbed by another program
  one.learn_look(one.stats_of_look(200'000, 100'000'000, 100'300'000));
  CHECK(calls_to_look() == 1);  // the next probe follows at once
  one.learn_look(one.stats_of_look(200'000, 50'000, 300'000));
  CHECK(calls_to_look() <= 2 * usual);
  // a disturbed probe counts no more than full reductions of both strategies, here five by the
  // codec
  for (int i = 0; i < 3; ++i) {
    one.learn_look(one.stats_of_look(90'000'000, 50'000'000, 100'300'000));
    CHECK(calls_to_look() <= 500);
  }
  CHECK(one.trials() == 1);
}

TEST_CASE("faster_strategy: ranks with different clocks and delays decide alike") {
  // call() compares the ranks in every call
  for (double const rate : {slow, 300e6, fast}) {
    CAPTURE(rate);
    simulation sums{.here = {.bytes_per_second = rate}, .noise = 3};
    sums.calls(3000);
    CHECK(sums.looks > 0);
    // chance wins three probes in a row now and then, but costs little time
    CHECK(sums.timed < 3000 / 4);
  }
}

TEST_CASE("faster_strategy: no time overflows") {
  for (std::int64_t const took : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 62}) {
    CAPTURE(took);
    for (std::int64_t const other : {std::int64_t{0}, std::int64_t{1} << 62}) {
      faster_strategy one;
      for (int i = 0; i < trial; ++i) one.add(i % 2 == 0 ? took : other, 4);
      one.learn_trial(one.medians());
      CHECK(one.used() == (other < took && took > 1 ? strategy::codec : strategy::mpi));
      for (int i = 0; i < 2'000'000 && one.look_at() == 0; ++i) one.add(took, 4);
      CHECK(one.look_at() >= 8);
      one.learn_look(one.stats_of_look(took, other, took));
    }
  }
}

TEST_CASE("size_class: sizes of a class differ by less than an eighth, and classes are in order") {
  unsigned before = 0;
  std::size_t first = 0;
  for (std::size_t bytes = 0; bytes < 100'000; ++bytes) {
    auto const one = size_class(bytes);
    REQUIRE(one >= before);
    if (one != before) first = bytes;
    before = one;
    REQUIRE(8 * (bytes - first) < std::max<std::size_t>(first, 1));
  }
}
