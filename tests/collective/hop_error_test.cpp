/// @file
/// All-reduces with rounded hops give the same bits on all ranks with every strategy, send the
/// requested number of bytes, are unbiased, and have the error that the formula predicts.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/hop_error.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using vectors = std::vector<std::vector<float>>;

thc<> codec_of(int hop_bits, int ranks, int bits = 4) {
  return fit(
      thc<>(
          {.bits = bits, .granularity = (1 << bits) - 1, .transform = 1024, .hop_bits = hop_bits}),
      static_cast<std::uint32_t>(ranks));
}

/// +1 and -1: every transform has a root mean square of 1.
vectors signs(int ranks, std::size_t values) {
  vectors all;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& x = all.emplace_back(values);
    for (std::size_t i = 0; i < values; ++i)
      x[i] = mix(mix(i) + static_cast<std::uint64_t>(rank)) & 1 ? 1.f : -1.f;
  }
  return all;
}

vectors sums(thc<> const& codec, vectors const& x, plan_options const& options,
             call_options const& call = {.seed = 1, .step = 3}) {
  return on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    plan(mine.size(), codec, transport, executor, options).all_reduce(std::span(mine), call);
  });
}
bool all_alike(vectors const& all) {
  return std::all_of(all.begin(), all.end(),
                     [&](auto const& one) { return first_difference(one, all[0]) == nowhere; });
}
algorithm named(std::string const& how) { return algorithm::from(how); }

}  // namespace

TEST_CASE("hop_variance: counts each rounding of each schedule") {
  auto const codec = codec_of(6, 64);
  auto const v = [&](int weight) { return codec.hop_variance(static_cast<std::uint32_t>(weight)); };
  CHECK(v(1) == 0);
  CHECK(v(4) == 0);                  // 60 has 6 bits
  CHECK(v(5) == 6.0 / 12);           // 75 has 7: s = 1
  CHECK(v(16) == 18.0 / 12);         // 240, 61 steps of 4
  CHECK(v(32) == 66.0 / 12);         // 480, of 8
  CHECK(v(64) == (256 + 2) / 12.0);  // 960, of 16
  double ring = 0;
  for (int weight = 2; weight <= 64; ++weight) ring += v(weight);
  auto const of = [&](std::string const& how, int ranks) {
    return hop_variance(codec, named(how), ranks);
  };
  CHECK(of("ring", 64) == doctest::Approx(ring));
  CHECK(of("direct", 64) == v(64));
  CHECK(of("aggregator", 64) == v(64));
  CHECK(of("recursive_doubling", 64) ==
        doctest::Approx(32 * v(2) + 16 * v(4) + 8 * v(8) + 4 * v(16) + 2 * v(32)));
  double torus = 0;
  for (int weight = 2; weight < 16; ++weight) torus += 4 * v(weight);
  torus += v(16) + v(32) + v(48) + v(64);
  CHECK(of("torus:4x16", 64) == doctest::Approx(torus));
  // 48 ranks: 16 pairs and 16 single ranks: partial results of 2 and of 1 rank, ..., and the
  // answers to the pairs
  CHECK(of("recursive_doubling", 48) ==
        doctest::Approx(
            // places 0 to 15 are pairs: 2, 4, 8, 16 ranks; 16 to 31: 1, ...
            16 * v(2) + 8 * v(4) + 4 * v(8) + 2 * v(16) + v(32) +  //
            16 * v(1) + 8 * v(2) + 4 * v(4) + 2 * v(8) + v(16) + v(48)));
  CHECK(of("ring", 1) == 0);
  CHECK(hop_error(codec, named("direct"), 64) ==
        doctest::Approx(v(64) * std::pow(2 * codec.table().limit / 15, 2) / 64));
  CHECK_THROWS_AS(of("sampled", 4), std::invalid_argument);
  CHECK_THROWS_AS(of("ring", 0), std::invalid_argument);
}

TEST_CASE("rounded hops: all ranks hold the same bits, with every algorithm") {
  std::size_t const values = 20'000;
  auto const counts = few_cases ? std::vector{3, 8} : std::vector{2, 3, 4, 5, 6, 7, 8, 9, 12};
  for (int const ranks : counts)
    for (std::string const how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"}) {
      CAPTURE(ranks);
      CAPTURE(how);
      auto const codec = codec_of(4, ranks);
      auto const x = signs(ranks, values);
      auto const found = sums(codec, x, {.algorithm = named(how)});
      CHECK(all_alike(found));
      // all-reduces without narrow messages are exact with every strategy
      auto const wide = sums(codec, x, {.algorithm = named(how), .narrow = false});
      CHECK((first_difference(found[0], wide[0]) != nowhere) ==
            (hop_variance(codec, named(how), ranks) > 0));
      auto const exact = sums(codec, x, {.algorithm = named("ring"), .narrow = false});
      CHECK((how == "aggregator" || first_difference(wide[0], exact[0]) == nowhere));
      // one message or several, with and without checksum, decoded at once or on arrival
      for (plan_options const& other :
           {plan_options{.algorithm = named(how), .checksum = true},
            plan_options{.algorithm = named(how), .segment_bytes = 3000},
            plan_options{.algorithm = named(how), .checksum = true, .segment_bytes = 3000},
            plan_options{.algorithm = named(how), .decode_on_arrival_bytes = 0}}) {
        auto const same = sums(codec, x, other);
        CHECK(all_alike(same));
        CHECK(first_difference(same[0], found[0]) == nowhere);
      }
      // the owner of a shard has the same values there as after an all-reduce
      on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
        host_executor executor;
        plan part(values, codec, transport, executor, {.algorithm = named(how)});
        part.reduce_scatter(std::span(mine), {.seed = 1, .step = 3});
        auto const [first, count] = part.shard();
        auto const at = static_cast<std::ptrdiff_t>(first),
                   end = static_cast<std::ptrdiff_t>(first + count);
        CHECK(std::equal(mine.begin() + at, mine.begin() + end, found[0].begin() + at));
      });
    }
}

TEST_CASE("rounded hops: weights, and a larger total weight than ranks") {
  for (std::string const how : {"ring", "torus", "direct", "recursive_doubling"}) {
    CAPTURE(how);
    auto const codec = codec_of(5, 36);
    auto const x = signs(6, 9000);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor;
      plan sum(mine.size(), codec, transport, executor,
               {.algorithm = named(how), .checksum = true});
      sum.all_reduce(std::span(mine),
                     {.step = 1,
                      .weight = static_cast<std::uint32_t>(transport.rank() * 2 + 1),
                      .op = reduce_op::mean});
    });
    CHECK(all_alike(found));
    double off = 0, energy = 0;
    for (std::size_t i = 0; i < found[0].size(); ++i) {
      double ideal = 0;
      for (std::size_t rank = 0; rank < 6; ++rank)
        ideal += static_cast<double>(2 * rank + 1) * x[rank][i] / 36;
      off += (found[0][i] - ideal) * (found[0][i] - ideal);
      energy += ideal * ideal;
    }
    CHECK(off < 0.2 * energy);
  }
}

TEST_CASE("rounded hops: bytes are those of the model, and no partial sum needs more bits") {
  std::size_t const values = 72 * 1024;  // whole transforms
  for (int const ranks : {3, 8, 24})
    for (std::string const how : {"ring", "torus", "direct", "recursive_doubling"})
      for (int const bits : {4, 6}) {
        CAPTURE(ranks);
        CAPTURE(how);
        CAPTURE(bits);
        auto const codec = codec_of(bits, ranks);
        plan_options const options{.algorithm = named(how), .check = false};
        auto const layout = layout_of(codec, values, ranks);
        auto const x = signs(ranks, values);
        on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          host_executor executor;
          auto const before = transport.bytes_sent();
          auto const stats = plan(values, codec, transport, executor, options)
                                 .all_reduce(std::span(mine), {.step = 1});
          auto const expected =
              bytes_sent_per_rank(codec, values, transport.rank(), ranks, options);
          auto const agreed = static_cast<std::uint64_t>(detail::agreement_steps(ranks)) *
                              statistics_words(codec, layout) * sizeof(std::uint32_t);
          CHECK(stats.bytes_sent == expected + agreed);
          CHECK(transport.bytes_sent() - before == expected + agreed);
          CHECK(bytes_sent_per_rank(size_of(codec), values, transport.rank(), ranks, options) ==
                expected);
        });
        for (int weight = 1; weight <= ranks; ++weight) {
          auto const travelling =
              travelling_layout(codec, layout, static_cast<std::uint32_t>(weight));
          std::size_t const norms = layout.block_values / 1024 * sizeof(float);
          REQUIRE(travelling.block_bytes <=
                  block_header_bytes + norms +
                      layout.block_values / 8 * static_cast<std::size_t>(bits));
        }
      }
}

TEST_CASE("rounded hops: the error is that of the formula, with mean 0") {
  struct strategy {
    std::string how;
    int ranks, bits, hop_bits, steps;
  };
  std::vector<strategy> strategies{{"ring", 32, 4, 6, 2},
                                   {"direct", 32, 4, 6, 2},
                                   {"recursive_doubling", 32, 4, 6, 2},
                                   {"torus", 32, 4, 6, 2},
                                   {"recursive_doubling", 12, 4, 5, 2},
                                   {"ring", 8, 2, 4, 64},
                                   {"recursive_doubling", 8, 4, 4, 64}};
  if (few_cases) strategies = {{"ring", 8, 4, 4, 4}};
  for (auto const& one : strategies) {
    auto const& how = one.how;
    int const ranks = one.ranks, hop_bits = one.hop_bits, steps = one.steps;
    CAPTURE(how);
    CAPTURE(ranks);
    CAPTURE(hop_bits);
    std::size_t const values = 32 * 1024;  // whole transforms
    auto const codec = codec_of(hop_bits, ranks, one.bits);
    auto const x = signs(ranks, values);
    double const step = codec.step(),
                 variance = hop_variance(codec, named(how), ranks) * step * step;
    std::vector<double> mean(values);
    double squares = 0;
    for (int k = 0; k < steps; ++k) {
      call_options const call{.seed = 5, .step = static_cast<std::uint64_t>(k)};
      auto const rounded = sums(codec, x, {.algorithm = named(how), .check = false}, call);
      auto const sum =
          sums(codec, x, {.algorithm = named(how), .check = false, .narrow = false}, call);
      CHECK(all_alike(rounded));
      for (std::size_t i = 0; i < values; ++i) {
        double const off = static_cast<double>(rounded[0][i]) - static_cast<double>(sum[0][i]);
        mean[i] += off / steps;
        squares += off * off;
      }
    }
    double const measured = squares / static_cast<double>(values) / steps;
    // errors add many draws: they are nearly normal, and their squares vary by 2
    double const five = 5 * std::sqrt(2.0 / static_cast<double>(values) / steps);
    MESSAGE(how << " on " << ranks << " ranks in " << hop_bits << " bits: variance " << measured
                << ", the formula has " << variance);
    CHECK(std::fabs(measured / variance - 1) < five);
    // the mean of each value, in standard errors, and that of all values
    double worst = 0, all = 0;
    for (double const m : mean) {
      worst = std::max(worst, std::fabs(m) / std::sqrt(variance / steps));
      all += m / static_cast<double>(values);
    }
    CHECK(worst < 6);  // beyond 6 deviations: one of 500 million; here are 32,768
    CHECK(std::fabs(all) < 5 * std::sqrt(variance / steps / static_cast<double>(values)));
  }
}

TEST_CASE("rounded hops: by name") {
  std::size_t const values = 9000;
  auto const x = signs(8, values);
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    auto sum = make_plan<float>("thc:bits=4,granularity=15,transform=1024,hop_bits=4", values,
                                transport, executor);
    sum.all_reduce(std::span(mine), {.seed = 1, .step = 3});
  });
  CHECK(all_alike(found));
  auto const same = sums(codec_of(4, 8), x, {.algorithm = named("ring")});
  CHECK(first_difference(found[0], same[0]) == nowhere);
}

TEST_CASE("rounded hops: ranks that disagree on the bits are refused") {
  auto const outcomes = outcomes_on(3, [&](in_process& transport) {
    host_executor executor;
    std::vector<float> x(5000, 1.f);
    plan(x.size(), codec_of(transport.rank() == 1 ? 6 : 5, 8), transport, executor)
        .all_reduce(std::span(x));
  });
  CHECK_MESSAGE(all_ended_alike(outcomes, "disagreement_error"), to_text(outcomes));
}
