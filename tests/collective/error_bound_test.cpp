// optimise: -O1
/// @file
/// What plans of error_bounded promise: whenever the float next to the exact sum is within the
/// bound of it, so is the answer; and no answer is further off than the report says.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/merging_algorithms.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <string>
#include <support/few_cases.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using vectors = std::vector<std::vector<float>>;

/// A sum of doubles without any rounding. J. R. Shewchuk, Discrete Comput. Geom. 18 (1997) 305-363:
/// parts that do not overlap, the largest last.
class exact_sum {
 public:
  void add(double x) {
    std::size_t left = 0;
    for (double part : parts_) {
      if (std::fabs(x) < std::fabs(part)) std::swap(x, part);
      double const sum = x + part, rest = part - (sum - x);
      if (rest != 0) parts_[left++] = rest;
      x = sum;
    }
    parts_.resize(left);
    parts_.push_back(x);
  }
  /// Its largest part: so near that a float next to the sum is next to this, or its neighbour.
  double about() const { return parts_.empty() ? 0 : parts_.back(); }
  /// |sum - x| <= most, exactly.
  bool is_near(float x, double most) const {
    auto above = *this, below = *this;
    above.add(-static_cast<double>(x));
    below.add(-static_cast<double>(x));
    above.add(-most);
    below.add(most);
    return above.about() <= 0 && below.about() >= 0;
  }
  /// Some float is.
  bool has_float(double most) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    auto const near = static_cast<float>(about());
    return is_near(near, most) || is_near(std::nextafter(near, infinity), most) ||
           is_near(std::nextafter(near, -infinity), most);
  }

 private:
  std::vector<double> parts_;
};

/// What became of answers.
struct verdict {
  std::size_t beyond = 0;      ///< further off than the bound, where a float is within it
  std::size_t impossible = 0;  ///< where no float is within the bound
  std::size_t untold = 0;      ///< further off than the report says
  double reported = 0;

  void add(vectors const& x, std::vector<float> const& answer, double bound, double said) {
    reported = std::max(reported, said);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      exact_sum sum;
      for (auto const& mine : x) sum.add(static_cast<double>(mine[i]));
      bool const is_possible = sum.has_float(bound);
      beyond += is_possible && !sum.is_near(answer[i], bound);
      impossible += !is_possible;
      untold += !sum.is_near(answer[i], said);
    }
  }
};

verdict judge(vectors const& x, double bound, plan_options const& options) {
  std::vector<double> said(x.size());
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    plan sum(mine.size(), error_bounded({.bound = bound}), transport, executor, options);
    said[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine).error;
  });
  for (auto const& one : found) CHECK(first_difference(one, found[0]) == nowhere);
  for (double const one : said) CHECK(one == said[0]);
  verdict all;
  all.add(x, found[0], bound, said[0]);
  return all;
}

/// Up to 2^highest, as many of each power of two and rank from 2^lowest on; some are 0.
vectors of_many_sizes(int ranks, std::size_t n, int lowest, int highest, std::uint64_t seed) {
  vectors x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    for (auto& value : x.emplace_back(n)) {
      int const power = numbers.integer(lowest, highest);
      value = static_cast<float>(std::ldexp(numbers.uniform(), power));
      if (numbers.integer(0, 9) == 0) value = 0;
    }
  }
  return x;
}
vectors around(int ranks, std::size_t n, double center, double width, std::uint64_t seed) {
  vectors x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    for (auto& value : x.emplace_back(n))
      value = static_cast<float>(center + width * numbers.uniform());
  }
  return x;
}

std::vector<int> ranks_to_try() {
  if (few_cases) return {2, 5, 16};
  return {2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16};
}

}  // namespace

TEST_CASE("error bound: values of 200 to 300 are summed within 1e-4 wherever floats are so dense") {
  for (int const ranks : ranks_to_try())
    for (auto const& options : merging_algorithms(ranks)) {
      CAPTURE(ranks);
      CAPTURE(options.algorithm.name());
      auto const found = judge(around(ranks, 5000, 255, 45, 1), 1e-4, options);
      CHECK(found.beyond == 0);
      CHECK(found.untold == 0);
      // floats beyond 2048 are 2.4e-4 apart
      CHECK((found.impossible > 0) == (ranks > 7));
      if (ranks <= 7) CHECK(found.reported <= 1e-4);
      if (ranks > 8) CHECK(found.reported > 1e-4);
    }
}

TEST_CASE("error bound: it holds for values of many sizes, wherever a float is within it") {
  double const bounds[] = {1e-4, 1e-3, 0.7e-9, 3.3, 1.9 * 0x1p40, 1e-25};
  std::uint64_t seed = 0;
  std::size_t possible = 0, impossible = 0;
  for (int const ranks : ranks_to_try())
    for (auto const& options : merging_algorithms(ranks)) {
      // from far below the bound to 2^35 times as much, beyond which most sums are no floats
      double const bound = bounds[++seed % std::size(bounds)];
      int const power = std::ilogb(bound);
      CAPTURE(seed);
      CAPTURE(ranks);
      CAPTURE(options.algorithm.name());
      CAPTURE(bound);
      auto const x = of_many_sizes(ranks, 3000, power - 20, power + 35, seed);
      auto const found = judge(x, bound, options);
      CHECK(found.beyond == 0);
      CHECK(found.untold == 0);
      impossible += found.impossible;
      possible += 3000 - found.impossible;
      // large values of one rank beside small ones of others, where floats just suffice
      auto mixed = of_many_sizes(ranks, 3000, power - 3, power + 2, seed);
      auto const large = of_many_sizes(ranks, 3000, power + 22, power + 24, seed + 1);
      for (std::size_t i = 0; i < 3000; ++i) {
        auto const rank = i % static_cast<std::size_t>(ranks);
        mixed[rank][i] = large[rank][i];
      }
      auto const beside = judge(mixed, bound, options);
      CHECK(beside.beyond == 0);
      CHECK(beside.untold == 0);
      CHECK(beside.impossible < 300);
    }
  CHECK(possible > 10'000);
  CHECK(impossible > 10'000);
}

TEST_CASE("error bound: at any scale, sums that are floats are the answers") {
  for (int const ranks : ranks_to_try())
    for (auto const& options : merging_algorithms(ranks))
      for (double const scale : {0x1p10, 0x1p60, 0x1p100}) {
        CAPTURE(ranks);
        CAPTURE(options.algorithm.name());
        CAPTURE(scale);
        auto x = around(ranks, 2000, 0, 1, 3);
        for (auto& mine : x)  // 16 bits, so that all partial sums are floats, too
          for (float& value : mine)
            value = static_cast<float>(std::rint(static_cast<double>(value) * 0x1p16) * scale);
        auto const found = judge(x, 1e-3, options);
        CHECK(found.impossible == 0);
        CHECK(found.beyond == 0);
        CHECK(found.reported == 0);
        // 24 bits: sums are floats or not
        auto const any = around(ranks, 2000, 0, 1e6 * scale, 4);
        auto const rounded = judge(any, 1e-3, options);
        CHECK(rounded.beyond == 0);
        CHECK(rounded.untold == 0);
        CHECK(rounded.impossible > 0);
        CHECK(rounded.reported > 1e-3);
      }
}

TEST_CASE("error bound: one large value of one rank costs its neighbours nothing") {
  for (int const ranks : {2, 5})
    for (auto const& options : merging_algorithms(ranks))
      for (float const large : {1e3f, 1e9f, 1e20f, -3e38f}) {
        CAPTURE(ranks);
        CAPTURE(options.algorithm.name());
        CAPTURE(large);
        auto x = around(ranks, 9000, 0, 1, 5);
        x[1][4321] = large;
        CHECK(judge(x, 1e-4, options).beyond == 0);
      }
}

TEST_CASE("error bound: what 53 bits are too short for is off, and the report says by how much") {
  for (int const ranks : {3, 6})
    for (auto const& options : merging_algorithms(ranks)) {
      CAPTURE(ranks);
      CAPTURE(options.algorithm.name());
      auto x = around(ranks, 4000, 0, 1, 9);
      for (std::size_t i = 0; i < 4000; i += 3) {
        x[i % 2][i] = 1e30f;
        x[2][i] = i % 4 == 0 ? -1e30f : 1e29f;
      }
      auto const found = judge(x, 1e-3, options);
      CHECK(found.untold == 0);
      if (ranks == 6) CHECK(found.beyond > 0);
      CHECK(found.reported > 1e-3);
    }
}

TEST_CASE("error bound: means and single steps of a sum tell how far they are off") {
  for (int const ranks : {2, 3, 8})
    for (auto const& options : merging_algorithms(ranks))
      for (double const center : {0.0, 100.0, 1e6}) {
        CAPTURE(ranks);
        CAPTURE(options.algorithm.name());
        CAPTURE(center);
        auto const x = around(ranks, 3000, center, 1, 6);
        std::vector<double> off(x.size());
        auto const largest_error = [&](std::vector<float> const& y, std::size_t first,
                                       std::size_t end, double parts) {
          double most = 0;
          for (std::size_t i = first; i < end; ++i) {
            double sum = 0;  // exact: of 24 bits and up to 3 more
            for (auto const& mine : x) sum += static_cast<double>(mine[i]);
            most = std::max(most, std::fabs(static_cast<double>(y[i]) - sum / parts));
          }
          return most;
        };
        on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          host_executor executor;
          auto const rank = static_cast<std::size_t>(transport.rank());
          plan sum(mine.size(), error_bounded({.bound = 1e-4}), transport, executor, options);
          auto const mean = sum.all_reduce(mine, {.op = reduce_op::mean});
          // 2^-53 of the mean for the division here
          double const slack = center * 0x1p-50;
          double const of_mean = largest_error(mine, 0, mine.size(), ranks) - slack;
          mine = x[rank];
          auto const scattered = sum.reduce_scatter(mine);
          auto const shard = sum.shard();
          double const of_sum = largest_error(mine, shard.first, shard.first + shard.count, 1);
          off[rank] = std::max(of_mean - mean.error, of_sum - scattered.error);
        });
        for (double const one : off) CHECK(one <= 0);
      }
}

TEST_CASE("error bound: answers are the same whether few values or all tell that they are large") {
  auto x = around(3, 6000, 0, 1, 10);
  for (std::size_t const place : {0u, 1234u}) {  // one that is looked at first, and another
    auto with_large = x;
    with_large[1][place] = 1e4f;
    for (auto options : merging_algorithms(3)) {
      CAPTURE(options.algorithm.name());
      CAPTURE(place);
      vectors answers[2];
      std::size_t sent[2] = {};
      for (bool const check : {false, true}) {
        options.check = check;
        answers[check] = on_ranks(with_large, [&](in_process& transport, std::vector<float>& mine) {
          host_executor executor;
          plan sum(mine.size(), error_bounded({.bound = 1e-4}), transport, executor, options);
          auto const bytes = sum.all_reduce(mine).bytes_sent;
          if (transport.rank() == 0) sent[check] = bytes;
        });
      }
      for (std::size_t r = 0; r < 3; ++r)
        CHECK(first_difference(answers[0][r], answers[1][r]) == nowhere);
      CHECK((sent[1] < sent[0]) == (place == 0));  // the first try is spared
    }
  }
}

TEST_CASE("error bound: what a call answers does not depend on the calls before") {
  auto const small = around(3, 6000, 0, 1, 7), large = around(3, 6000, 300, 50, 8);
  for (auto const& options : merging_algorithms(3)) {
    CAPTURE(options.algorithm.name());
    vectors alone[2];
    for (int which = 0; which < 2; ++which)
      alone[which] = on_ranks(
          which == 0 ? small : large, [&](in_process& transport, std::vector<float>& mine) {
            host_executor executor;
            plan(mine.size(), error_bounded({.bound = 1e-4}), transport, executor, options)
                .all_reduce(mine);
          });
    on_ranks(small, [&](in_process& transport, std::vector<float>& mine) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor;
      plan sum(mine.size(), error_bounded({.bound = 1e-4}), transport, executor, options);
      for (int const which : {0, 1, 1, 0, 1}) {
        mine = which == 0 ? small[rank] : large[rank];
        sum.all_reduce(mine);
        CHECK(first_difference(mine, alone[which][rank]) == nowhere);
      }
    });
  }
}
