// optimise: -O1
#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <collective/oracle.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/value_types.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Inputs of one all-reduce.
template <class C> struct reduction_case {
  C codec;
  std::vector<std::vector<typename C::value_type>> x;  // [rank]
  plan_options options = {};
  call_options call = {};
  std::vector<std::uint32_t> weights = {};  // empty: call.weight everywhere
  int threads = 1;

  call_options call_of(in_process const& transport) const {
    auto mine = call;
    if (!weights.empty()) mine.weight = weights[static_cast<std::size_t>(transport.rank())];
    return mine;
  }
};

/// x on every rank after an all-reduce.
template <class C> auto all_reduced(reduction_case<C> const& work) {
  return on_ranks(work.x, [&](in_process& transport, auto& x) {
    host_executor executor(work.threads);
    all_reduce(std::span(x), work.codec, transport, executor, work.call_of(transport),
               work.options);
  });
}

/// Algorithms for `ranks` ranks: the torus in its default, in one-row and in one-column shape.
std::vector<algorithm> algorithms_for(int ranks) {
  return {algorithm::from("ring"),           algorithm::from("direct"),
          algorithm::from("aggregator"),     algorithm::from("torus"),
          {algorithm_kind::torus, 1, ranks}, {algorithm_kind::torus, ranks, 1}};
}

/// Sizes: empty, one, around words, around the blocks of a codec, a few blocks, around a block per
/// rank.
std::vector<std::size_t> sizes_for(std::size_t block, int ranks) {
  if (few_cases) return {0, 65, block + 1};
  auto const p = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> sizes{0, 1, 63, 64, 65, 64 * p - 1, block - 1, block, block + 1};
  if (ranks == 3 || ranks == 8)  // a block per rank and one more; only sometimes, to save time
    for (auto const size : {p * block - 1, p * block, p * block + 1}) sizes.push_back(size);
  return sizes;
}

template <class V>
std::vector<std::vector<V>> integers(std::size_t values, int ranks, std::uint64_t seed) {
  std::vector<std::vector<V>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(integer_values<V>(values, seed, rank));
  return x;
}

/// The exact weighted sum of integers.
template <class V>
std::vector<V> exact_sum(std::vector<std::vector<V>> const& x,
                         std::vector<std::uint32_t> const& weights = {}) {
  std::vector<V> sum(x[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double total = 0;
    for (std::size_t rank = 0; rank < x.size(); ++rank)
      total += static_cast<double>(x[rank][i]) * (weights.empty() ? 1 : weights[rank]);
    sum[i] = static_cast<V>(static_cast<float>(total));
  }
  return sum;
}

/// All ranks hold the oracle's result, bit for bit.
template <class C> void check_against_oracle(reduction_case<C> const& work) {
  auto const expected =
      oracle<C>(work.codec, work.x, work.call, work.weights).sum(work.options.algorithm);
  auto const got = all_reduced(work);
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    CHECK(first_difference(got[rank], expected) == nowhere);
  }
}

std::string const algorithm_names[] = {"ring", "direct", "torus", "recursive_doubling"};

}  // namespace

TEST_CASE(
    "all_reduce: every codec, algorithm and size gives all ranks the bits of merges by hand") {
  for (int const ranks : up_to_8_ranks())
    builtin_codecs<float>::for_each([&]<class C>() {
      for (auto const size : sizes_for(C::block_values, ranks)) {
        auto const x = integers<float>(size, ranks, 1);
        for (auto const& how : algorithms_for(ranks)) {
          CAPTURE(ranks);
          CAPTURE(std::string(C::name));
          CAPTURE(size);
          CAPTURE(how.name());
          check_against_oracle(
              reduction_case<C>{{}, x, {.algorithm = how}, {.seed = 3, .step = size}});
        }
      }
    });
}

// Not under sanitizers: it takes a minute to compile, and float covers the same code.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("all_reduce: the same for double, float16 and bfloat16 values") {
  // One codec of numbers, one of bits and one of integers. Other tests cover how each type is
  // encoded.
  auto const check = []<class V>(V) {
    codec_list<identity<V>, sign<V>, thc<V>>::for_each([]<class C>() {
      for (int const ranks : {1, 3, 4})
        for (std::size_t const size : {0, 1, 65, C::block_values - 1, 2 * C::block_values + 1})
          for (auto const& name : algorithm_names) {
            CAPTURE(ranks);
            CAPTURE(std::string(C::name));
            CAPTURE(sizeof(V));
            CAPTURE(size);
            CAPTURE(name);
            check_against_oracle(reduction_case<C>{{},
                                                   integers<V>(size, ranks, 2),
                                                   {.algorithm = algorithm::from(name)},
                                                   {.seed = 4, .op = reduce_op::mean}});
          }
    });
  };
  for_each_other_type(check);
}
#endif

TEST_CASE("all_reduce: identity and float_cast give the exact sum of small integers") {
  // integers of at most 8 with a total weight of at most 15: sums up to 120 fit bfloat16's 8 bits
  auto const check = []<class C>(C const& codec) {
    for (int const ranks : up_to_8_ranks())
      for (auto const& name : algorithm_names)
        for (std::size_t const size : {1, 4095, 4097, 20000}) {
          CAPTURE(std::string(C::name));
          CAPTURE(ranks);
          CAPTURE(name);
          CAPTURE(size);
          std::vector<std::uint32_t> weights;
          for (int rank = 0; rank < ranks; ++rank)
            weights.push_back(static_cast<std::uint32_t>(rank % 3 + 1));
          auto const x = integers<typename C::value_type>(size, ranks, 5);
          auto const got = all_reduced(
              reduction_case<C>{codec, x, {.algorithm = algorithm::from(name)}, {}, weights});
          auto const expected = exact_sum(x, weights);
          for (auto const& one : got) CHECK(first_difference(one, expected) == nowhere);
        }
  };
  check(identity<float>{});
  check(identity<double>{});
  check(identity<float16>{});
  check(identity<bfloat16>{});
  check(float_cast<float16>{});
  check(float_cast<bfloat16>{});
}

TEST_CASE("all_reduce: sign_count gives exactly the weighted votes, as sum and as mean") {
  for (int const ranks : up_to_8_ranks())
    for (auto const& name : algorithm_names)
      for (auto const result : {reduce_op::sum, reduce_op::mean}) {
        CAPTURE(ranks);
        CAPTURE(name);
        CAPTURE(static_cast<int>(result));
        std::vector<std::uint32_t> weights;
        std::uint32_t total = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          weights.push_back(static_cast<std::uint32_t>(rank % 4 + 1));
          total += weights.back();
        }
        auto const x = integers<float>(8193, ranks, 6);
        std::vector<float> votes(8193);
        for (std::size_t i = 0; i < votes.size(); ++i) {
          int sum = 0;
          for (std::size_t r = 0; r < x.size(); ++r)
            sum += static_cast<int>(weights[r]) * (x[r][i] >= 0 ? 1 : -1);
          auto const scaled = 0.5f * static_cast<float>(sum);
          votes[i] = result == reduce_op::sum ? scaled : scaled / static_cast<float>(total);
        }
        for (auto const& one :
             all_reduced(reduction_case<sign_count<>>{fit(sign_count<>{0.5f}, total),
                                                      x,
                                                      {.algorithm = algorithm::from(name)},
                                                      {.op = result},
                                                      weights}))
          CHECK(first_difference(one, votes) == nowhere);
      }
}

TEST_CASE("all_reduce: sign gives one rank's sign, and the common sign where all ranks agree") {
  for (int const ranks : up_to_8_ranks())
    for (auto const& name : algorithm_names) {
      CAPTURE(ranks);
      CAPTURE(name);
      auto const x = integers<float>(40000, ranks, 7);
      auto const got = all_reduced(reduction_case<sign<>>{
          {0.25f}, x, {.algorithm = algorithm::from(name)}, {.op = reduce_op::mean}});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x[0].size(); ++i) {
        bool plus = false, minus = false;
        for (auto const& of_rank : x) (of_rank[i] >= 0 ? plus : minus) = true;
        wrong += !((got[0][i] == 0.25f && plus) || (got[0][i] == -0.25f && minus));
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("all_reduce: sign draws each rank with the probability of its weight") {
  // Only rank r is positive. The share of + among n values is Binomial(n, w_r / W) / n. Seeds are
  // fixed. At 4.5 standard errors, free seeds would fail once in 10^5 runs.
  constexpr std::size_t values = 200000;
  struct {
    std::string name;
    int ranks;
  } const cases[] = {{"ring", 2}, {"ring", 5}, {"direct", 3}, {"torus:2x3", 6}, {"torus:3x2", 6}};
  for (auto const& one : cases) {
    auto const& name = one.name;
    int const ranks = one.ranks;
    std::vector<std::uint32_t> weights;
    double total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      weights.push_back(static_cast<std::uint32_t>(2 * rank + 1));
      total += weights.back();
    }
    for (int lucky = 0; lucky < ranks; ++lucky) {
      CAPTURE(name);
      CAPTURE(lucky);
      std::vector<std::vector<float>> x(static_cast<std::size_t>(ranks),
                                        std::vector<float>(values, -1.f));
      x[static_cast<std::size_t>(lucky)].assign(values, 1.f);
      auto const got = all_reduced(reduction_case<sign<>>{{},
                                                          x,
                                                          {.algorithm = algorithm::from(name)},
                                                          {.seed = 8, .op = reduce_op::mean},
                                                          weights});
      double plus = 0;
      for (float const value : got[0]) plus += value > 0;
      double const p = weights[static_cast<std::size_t>(lucky)] / total;
      double const z = (plus / values - p) / std::sqrt(p * (1 - p) / values);
      CAPTURE(z);
      CHECK(std::abs(z) < 4.5);
    }
  }
}

TEST_CASE("all_reduce: other seeds, steps and tensors draw other signs, the same key the same") {
  auto const x = integers<float>(5000, 3, 9);
  auto const drawn = [&](call_options const& call) {
    return all_reduced(reduction_case<sign<>>{{}, x, {}, call})[0];
  };
  auto const first = drawn({.seed = 1, .step = 1, .tensor = 1});
  CHECK(first_difference(first, drawn({.seed = 1, .step = 1, .tensor = 1})) == nowhere);
  CHECK(first_difference(first, drawn({.seed = 2, .step = 1, .tensor = 1})) != nowhere);
  CHECK(first_difference(first, drawn({.seed = 1, .step = 2, .tensor = 1})) != nowhere);
  CHECK(first_difference(first, drawn({.seed = 1, .step = 1, .tensor = 2})) != nowhere);
}

TEST_CASE("all_reduce: weights differ per rank, and the report has their sum") {
  builtin_codecs<float>::for_each([]<class C>() {
    for (int const ranks : up_to_8_ranks())
      for (auto const& name : algorithm_names) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        std::vector<std::uint32_t> weights;
        std::uint32_t total = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          weights.push_back(static_cast<std::uint32_t>(7 - rank % 5));
          total += weights.back();
        }
        reduction_case<C> const work{fit(C{}, total),
                                     integers<float>(1000, ranks, 10),
                                     {.algorithm = algorithm::from(name)},
                                     {.seed = 11, .op = reduce_op::mean},
                                     weights};
        check_against_oracle(work);
        std::vector<std::uint64_t> reported(static_cast<std::size_t>(ranks));
        on_ranks(work.x, [&](in_process& transport, auto& x) {
          host_executor executor;
          reported[static_cast<std::size_t>(transport.rank())] =
              all_reduce(std::span(x), work.codec, transport, executor, work.call_of(transport),
                         work.options)
                  .weight;
        });
        CHECK(reported ==
              std::vector<std::uint64_t>(static_cast<std::size_t>(ranks), std::uint64_t{total}));
      }
  });
}

TEST_CASE("all_reduce: one, two and three threads, with and without SIMD, give the same bits") {
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    constexpr std::size_t size = 7 * C::block_values + 13;
    reduction_case<C> work{{}, integers<float>(size, 3, 12), {}, {.seed = 13}};
    auto const one = all_reduced(work);
    for (work.threads = 2; work.threads <= 3; ++work.threads) {
      CAPTURE(work.threads);
      auto const got = all_reduced(work);
      for (std::size_t rank = 0; rank < 3; ++rank)
        CHECK(first_difference(got[rank], one[rank]) == nowhere);
    }
    auto const plain = on_ranks(work.x, [&](in_process& transport, auto& x) {
      reference_executor executor;
      all_reduce(std::span(x), work.codec, transport, executor, work.call);
    });
    for (std::size_t rank = 0; rank < 3; ++rank)
      CHECK(first_difference(plain[rank], one[rank]) == nowhere);
  });
}

TEST_CASE("all_reduce: any segment_bytes gives the same bits") {
  builtin_codecs<float>::for_each([]<class C>() {
    constexpr std::size_t block = C::block_values;
    for (int const ranks : few_cases ? std::vector{4} : std::vector{3, 4})
      for (auto const& name : algorithm_names) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        reduction_case<C> work{{},
                               integers<float>(5 * block + 100, ranks, 14),
                               {.algorithm = algorithm::from(name)},
                               {.seed = 15}};
        work.options.segment_bytes = std::size_t{1} << 40;
        auto const whole = all_reduced(work);
        for (std::size_t const bytes :
             {std::size_t{0}, std::size_t{1}, 2 * work.codec.block_bytes(),
              10 * work.codec.block_bytes()}) {
          CAPTURE(bytes);
          work.options.segment_bytes = bytes;
          auto const got = all_reduced(work);
          for (std::size_t rank = 0; rank < got.size(); ++rank)
            CHECK(first_difference(got[rank], whole[rank]) == nowhere);
        }
      }
  });
}

TEST_CASE("all_reduce: enabling or disabling checksums and checks changes no bit") {
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    reduction_case<C> work{{}, integers<float>(10000, 5, 16), {}, {.seed = 17}};
    auto const plain = all_reduced(work);
    for (bool const check : {true, false})
      for (bool const checksum : {true, false}) {
        CAPTURE(check);
        CAPTURE(checksum);
        work.options.check = check;
        work.options.checksum = checksum;
        auto const got = all_reduced(work);
        for (std::size_t rank = 0; rank < got.size(); ++rank)
          CHECK(first_difference(got[rank], plain[rank]) == nowhere);
      }
  });
}

TEST_CASE("all_reduce: decoding on arrival changes no bit of x and of the residual") {
  builtin_codecs<float>::for_each([]<class C>() {
    constexpr std::size_t values = 5 * C::block_values + 100;
    for (int const ranks : few_cases ? std::vector{4} : std::vector{1, 3, 4})
      for (auto const& name : algorithm_names) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        auto const run = [&](std::size_t from, std::vector<std::vector<float>>& residuals) {
          residuals.resize(static_cast<std::size_t>(ranks));
          return on_ranks(integers<float>(values, ranks, 18), [&](in_process& transport, auto& x) {
            host_executor executor;
            plan_options options{.algorithm = algorithm::from(name), .segment_bytes = 1};
            options.decode_on_arrival_bytes = from;
            plan sum(values, C{}, transport, executor, options);
            error_feedback<float> feedback(values);
            for (std::uint64_t step = 0; step < 2; ++step)
              sum.all_reduce(std::span(x), feedback,
                             {.seed = 19, .step = step, .op = reduce_op::mean});
            residuals[static_cast<std::size_t>(transport.rank())].assign(
                feedback.residual().begin(), feedback.residual().end());
          });
        };
        std::vector<std::vector<float>> early, late;
        auto const x = run(0, early), expected = run(values * sizeof(float) + 1, late);
        for (std::size_t rank = 0; rank < x.size(); ++rank) {
          CHECK(first_difference(x[rank], expected[rank]) == nowhere);
          CHECK(first_difference(early[rank], late[rank]) == nowhere);
        }
      }
  });
}

TEST_CASE("plan: a hundred calls on one plan give the results of a hundred plans") {
  // state that a call leaves in the plan must not affect the next one
  constexpr int ranks = 3;
  auto const x = integers<float>(9000, ranks, 18);
  auto const by_plan = on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan summed(mine.size(), sign<>{}, transport, executor);
    for (std::uint64_t step = 0; step < 100; ++step) {
      summed.all_reduce(std::span(mine), {.seed = 19, .step = step});
      mine[step] -= static_cast<float>(transport.rank());
    }
  });
  auto const by_plans = on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    for (std::uint64_t step = 0; step < 100; ++step) {
      all_reduce(std::span(mine), sign<>{}, transport, executor, {.seed = 19, .step = step});
      mine[step] -= static_cast<float>(transport.rank());
    }
  });
  for (std::size_t rank = 0; rank < ranks; ++rank)
    CHECK(first_difference(by_plan[rank], by_plans[rank]) == nowhere);
}

TEST_CASE("plan: set_codec takes effect from the next call on, and other block sizes are refused") {
  std::vector<std::vector<float>> const x(2, std::vector<float>(100, 1.f));
  auto const got = on_ranks(x, [](in_process& transport, auto& mine) {
    host_executor executor;
    plan summed(mine.size(), sign<>{1.f}, transport, executor);
    summed.set_codec({0.125f});
    if (summed.codec().magnitude != 0.125f) throw std::runtime_error("set_codec did nothing");
    summed.all_reduce(std::span(mine));
  });
  CHECK(got[0] == std::vector<float>(100, 0.25f));
  CHECK(got[1] == got[0]);

  in_process_world world(1);
  in_process transport(world, 0);
  host_executor executor;
  plan counted(10, sign_count<>{1.f, 3}, transport, executor);
  CHECK_THROWS_WITH_AS(
      counted.set_codec({1.f, 4}),
      "set_codec: blocks of 8192 values in 3104 bytes, the plan was made for 8192 in 2080",
      std::invalid_argument);
  CHECK(counted.codec().summands == 3);
}

TEST_CASE("report: hops are those in which something was sent, and times are not negative") {
  struct {
    std::string name;
    int ranks;
    std::size_t blocks;
    int hops;
  } const expected[] = {{"ring", 1, 8, 0},      {"ring", 4, 8, 6},   {"direct", 4, 8, 6},
                        {"torus:2x4", 8, 8, 8}, {"torus", 6, 12, 6}, {"ring", 4, 0, 0}};
  for (auto const& row : expected) {
    auto const& name = row.name;
    auto const ranks = row.ranks, hops = row.hops;
    auto const blocks = row.blocks;
    CAPTURE(name);
    CAPTURE(ranks);
    CAPTURE(blocks);
    std::vector<report> reports(static_cast<std::size_t>(ranks));
    std::size_t const values = blocks * static_cast<std::size_t>(identity<>::block_values);
    on_ranks(integers<float>(values, ranks, 20), [&](in_process& transport, auto& x) {
      host_executor executor;
      reports[static_cast<std::size_t>(transport.rank())] =
          all_reduce(std::span(x), identity<>{}, transport, executor, {},
                     {.algorithm = algorithm::from(name)});
    });
    for (auto const& one : reports) {
      CHECK(one.hops == hops);
      CHECK(one.weight == static_cast<std::uint64_t>(ranks));
      for (double const seconds :
           {one.seconds_encode, one.seconds_communicate, one.seconds_merge, one.seconds_decode})
        CHECK(seconds >= 0);
    }
  }
}
