
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <collective/endings.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <support/sparse_plan.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using sparse::plan_of;
using sparse::settings;

std::vector<std::string> const algorithms{"ring", "torus", "direct", "recursive_doubling"};
constexpr int rank_counts[] = {1, 2, 3, 4, 7};

/// Vectors of all ranks; the second rank's is all zeros.
sparse::vectors vectors(int ranks, std::size_t n, double density) {
  sparse::vectors x;
  for (int r = 0; r < ranks; ++r)
    x.push_back(sparse::values(n, r == 1 ? 0 : density, {.seed = 100 + static_cast<unsigned>(r)}));
  return x;
}

/// Calls `body(plan, x)` on all ranks. Returns every rank's x afterwards.
template <class Lane, class F>
sparse::vectors on_plans(sparse::vectors const& x, settings const& options, F const& body) {
  return on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    auto sum = plan_of<Lane>(mine.size(), transport, executor, options);
    body(sum, std::span(mine));
  });
}
template <class Lane>
sparse::vectors all_reduced(sparse::vectors const& x, settings const& options = {},
                            call_options const& call = {.seed = 3}) {
  return on_plans<Lane>(x, options, [&](auto& sum, auto mine) { sum.all_reduce(mine, call); });
}

/// Every rank's vector equals `expected` as numbers, and all have the same bits.
bool all_are(sparse::vectors const& all, std::vector<float> const& expected) {
  for (auto const& one : all)
    if (one != expected || first_difference(one, all[0]) != nowhere) return false;
  return true;
}

template <class Lane> void check_exact(std::vector<std::size_t> const& sizes) {
  for (int const ranks : rank_counts)
    for (std::size_t const n : sizes)
      for (double const density : {0.0, 0.01, 0.5, 1.0}) {
        auto const x = vectors(ranks, n, density);
        auto const expected = sparse::fixed_sum<Lane>(x);
        for (auto const& how : algorithms) {
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(density);
          CAPTURE(how);
          CHECK(all_are(all_reduced<Lane>(x, {.plan = {.algorithm = algorithm::from(how)}}),
                        expected));
        }
      }
}

}  // namespace

TEST_CASE("sparse plan: fixed point gives the exact sum by every algorithm, on all ranks") {
  check_exact<std::uint32_t>({0, 1, 64, 10'001});
  check_exact<std::uint64_t>({1000});
}

TEST_CASE("sparse plan: one dense word among zeros, and one value, keep their places") {
  for (std::size_t const at : {0, 64, 3968}) {
    auto x = vectors(3, 4000, 0);
    for (std::size_t i = at; i < std::min<std::size_t>(at + 64, 4000); ++i) x[1][i] = 0.5f;
    x[2][at] = 0.25f;
    CHECK(all_are(all_reduced<std::uint32_t>(x), sparse::plain_sum(x)));
    CHECK(all_are(all_reduced<float>(x), sparse::plain_sum(x)));
  }
}

TEST_CASE(
    "sparse plan: floats by recursive_doubling equal those of a dense plan, by other algorithms "
    "nearly") {
  for (int const ranks : rank_counts)
    for (double const density : {0.01, 0.9})
      for (auto const& how : algorithms) {
        CAPTURE(ranks);
        CAPTURE(density);
        CAPTURE(how);
        plan_options const options{.algorithm = algorithm::from(how)};
        auto const x = vectors(ranks, 10'001, density);
        auto const found = all_reduced<float>(x, {.plan = options});
        auto const dense = on_ranks(x, [&](in_process& transport, auto& mine) {
          host_executor executor;
          plan sum(mine.size(), identity<>{}, transport, executor, options);
          sum.all_reduce(std::span(mine));
        });
        CHECK(all_are(found, found[0]));
        if (how == "recursive_doubling") CHECK(found[0] == dense[0]);
        // P values of at most 1: every addition is off by half a unit of a sum up to P
        double const bound = ranks * data::half_unit<float>(ranks) * 2;
        double most = 0;
        for (std::size_t i = 0; i < dense[0].size(); ++i)
          most = std::max(most, std::fabs(static_cast<double>(found[0][i]) - dense[0][i]));
        CHECK(most <= bound);
      }
}

TEST_CASE("sparse plan: every strategy gives the same bits, and means are sums divided") {
  auto const x = vectors(4, 5000, 0.2);
  auto const expected = sparse::fixed_sum<std::uint32_t>(x);
  for (auto const& strategies :
       {sparse_strategies{}, sparse_strategies{.packed = false, .sketched = false},
        sparse_strategies{.dense = false, .sketched = false},
        sparse_strategies{.dense = false, .packed = false}}) {
    CHECK(all_are(all_reduced<std::uint32_t>(x, {.strategies = strategies}), expected));
    auto const means =
        all_reduced<std::uint32_t>(x, {.strategies = strategies}, {.op = reduce_op::mean});
    auto quarter = expected;  // division by 4 ranks is exact
    for (float& value : quarter) value /= 4;
    CHECK(all_are(means, quarter));
  }
}

TEST_CASE("sparse plan: results are the same without checks, in small segments, with two threads") {
  auto const x = vectors(4, 50'000, 0.3);
  auto const expected = sparse::fixed_sum<std::uint64_t>(x);
  auto shards = x;
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor(2);
    auto sum = plan_of<std::uint64_t>(
        mine.size(), transport, executor,
        {.plan = {.check = false, .segment_bytes = 1, .decode_on_arrival_bytes = 1, .tag = 7}});
    sum.all_reduce(std::span(mine));
    auto& other = shards[static_cast<std::size_t>(transport.rank())];
    sum.reduce_scatter(std::span(other));
    auto const shard = sum.shard();
    for (std::size_t i = shard.first; i < shard.first + shard.count; ++i)
      if (other[i] != expected[i]) FAIL("value " << i << " of rank " << transport.rank());
  });
  CHECK(all_are(found, expected));
}

TEST_CASE("sparse plan: one plan reduces vectors of any density, one after the other") {
  std::vector<sparse::vectors> steps;
  for (double const density : {0.3, 0.01, 0.01, 1.0, 0.0, 0.05})
    steps.push_back(vectors(3, 3000, density));
  auto results = steps, shards = steps;
  std::vector<value_range> shard(3);
  std::vector<std::vector<std::string>> texts(3);
  run_ranks(3, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    auto sum = plan_of<std::uint32_t>(3000, transport, executor);
    shard[rank] = sum.shard();
    for (std::size_t s = 0; s < steps.size(); ++s) {
      sum.all_reduce(std::span(results[s][rank]), {.step = s});
      texts[rank].push_back(sum.choice().text());
      sum.reduce_scatter(std::span(shards[s][rank]), {.step = s});
    }
  });
  for (std::size_t s = 0; s < steps.size(); ++s) {
    CAPTURE(s);
    auto const expected = sparse::fixed_sum<std::uint32_t>(steps[s]);
    CHECK(all_are(results[s], expected));
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t i = shard[r].first; i < shard[r].first + shard[r].count; ++i)
        steps[s][r][i] = expected[i];
    CHECK(shards[s] == steps[s]);
  }
  CHECK(texts[1] == texts[0]);
  CHECK(texts[2] == texts[0]);
  CHECK(texts[0][3].starts_with("dense: 3000 of 3000 values"));
  CHECK(texts[0][4].starts_with("sparse_union: 0 of 3000 values"));
}

TEST_CASE("sparse plan: shards distribute the words evenly, and every rank has a shard") {
  for (int const ranks : rank_counts)
    for (std::size_t const n : {0, 1, 64, 65, 1000, 20'001}) {
      CAPTURE(ranks);
      CAPTURE(n);
      std::vector<value_range> shards(static_cast<std::size_t>(ranks));
      run_ranks(ranks, [&](in_process& transport) {
        host_executor executor;
        auto const sum = plan_of<float>(n, transport, executor);
        shards[static_cast<std::size_t>(transport.rank())] = sum.shard();
      });
      std::size_t next = 0, least = n, most = 0;
      for (auto const& shard : shards) {
        CHECK(shard.first == next);
        next += shard.count;
        CHECK((next % 64 == 0 || next == n));
        least = std::min(least, shard.count);
        most = std::max(most, shard.count);
      }
      CHECK(next == n);
      CHECK(most <= least + 127);  // one word more, and a last one that is not full
    }
}

TEST_CASE("sparse plan: reduce_scatter leaves the sum in the shard, and the rest unchanged") {
  for (int const ranks : rank_counts)
    for (std::size_t const n : {0, 64, 10'001})
      for (double const density : {0.0, 0.01, 0.5, 1.0})
        for (auto const result : {reduce_op::sum, reduce_op::mean})
          for (bool const checksum : {false, true}) {
            // to save time
            if ((checksum || result == reduce_op::mean) && density != 0.5) continue;
            CAPTURE(ranks);
            CAPTURE(n);
            CAPTURE(density);
            CAPTURE(checksum);
            auto const x = vectors(ranks, n, density);
            settings const options{.plan = {.checksum = checksum}};
            auto expected = x, plainly = x;
            std::vector<value_range> shards(x.size());
            auto const whole = all_reduced<std::uint32_t>(x, options, {.seed = 3, .op = result});
            auto plain = sparse::plain_sum(x);
            if (result == reduce_op::mean)
              for (float& value : plain) value /= static_cast<float>(ranks);
            auto const fixed = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
              host_executor executor;
              auto sum = plan_of<std::uint32_t>(n, transport, executor, options);
              shards[static_cast<std::size_t>(transport.rank())] = sum.shard();
              sum.reduce_scatter(std::span(mine), {.seed = 3, .op = result});
            });
            auto const floats = on_plans<float>(x, options, [&](auto& sum, auto mine) {
              sum.reduce_scatter(mine, {.seed = 3, .op = result});
            });
            for (std::size_t r = 0; r < x.size(); ++r)
              for (std::size_t i = shards[r].first; i < shards[r].first + shards[r].count; ++i) {
                expected[r][i] = whole[r][i];
                plainly[r][i] = plain[i];  // added in the order of the ranks, as shards are
              }
            CHECK(fixed == expected);
            CHECK(floats == plainly);
          }
}

TEST_CASE("sparse plan: shards travel packed or dense, by the allowed strategies") {
  auto x = vectors(3, 6400, 0.02);
  auto const expected = sparse::fixed_sum<std::uint32_t>(x);
  for (auto const& strategies :
       {sparse_strategies{}, sparse_strategies{.packed = false, .sketched = false},
        sparse_strategies{.dense = false, .packed = false}}) {
    std::vector<std::uint64_t> sent(3);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor;
      auto sum =
          plan_of<std::uint32_t>(mine.size(), transport, executor, {.strategies = strategies});
      auto const report = sum.reduce_scatter(std::span(mine));
      sent[static_cast<std::size_t>(transport.rank())] = report.bytes_sent;
      CHECK(report.hops == 2);
      CHECK(report.weight == 3);
    });
    bool const packs = strategies.packed || strategies.sketched;
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK((sent[r] > 16'000) == !packs);
      for (std::size_t i = 6400 * r / 3 / 64 * 64 + 64; i < 6400 * (r + 1) / 3 / 64 * 64; ++i)
        if (found[r][i] != expected[i]) FAIL("value " << i << " of rank " << r);
    }
  }
}

namespace {

/// All ranks' vectors cut to the ranks' shards: the expected result of all_gather.
std::vector<float> patchwork(sparse::vectors const& x, std::vector<value_range> const& shards) {
  auto whole = x[0];
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = shards[r].first; i < shards[r].first + shards[r].count; ++i)
      whole[i] = x[r][i];
  return whole;
}

}  // namespace

TEST_CASE("sparse plan: all_gather gives all ranks all shards, bit for bit") {
  for (int const ranks : {1, 2, 3, 5})
    for (std::size_t const n : {0, 1, 63, 64, 65, 1000, 100'003})
      for (bool const checksum : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(n);
        CAPTURE(checksum);
        auto x = vectors(ranks, n, 0.5);  // with zeros of both signs
        // a NaN with its own payload
        if (n > 500) x.back()[n - 1] = std::bit_cast<float>(0x7fc12345u);
        std::vector<value_range> shards(x.size());
        auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          auto const rank = static_cast<std::size_t>(transport.rank());
          host_executor executor;
          auto sum = plan_of<std::uint32_t>(
              n, transport, executor,
              {.plan = {.nonfinite = nonfinite_policy::propagate, .checksum = checksum}});
          shards[rank] = sum.shard();
          auto const report = sum.all_gather(std::span(mine), {.step = 4});
          bool const sends = ranks > 1 && shards[rank].count > 0;
          CHECK(report.hops == (sends ? ranks - 1 : 0));
          CHECK(report.weight == (n > 0 ? 1 : ranks));
        });
        auto const expected = patchwork(x, shards);
        for (auto const& one : found) CHECK(first_difference(one, expected) == nowhere);
      }
}

TEST_CASE("sparse plan: reduce_scatter and all_gather are all_reduce, in fixed point bit for bit") {
  for (int const ranks : {1, 2, 3, 5})
    for (std::size_t const n : {0, 1, 63, 64, 65, 1000, 100'003}) {
      CAPTURE(ranks);
      CAPTURE(n);
      auto const x = vectors(ranks, n, 0.05);
      auto const both = on_plans<std::uint32_t>(x, {}, [](auto& sum, auto mine) {
        // the second step takes the result of the first
        for (std::uint64_t step = 0; step < 2; ++step) {
          sum.reduce_scatter(mine, {.step = step});
          sum.all_gather(mine, {.step = step});
        }
      });
      auto const once = all_reduced<std::uint32_t>(all_reduced<std::uint32_t>(x));
      for (auto const& one : both) CHECK(first_difference(one, once[0]) == nowhere);
    }
}

TEST_CASE("sparse plan: all_gather sends a shard and a header to each other rank") {
  run_ranks(4, [&](in_process& transport) {
    host_executor executor;
    auto sum = plan_of<std::uint64_t>(64'000, transport, executor);
    std::vector<float> x(64'000);
    std::uint64_t const before = transport.bytes_sent();
    auto const report = sum.all_gather(std::span(x));
    CHECK(report.bytes_sent == transport.bytes_sent() - before);
    CHECK(report.bytes_sent >= 3 * (16'000 * 4 + 32));
    CHECK(report.bytes_sent < 3 * (16'000 * 4 + 32) + 1000);  // and the agreement
  });
}

TEST_CASE("sparse plan: by direct, bytes are those of the nonzero values and of their index") {
  constexpr int ranks = 4;
  constexpr std::size_t n = 1'000'000;
  for (double const density : {0.001, 0.02, 0.3}) {
    CAPTURE(density);
    auto const x = vectors(ranks, n, density);
    auto const count = [](std::vector<float> const& values) {
      return static_cast<double>(
          std::count_if(values.begin(), values.end(), [](float v) { return v != 0; }));
    };
    double const marked = count(sparse::plain_sum(x));  // random values do not cancel
    auto const bytes = [](double values) {
      return std::min(n / 8.0, n / 256.0 + values) + 4 * values;
    };
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor;
      auto sum = plan_of<float>(n, transport, executor);
      auto mine = x[rank];
      auto const report = sum.all_reduce(std::span(mine));
      CHECK(report.hops == 2 * (ranks - 1));
      CHECK(static_cast<double>(sum.choice().marked) == marked);
      CHECK(sum.choice().strategy == sparse_strategy::packed);
      double const expected = 0.75 * (bytes(count(x[rank])) + bytes(marked));
      CHECK(static_cast<double>(report.bytes_sent) > 0.97 * expected);  // shards vary
      CHECK(static_cast<double>(report.bytes_sent) < 1.03 * expected + 2000);
    });
  }
}

TEST_CASE("sparse plan: by direct, zeros of both signs that no rank marks become 0") {
  auto x = vectors(3, 20'000, 0.001);
  auto const expected = sparse::plain_sum(x);
  auto const all_have_its_bits = [&] {
    for (auto const& one : all_reduced<float>(x))
      if (first_difference(one, expected) != nowhere) return false;
    return true;
  };
  CHECK(all_have_its_bits());
  for (auto& one : x)
    for (float& value : one) value += 0.0f;  // turns -0 into 0: nothing needs clearing
  CHECK(all_have_its_bits());
  x[2][19'999] = x[2][5000] = -0.0f;
  CHECK(all_have_its_bits());
}

TEST_CASE("sparse plan: bytes are those of the index and of the nonzero values") {
  constexpr int ranks = 4;
  constexpr std::size_t n = 1'000'000;
  auto const x = vectors(ranks, n, 0.01);
  std::size_t marked = 0;
  for (std::size_t i = 0; i < n; ++i) {
    bool any = false;
    for (auto const& one : x) any |= one[i] != 0;
    marked += any;
  }
  std::vector<std::uint64_t> summed(ranks), scattered(ranks);
  for (std::string const how : {"ring", "torus"}) {
    CAPTURE(how);
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor;
      auto sum = plan_of<std::uint32_t>(n, transport, executor,
                                        {.plan = {.algorithm = algorithm::from(how)}});
      auto mine = x[rank], other = x[rank];
      std::uint64_t const before = transport.bytes_sent();
      auto const report = sum.all_reduce(std::span(mine));
      summed[rank] = report.bytes_sent;
      CHECK(report.bytes_sent == transport.bytes_sent() - before);
      CHECK(report.weight == ranks);
      CHECK(sum.choice().marked == marked);
      CHECK(sum.choice().strategy == sparse_strategy::packed);
      scattered[rank] = sum.reduce_scatter(std::span(other)).bytes_sent;
    });
    for (std::size_t r = 0; r < ranks; ++r) {
      // a header of 32 bytes per block; blocks have 4 bytes to 16 KiB; chunks differ by a block
      double const sum = 2 * 0.75 * (n / 8.0 + 4.0 * static_cast<double>(marked));
      CHECK(static_cast<double>(summed[r]) > 0.95 * sum);
      CHECK(static_cast<double>(summed[r]) < 1.05 * sum);
      auto const own = static_cast<double>(
          std::count_if(x[r].begin(), x[r].end(), [](float v) { return v != 0; }));
      double const part = 0.75 * (n / 256.0 + 5 * own);  // few enough for a list of their indices
      CHECK(static_cast<double>(scattered[r]) > 0.98 * part);
      CHECK(static_cast<double>(scattered[r]) < 1.02 * part + 1000);
    }
  }
}

namespace {

template <class Sum> report sum_up(Sum& sum, bool scatters, std::span<float> x) {
  return perform(scatters ? operation::reduce_scatter : operation::all_reduce, sum, x);
}

}  // namespace

TEST_CASE("sparse plan: a disagreement of ranks is reported on all ranks, and x is unchanged") {
  struct {
    std::function<void(settings&, call_options&)> make;
    std::string text;
  } const cases[] = {
      {[](auto& o, auto&) { o.strategies.packed = false; },
       "parameter 1 of the codec: rank 0 has 7, rank 2 has 5"},
      {[](auto& o, auto&) { o.strategies.worthwhile = 0.7; },
       "parameter 2 of the codec: rank 0 has 0.8, rank 2 has 0.7"},
      {[](auto& o, auto&) { o.sketch.cells_per_value = 1.5; },
       "parameter 3 of the codec: rank 0 has 0, rank 2 has 1.5"},
      {[](auto& o, auto&) { o.sketch.attempts = 3; },
       "parameter 4 of the codec: rank 0 has 12, rank 2 has 3"},
      {[](auto& o, auto&) { o.plan.algorithm = algorithm::from("ring"); },
       "the algorithm: rank 0 has direct, rank 2 has ring"},
      {[](auto&, auto& c) { c.step = 6; }, "the step: rank 0 has 0, rank 2 has 6"},
      {[](auto&, auto& c) { c.seed = 6; }, "the seed: rank 0 has 0, rank 2 has 6"},
      {[](auto&, auto& c) { c.op = reduce_op::mean; },
       "the op (0 sum, 1 mean): rank 0 has 0, rank 2 has 1"},
  };
  auto const x = vectors(4, 1000, 0.1);
  for (auto const what : operations) {
    std::string const name = detail::to_text(what);
    for (auto const& one : cases)
      check_ending(ending_of(x,
                             [&](in_process& transport, auto& executor, auto mine) {
                               settings options;
                               call_options call;
                               if (transport.rank() == 2) one.make(options, call);
                               auto sum = plan_of<float>(1000, transport, executor, options);
                               perform(what, sum, mine, call);
                             }),
                   "disagreement_error", name + ": ranks disagree on " + one.text);
    check_ending(
        ending_of(x,
                  [&](in_process& transport, auto& executor, auto mine) {
                    std::size_t const n = transport.rank() == 1 ? 999 : 1000;
                    auto sum = plan_of<float>(n, transport, executor);
                    perform(what, sum, mine.first(n));
                  }),
        "disagreement_error",
        name + ": ranks disagree on the number of values: rank 0 has 1000, rank 1 has 999");
    check_ending(ending_of(x,
                           [&](in_process& transport, auto& executor, auto mine) {
                             auto fixed = plan_of<std::uint32_t>(1000, transport, executor);
                             auto wide = plan_of<std::uint64_t>(1000, transport, executor);
                             if (transport.rank() == 3)
                               perform(what, wide, mine);
                             else
                               perform(what, fixed, mine);
                           }),
                 "disagreement_error",
                 name + ": ranks disagree on the codec (its id): rank 0 has 24, rank 3 has 25");
    check_ending(
        ending_of(x,
                  [&](in_process& transport, auto& executor, auto mine) {
                    auto sum = plan_of<float>(1000, transport, executor);
                    perform(what, sum, mine, {.weight = transport.rank() == 1 ? 2u : 1u});
                  }),
        "invalid_argument",
        what == operation::all_gather
            ? "all_gather: on rank 1 the weight is 0, or not 1 in all_gather (x has 1000 values, "
              "the plan 1000, the weight is 2)"
            : "plan: rank 1 has weight 2, codec 'lossless_sparse' knows only 1");
    check_ending(ending_of(x,
                           [&](in_process& transport, auto& executor, auto mine) {
                             auto sum = plan_of<float>(1001, transport, executor);
                             perform(what, sum, mine);
                           }),
                 "invalid_argument",
                 name +
                     ": on rank 0 x has not the number of values of the plan (x has 1000 values, "
                     "the plan 1001, the weight is 1)");
  }
  check_ending(ending_of(x,
                         [&](in_process& transport, auto& executor, auto mine) {
                           auto sum = plan_of<float>(1000, transport, executor);
                           sum_up(sum, /*scatters=*/transport.rank() == 1, mine);
                         }),
               "disagreement_error",
               "all_reduce: ranks disagree on the collective: rank 0 has all_reduce, rank 1 has "
               "reduce_scatter");
}

TEST_CASE("sparse plan: error feedback is refused on all ranks, after they agree") {
  auto const x = vectors(3, 1000, 0.1);
  auto const with_feedback = [&](bool scatters, std::uint64_t last_step) {
    return ending_of(x, [&](in_process& transport, auto& executor, auto mine) {
      auto sum = plan_of<float>(1000, transport, executor);
      error_feedback<float> feedback(1000);
      call_options const call{.step = transport.rank() == 2 ? last_step : 0};
      scatters ? sum.reduce_scatter(mine, feedback, call) : sum.all_reduce(mine, feedback, call);
    });
  };
  check_ending(with_feedback(false, 0), "invalid_argument",
               "all_reduce: codec 'lossless_sparse' takes no feedback");
  check_ending(with_feedback(true, 0), "invalid_argument",
               "reduce_scatter: codec 'lossless_sparse' takes no feedback");
  check_ending(with_feedback(false, 6), "disagreement_error",
               "all_reduce: ranks disagree on the step: rank 0 has 0, rank 2 has 6");
}

TEST_CASE("sparse plan: uses direct by default, and the algorithm of the options otherwise") {
  auto x = vectors(4, 20'000, 0.05);
  auto const expected = sparse::fixed_sum<std::uint32_t>(x);
  lossless_sparse<std::uint32_t> const codec;
  run_ranks(4, [&](in_process& transport) {
    host_executor executor;
    plan usual(20'000, codec, transport, executor);
    CHECK(usual.options().algorithm.kind == algorithm_kind::direct);
    plan ringing(20'000, codec, transport, executor, {.checksum = true});
    CHECK(ringing.options().algorithm.kind == algorithm_kind::ring);
    CHECK(plan(20'000, identity<>{}, transport, executor).options().algorithm.kind ==
          algorithm_kind::ring);
    auto& mine = x[static_cast<std::size_t>(transport.rank())];
    auto by_plan = mine;
    auto const sent = usual.all_reduce(std::span(by_plan)).bytes_sent;
    CHECK(hcomp::all_reduce(std::span(mine), codec, transport, executor).bytes_sent == sent);
  });
  CHECK(all_are(x, expected));
}

template <class Sum>
concept TakesAnotherCodec = requires(Sum& sum) {
  sum.set_codec(sum.codec());
};
static_assert(TakesAnotherCodec<plan<identity<>, in_process, host_executor>>);

TEST_CASE("sparse plan: shards are whole words with every algorithm, and the codec stays") {
  in_process_world world(1);
  in_process transport(world, 0);
  host_executor executor;
  for (auto const kind : {algorithm_kind::ring, algorithm_kind::torus, algorithm_kind::direct,
                          algorithm_kind::recursive_doubling, algorithm_kind::aggregator}) {
    auto sum = plan_of<float>(1000, transport, executor, {.plan = {.algorithm = {kind}}});
    CHECK(sum.shard_alignment() == 64);
    CHECK(sum.shard().count == 1000);
    static_assert(!TakesAnotherCodec<decltype(sum)>);
  }
}

namespace {

/// A user's codec: fixed point that sends all values.
struct all_of_them {
  using value_type = float;
  using lane_type = std::uint64_t;
  static constexpr char const* name = "all_of_them";
  static constexpr std::uint8_t codec_id = 200;

  sparse_strategies strategies = {.packed = false, .sketched = false};
  lhc_options sketch = {};

  std::array<double, 0> parameters() const { return {}; }
};
static_assert(Sparse<all_of_them>);

}  // namespace

TEST_CASE("sparse plan: any Sparse codec works, and errors use its name") {
  auto const x = vectors(3, 5000, 0.01);
  auto const expected = sparse::fixed_sum<std::uint64_t>(x);
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    plan sum(5000, all_of_them{}, transport, executor);
    sum.all_reduce(std::span(mine));
    CHECK(sum.choice().strategy == sparse_strategy::dense);
  });
  CHECK(all_are(found, expected));
  auto broken = x;
  broken[1][7] = std::numeric_limits<float>::infinity();
  check_ending(ending_of(broken,
                         [&](in_process& transport, auto& executor, auto mine) {
                           plan(5000, all_of_them{}, transport, executor).all_reduce(mine);
                         }),
               "nonfinite_error", "all_of_them: NaN or infinity on some rank; x is unchanged");
}

TEST_CASE("sparse plan: unsupported settings are refused") {
  in_process_world world(1);
  in_process transport(world, 0);
  host_executor executor;
  auto const text_of = [&](std::size_t values, settings const& options) {
    return outcome_of([&] { plan_of<float>(values, transport, executor, options); }).text;
  };
  CHECK(text_of(std::size_t{1} << 32, {}) ==
        "lossless_sparse: 4294967296 values, there is room for 4294967295");
  CHECK(text_of(10, {.strategies = {.dense = false, .packed = false, .sketched = false}}) ==
        "sparse_sum: no strategy is allowed; enable dense, sparse_union or lhc");
  CHECK(text_of(10, {.plan = {.algorithm = algorithm::from("sampled")}}) ==
        "plan: codec 'lossless_sparse' has no algorithm 'sampled'; it has: ring, torus, direct, "
        "recursive_doubling, "
        "aggregator");
}

TEST_CASE("sparse plan: NaN and infinity are refused on all ranks, or propagate at their index") {
  for (float const special :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (int kind = 0; kind < 3; ++kind) {
      bool const scatters = kind == 2;
      std::string const how = kind == 1 ? "direct" : "ring";
      CAPTURE(scatters);
      CAPTURE(how);
      auto x = vectors(3, 1000, 0.1);
      x[2][500] = special;
      auto const options_with = [&](nonfinite_policy policy) {
        return settings{.plan = {.algorithm = algorithm::from(how), .nonfinite = policy}};
      };
      auto const strict = [&]<class Lane>(nonfinite_policy policy) {
        return ending_of(x, [&](in_process& transport, auto& executor, auto mine) {
          auto sum = plan_of<Lane>(1000, transport, executor, options_with(policy));
          sum_up(sum, scatters, mine);
        });
      };
      bool const by_index = !scatters && how == "ring";
      std::string const what = scatters ? "reduce_scatter" : "all_reduce";
      std::string const text = ": NaN or infinity on some rank; x is unchanged";
      check_ending(
          strict.operator()<float>(nonfinite_policy::throw_error), "nonfinite_error",
          by_index ? "sparse_sum" + text
                   : what +
                         ": NaN or infinity on some rank, or overflow, first in block 7 (values "
                         "448 to 511) of 1000 values, 1 blocks concerned; x is "
                         "unchanged");
      check_ending(strict.operator()<std::uint32_t>(nonfinite_policy::propagate), "nonfinite_error",
                   (by_index ? "sparse_sum" : "lossless_sparse") + text);
      auto const passed =
          on_plans<float>(x, options_with(nonfinite_policy::propagate),
                          [&](auto& sum, auto mine) { sum_up(sum, scatters, mine); });
      // of 16 words the second of three ranks has words 5 to 9
      auto const& mine = passed[1];
      CHECK(std::isfinite(mine[499]));
      CHECK((std::isnan(special) ? std::isnan(mine[500]) : mine[500] == special));
      CHECK(std::isfinite(mine[501]));
    }
}

TEST_CASE("sparse plan: NaN that all_gather would spread is refused on all ranks") {
  for (std::size_t const n : {1000, 100}) {  // 100: the first of three ranks has no values
    auto x = vectors(3, n, 0.1);
    x[2][n - 1] = x[2][n - 2] = std::numeric_limits<float>::quiet_NaN();
    x[0][n - 1] = std::numeric_limits<float>::infinity();  // not in its shard: is not sent
    auto const found = ending_of(x, [&](in_process& transport, auto& executor, auto mine) {
      auto sum = plan_of<std::uint32_t>(n, transport, executor);
      sum.all_gather(mine);
    });
    check_ending(found, "nonfinite_error",
                 n == 1000 ? "all_gather: NaN or infinity on some rank, or overflow, first in "
                             "block 15 (values 960 to "
                             "999) of 1000 values, 1 blocks concerned; x is unchanged"
                           : "all_gather: NaN or infinity on some rank, or overflow, first in "
                             "block 1 (values 64 to "
                             "99) of 100 values, 1 blocks concerned; x is unchanged");
  }
}

TEST_CASE("sparse plan: float sums that overflow are refused on all ranks") {
  sparse::vectors x(2, std::vector<float>(1000));
  for (auto& one : x) one[700] = std::numeric_limits<float>::max();
  for (bool const scatters : {false, true}) {  // by direct
    auto const found = ending_of(x, [&](in_process& transport, auto& executor, auto mine) {
      auto sum = plan_of<float>(1000, transport, executor);
      sum_up(sum, scatters, mine);
    });
    CAPTURE(to_text(found.outcomes));
    CHECK(all_ended_alike(found.outcomes, "nonfinite_error"));
    CHECK(found.unchanged);
    if (scatters)
      CHECK(found.outcomes[0].text ==
            "reduce_scatter: NaN or infinity on some rank, or overflow, first in block 10 (values "
            "640 to 703) "
            "of 1000 values, 1 blocks concerned; x is unchanged");
  }
}

namespace {

/// Rank 0 flips one bit of its message number `message` among those with blocks or shards.
struct flipped_run {
  ending found;
  bool applied = false;
};
flipped_run run_with_flip(operation what, std::size_t n, plan_options const& options, int message,
                          std::size_t byte) {
  flipped_run run;
  std::atomic<bool> applied = false;
  run.found = ending_of(vectors(3, n, 0.1), [&](in_process& inner, auto& executor, auto mine) {
    int sent = 0;
    tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
      bool const has_blocks = bytes.size() >= block_header_bytes &&
                              load<std::uint16_t>(bytes.data()) == block_header{}.magic;
      if (inner.rank() != 0 || !has_blocks || sent++ != message) return;
      bytes[byte % bytes.size()] ^= std::byte{4};
      applied = true;
    });
    auto sum = plan_of<std::uint32_t>(n, transport, executor, {.plan = options});
    perform(what, sum, mine);
  });
  run.applied = applied;
  return run;
}

}  // namespace

TEST_CASE("sparse plan: with checksums any damage is an error on all ranks, and x is unchanged") {
  for (auto const what : operations)
    for (std::string const how : {"ring", "recursive_doubling", "direct"})
      for (int message = 0; message < 8; ++message)
        for (std::size_t const byte : {4, 20, 40, 300}) {
          CAPTURE(detail::to_text(what));
          CAPTURE(how);
          CAPTURE(message);
          CAPTURE(byte);
          auto const run = run_with_flip(
              what, 9000, {.algorithm = algorithm::from(how), .checksum = true}, message, byte);
          if (!run.applied) continue;
          CAPTURE(to_text(run.found.outcomes));
          CHECK(all_ended_alike(run.found.outcomes, "wire_error"));
          CHECK(run.found.unchanged);
        }
}

TEST_CASE("sparse plan: by direct, owners report the fault of a part to all ranks") {
  auto const run =
      run_with_flip(operation::all_reduce, 9000,
                    {.algorithm = algorithm::from("direct"), .checksum = true}, 0, 300);
  CHECK(run.applied);
  for (auto const& one : run.found.outcomes) {
    CHECK(one.what == "wire_error");
    CHECK(one.text ==
          "all_reduce: codec 'lossless_sparse', block 47 (values 3008 to 3071): the checksum does "
          "not "
          "match the bytes");
  }
}

TEST_CASE("sparse plan: by direct, a sum that lacks a rank's values is refused") {
  sparse::vectors x(3, std::vector<float>(9000));
  for (auto& one : x)
    for (std::size_t i = 0; i < one.size(); i += 100) one[i] = 1;
  auto const found = ending_of(x, [&](in_process& inner, auto& executor, auto mine) {
    int sent = 0;
    tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
      bool const has_blocks = bytes.size() >= block_header_bytes &&
                              load<std::uint16_t>(bytes.data()) == block_header{}.magic;
      if (inner.rank() != 0 || !has_blocks || sent++ != 3) return;
      bytes[block_header_bytes + detail::sparse::lists_of(3008)] ^= std::byte{4};  // 4 instead of 0
    });
    auto sum = plan_of<std::uint32_t>(mine.size(), transport, executor);
    sum.all_reduce(mine);
  });
  CAPTURE(to_text(found.outcomes));
  CHECK(all_ended_alike(found.outcomes, "wire_error"));
  CHECK(found.unchanged);
}

TEST_CASE("sparse plan: a damaged index stops all ranks, also without checksums and check") {
  // On the ring of three ranks messages 0 and 1 reduce the index, 2 and 3 spread it. No rank that
  // receives 2 or 3 can contradict them.
  for (bool const check : {true, false})
    for (int const message : {2, 3}) {
      plan_options const options{.check = check};
      auto const run = run_with_flip(operation::all_reduce, 100'000, options, message, 40);
      CAPTURE(check);
      CHECK(run.applied);
      CAPTURE(to_text(run.found.outcomes));
      for (auto const& one : run.found.outcomes) {
        CHECK(one.what == "wire_error");
        CHECK(one.text ==
              "lossless_sparse: the index of 100000 values was damaged on its way to some rank");
      }
      CHECK(run.found.unchanged);
      auto const header = run_with_flip(operation::all_reduce, 100'000, options, message,
                                        16);  // index of the block
      CHECK(header.applied);
      for (auto const& one : header.found.outcomes) CHECK(one.what == "wire_error");
      CHECK(header.found.unchanged);
    }
}

TEST_CASE("sparse plan: shards of another call, sender or length are refused on all ranks") {
  // bytes of a header: version, codec, values, weight, rank, owner, key; then counts of marks
  plan_options const direct{.algorithm = algorithm::from("direct")};
  for (auto const what : operations)
    for (int const message : {0, 3}) {  // to an owner, and from one
      if (message == 3 && what != operation::all_reduce) continue;
      for (std::size_t const byte : {2, 3, 4, 8, 12, 16, 24, 32}) {
        // a value; all_gather has no marks
        if (byte == 32 && what == operation::all_gather) continue;
        CAPTURE(detail::to_text(what));
        CAPTURE(message);
        CAPTURE(byte);
        auto const run = run_with_flip(what, 9000, direct, message, byte);
        CHECK(run.applied);
        CAPTURE(to_text(run.found.outcomes));
        CHECK(all_ended_alike(run.found.outcomes, "wire_error"));
        CHECK(run.found.unchanged);
      }
    }
}

TEST_CASE(
    "sparse plan: a shard's marks, lanes and values must have the numbers that its header gives") {
  using message = detail::shard_message<std::uint32_t>;
  detail::sparse::lane_numbers<std::uint32_t> const numbers(130, 2, 1);
  block_origin from{.key = 5, .rank = 1, .index = 0};
  std::vector<std::uint64_t> words(5);
  std::vector<std::byte> good;
  message::content content;
  /// Writes lanes of 1 behind the marks.
  auto const close = [&](std::size_t at, std::size_t count, std::byte* out) {
    for (std::size_t i = 0; i < count; ++i) store(out + at, i, numbers.lane(1));
    return message::close(at + count * message::lane_bytes, out);
  };
  auto const write = [&](std::vector<std::uint64_t> const& marks, std::size_t marked,
                         std::size_t values) {
    good.resize(message::most_bytes(values));
    good.resize(close(message::begin_packed(marks, marked, values, from, good.data()), marked,
                      good.data()));
  };
  auto const fault_of = [&](std::vector<std::byte> const& bytes, std::size_t values) {
    content = message::read(bytes, values, from, words.data());
    return content.fault;
  };
  auto const all_cuts_fail = [&](std::size_t values) {
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      auto bytes = good;
      bytes.resize(size);
      CHECK(fault_of(bytes, values) == block_fault::length);
    }
    auto longer = good;
    longer.resize(good.size() + 4);
    CHECK(fault_of(longer, values) == block_fault::length);
  };
  auto const with_byte = [&](std::size_t at, unsigned value) {
    auto bytes = good;
    bytes[block_header_bytes + at] = static_cast<std::byte>(value);
    return fault_of(bytes, 70);
  };

  write({0x5555555555555555, 32}, 33, 70);  // dense enough for one bit per value
  CHECK(good.size() == 32 + 16 + 33 * 4);
  CHECK(fault_of(good, 70) == block_fault::none);
  CHECK(words[0] == 0x5555555555555555);
  CHECK(words[1] == 32);
  CHECK(load<std::uint32_t>(content.lanes, 32) == numbers.lane(1));
  all_cuts_fail(70);
  CHECK(with_byte(8, 33) == block_fault::length);  // one more
  CHECK(with_byte(8, 0) == block_fault::length);   // one fewer
  CHECK(with_byte(8, 64) == block_fault::length);  // beyond the values
  CHECK(with_byte(15, 128) == block_fault::length);

  write({1, 32}, 2, 70);
  CHECK(good.size() == 32 + 1 + 2 + 2 * 4);
  CHECK(fault_of(good, 70) == block_fault::none);
  CHECK(words[0] == 1);
  CHECK(words[1] == 32);
  all_cuts_fail(70);
  CHECK(with_byte(0, 1) == block_fault::length);  // unread lanes remain
  // of 3 indices the last one is the first lane's byte
  CHECK(with_byte(0, 3) == block_fault::length);
  CHECK(with_byte(1, 69) == block_fault::length);  // the same index twice
  CHECK(with_byte(2, 0) == block_fault::length);   // twice, and not in order
  CHECK(with_byte(2, 70) == block_fault::length);  // beyond the values
  CHECK(with_byte(2, 68) == block_fault::none);
  std::swap(good[block_header_bytes + 1], good[block_header_bytes + 2]);  // in another order
  CHECK(fault_of(good, 70) == block_fault::length);

  // 256 marks of 256 values do not fit a count of one byte, even if the rest has few marks
  std::vector<std::uint64_t> marks(1000);
  std::fill_n(marks.begin() + 8, 4, ~std::uint64_t{0});
  words.resize(1000);
  write(marks, 256, 64'000);
  CHECK(good.size() == 32 + 8000 + 256 * 4);
  CHECK(fault_of(good, 64'000) == block_fault::none);
  CHECK(words == marks);
  marks[9] = 1;
  write(marks, 193, 64'000);
  CHECK(good.size() == 32 + 250 + 193 + 193 * 4);
  CHECK(fault_of(good, 64'000) == block_fault::none);
  CHECK(words == marks);

  std::vector<std::byte> dense(message::dense_bytes(70));
  from.checksum = true;
  CHECK(close(message::begin_dense(70, from, dense.data()), 70, dense.data()) == dense.size());
  CHECK(fault_of(dense, 70) == block_fault::none);
  CHECK(words[0] == ~std::uint64_t{0});
  CHECK(words[1] == 63);
  dense.back() ^= std::byte{1};
  CHECK(fault_of(dense, 70) == block_fault::checksum);
  // a message without its checksum is refused as well
  auto header = load<block_header>(dense.data());
  header.flags &= static_cast<std::uint8_t>(~block_has_checksum);
  store(dense.data(), 0, header);
  CHECK(fault_of(dense, 70) == block_fault::checksum);
}

TEST_CASE("native lanes: plans OR and add them by every algorithm") {
  for (int const ranks : {1, 3, 4})
    for (auto const& how : algorithms) {
      CAPTURE(ranks);
      CAPTURE(how);
      std::vector<std::vector<std::uint64_t>> x;
      std::vector<std::uint64_t> all(9000), total(9000);
      for (int r = 0; r < ranks; ++r) {
        x.push_back(data::words(9000, {.seed = 7 + static_cast<unsigned>(r)}));
        for (std::size_t i = 0; i < 9000; ++i) {
          all[i] |= x.back()[i];
          total[i] += x.back()[i];
        }
      }
      auto const with = [&](auto const& codec) {
        return on_ranks(x, [&](in_process& transport, auto& mine) {
          host_executor executor;
          plan sum(mine.size(), codec, transport, executor, {.algorithm = algorithm::from(how)});
          sum.all_reduce(std::span(mine));
        });
      };
      for (auto const& one : with(native_lanes<std::uint64_t, native_operation::bit_or>{}))
        CHECK(one == all);
      for (auto const& one : with(native_lanes<std::uint64_t>{})) CHECK(one == total);
    }
}
