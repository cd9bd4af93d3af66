/// @file
/// Plans of lossless: exact where floats are, the same bits on all ranks by every algorithm.

#include <doctest/doctest.h>

#include <cmath>
#include <collective/endings.hpp>
#include <collective/merging_algorithms.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <support/encoded_vectors.hpp>
#include <support/lossless.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

TEST_CASE_TEMPLATE("lossless: sums are exact where sums of the type are, by every algorithm", T,
                   float, double) {
  for (int const ranks : {1, 2, 5, 6})
    for (auto const& options : merging_algorithms(ranks)) {
      CAPTURE(ranks);
      CAPTURE(options.algorithm.name());
      std::vector<std::vector<T>> x;
      std::vector<T> expected(5000);
      for (int r = 0; r < ranks; ++r) {
        auto& mine = x.emplace_back(expected.size());
        for (std::size_t i = 0; i < mine.size(); ++i) {
          auto const random = mix(static_cast<std::uint64_t>(r) * 10'000 + i);
          mine[i] = static_cast<T>(static_cast<int>(random % 2001) - 1000) / 8;
          expected[i] += mine[i];
        }
      }
      auto const found = on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
        host_executor executor;
        plan sum(mine.size(), lossless<T>(), transport, executor, options);
        sum.all_reduce(mine);
      });
      for (auto const& answer : found) CHECK(answer == expected);
    }
}

namespace {
/// Encoded vectors have at most 4096 values.
struct short_lossless : lossless<float> {
  static constexpr std::size_t max_values = 4096;
};
}  // namespace

TEST_CASE("lossless: plans cut segments that one encoded vector cannot hold") {
  std::size_t const values = 30'000, whole = std::numeric_limits<std::size_t>::max();
  std::vector<std::vector<float>> const x(2, std::vector<float>(values, 1));
  auto const bytes_of = [&](auto const& codec, std::size_t segment_bytes) {
    std::vector<std::uint64_t> bytes(x.size());
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor;
      plan sum(values, codec, transport, executor, {.segment_bytes = segment_bytes});
      bytes[static_cast<std::size_t>(transport.rank())] = sum.all_reduce(mine).bytes_sent;
    });
    for (auto const& answer : found) CHECK(answer == std::vector<float>(values, 2));
    return bytes;
  };
  CHECK(bytes_of(short_lossless(), whole) == bytes_of(lossless<float>(), 4096 * sizeof(float)));
  CHECK(bytes_of(short_lossless(), whole)[0] > bytes_of(lossless<float>(), whole)[0]);
}

TEST_CASE_TEMPLATE("lossless: all ranks have the same bits, of any values", T, float, double) {
  for (int const kind : {0, 1, 3, 4, 7})
    for (auto const& options : merging_algorithms(4)) {
      CAPTURE(kind);
      CAPTURE(options.algorithm.name());
      std::vector<std::vector<T>> x;
      for (std::uint64_t r = 0; r < 4; ++r) x.push_back(values_of_kind<T>(kind, 5000, r));
      auto may_pass = options;
      may_pass.nonfinite = nonfinite_policy::propagate;
      auto const found = on_ranks(x, [&](in_process& transport, std::vector<T>& mine) {
        host_executor executor;
        plan sum(mine.size(), lossless<T>(), transport, executor, may_pass);
        sum.all_reduce(mine);
      });
      for (auto const& answer : found) CHECK(same_values(answer, found[0]));
      for (std::size_t i = 0; i < 5000; ++i) {
        // three roundings of sums that are no larger than all magnitudes together
        double exact = 0, all = 0;
        for (auto const& one : x) {
          exact += static_cast<double>(one[i]);
          all += std::fabs(static_cast<double>(one[i]));
        }
        if (!std::isfinite(all)) continue;
        double const off = std::fabs(static_cast<double>(found[0][i]) - exact);
        CHECK(off <= 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * all);
      }
    }
}

TEST_CASE("lossless: by name, and NaN refused on all ranks or passed") {
  for (bool const pass : {false, true}) {
    auto const ended = outcomes_on(3, [&](in_process& transport) {
      host_executor executor;
      auto sum = make_plan<double>(
          "lossless", 1000, transport, executor,
          {.nonfinite = pass ? nonfinite_policy::propagate : nonfinite_policy::throw_error});
      std::vector<double> x(1000, 1.0);
      if (transport.rank() == 1) x[500] = std::numeric_limits<double>::infinity();
      sum.all_reduce(x);
      CHECK_FALSE(std::isfinite(x[500]));
      CHECK(x[499] == 3);
    });
    for (auto const& one : ended) CHECK(one.what == (pass ? "returned" : "nonfinite_error"));
  }
}
