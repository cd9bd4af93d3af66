
/// @file
/// Fields of a report about the values of a call and the time of the previous call.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/data.hpp>
#include <support/guarded_executor.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr std::size_t values = 3 * 16384 + 4096;

/// report::dominance of each of two ranks. Rank 1 has `large` at one index.
template <class C> std::vector<double> dominances(C const& codec, float large, bool on_device) {
  std::vector<double> found(2);
  run_ranks(2, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    auto x = data::uniform<float>(values, -1, 1, {.seed = 5 + rank});
    if (rank == 1) x[20000] = large;
    if (on_device) {
      guarded_executor executor;
      host_staged over(transport, executor);
      device_vector<float> const device_values(x, executor);
      found[rank] = plan(values, codec, over, executor).all_reduce(device_values.span()).dominance;
    } else {
      host_executor executor(2);
      found[rank] = plan(values, codec, transport, executor).all_reduce(std::span(x)).dominance;
    }
  });
  return found;
}

}  // namespace

TEST_CASE("report: the error is 0 for lossless codecs, NaN where the codec states none") {
  auto const error_of = [](std::string const& codec, bool scatters,
                           std::string const& how = "direct") {
    CAPTURE(codec);
    CAPTURE(how);
    std::vector<double> errors(2);
    run_ranks(2, [&](in_process& transport) {
      host_executor executor;
      auto x = data::uniform<float>(500, -1, 1, {.seed = 5});
      auto plan = make_plan<float>(codec, x.size(), transport, executor,
                                   {.algorithm = algorithm::from(how)});
      errors[static_cast<std::size_t>(transport.rank())] =
          (scatters ? plan.reduce_scatter(x) : plan.all_reduce(x)).error;
    });
    CHECK(std::isnan(errors[0]) == std::isnan(errors[1]));
    return errors[0];
  };
  for (bool const scatters : {false, true})
    for (auto const how : {"direct", "ring"}) {
      for (auto const lossless : {"identity", "lossless", "lossless_sparse"})
        CHECK(error_of(lossless, scatters, how) == 0);
      for (auto const other : {"fp16", "bf16", "sign", "sign_count", "thc", "uniform_thc",
                               "reproducible", "top_k", "inceptionn", "lossless_sparse:fixed=32"})
        CHECK(std::isnan(error_of(other, scatters, how)));
    }
  CHECK(std::isnan(error_of("sign", false, "sampled")));
  for (bool const scatters : {false, true}) {
    double const bounded = error_of("error_bounded:1e-3", scatters);
    CHECK(bounded > 0);
    CHECK(bounded <= 1e-3);
  }

  report all;
  all += {.error = 2};
  all += {.error = 1};
  CHECK(all.error == 2);
  all += {.error = unknown_error};
  all += {.error = 1};
  CHECK(std::isnan(all.error));
}

TEST_CASE("report: a value that dominates its transform is reported to the rank that has it") {
  auto const codec = fit(thc<>(), 2);
  // A sixteenth of 4096 uniform values: 256 squares of mean 1/3 and standard deviation 0.3 have a
  // share within 1/16 (1 +- 0.25): 5 standard errors, for the largest of 16 of 13 transforms.
  double const alike = 1.25 / 16;
  for (bool const on_device : {false, true}) {
    CAPTURE(on_device);
    auto const calm = dominances(codec, 0.5f, on_device);
    CHECK(calm[0] >= 1.0 / 16);
    CHECK(calm[0] < alike);
    CHECK(calm[1] < alike);
    for (float const large : {1e3f, 1e10f, 3e37f}) {
      CAPTURE(large);
      auto const found = dominances(codec, large, on_device);
      CHECK(found[0] == calm[0]);
      // the other 4095 values have an energy of 1365 +- 20
      CHECK(found[1] >= 1 - 1500 / (static_cast<double>(large) * static_cast<double>(large)));
      CHECK(found[1] <= 1);
    }
  }
  CHECK(dominances(codec, 77.0f, true) == dominances(codec, 77.0f, false));
  CHECK(dominances(sign<>{}, 1e30f, false) == std::vector<double>{0, 0});
}

TEST_CASE(
    "report: dominance includes values and residual, is 0 for zeros, and adds up as the maximum") {
  run_ranks(1, [](in_process& transport) {
    host_executor executor;
    plan sum(4096, thc<>(), transport, executor);
    error_feedback<float> feedback(4096);
    std::vector<float> zeros(4096), one(4096, 1.0f);
    CHECK(sum.all_reduce(std::span(zeros)).dominance == 0);
    CHECK(sum.all_reduce(std::span(one)).dominance == 1.0 / 16);
    one.assign(4096, 1.0f);
    one[7] = 1e6f;
    auto all = sum.all_reduce(std::span(one), feedback);
    CHECK(all.dominance > 0.999);
    one.assign(4096, 0.0f);
    auto const later = sum.all_reduce(std::span(one), feedback);  // of the residual
    CHECK(later.dominance > 0);
    CHECK(later.dominance < all.dominance);
    double const first = all.dominance;
    all += later;
    CHECK(all.dominance == first);
  });
}

TEST_CASE("report: the residual of error feedback relative to the values, growing or bounded") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    // signs of 0.001 leave nearly all of the values, -1 to 1, in every call
    plan grows(values, sign<>{1e-3f}, transport, executor);
    plan stays(values, fit(thc<>({.bits = 1}), 2), transport, executor);
    error_feedback<float> of_signs(values), of_thc(values);
    for (int call = 1; call <= 20; ++call) {
      auto x = data::uniform<float>(values, -1, 1, {.seed = 5}), y = x;
      auto const after = grows.reduce_scatter(std::span(x), of_signs);
      CHECK(after.residual == doctest::Approx(call * call).epsilon(0.02));
      auto const bounded = stays.all_reduce(std::span(y), of_thc).residual;
      CHECK(bounded > 0.3);
      CHECK(bounded < 4);
      CHECK(stays.all_reduce(std::span(y)).residual == 0);
    }
    // no more than 4096 values: exact
    plan few(1000, sign<>{}, transport, executor);
    error_feedback<float> feedback(1000);
    std::vector<float> x(1000, 3.0f);
    auto all = few.all_reduce(std::span(x), feedback);
    CHECK(all.residual == doctest::Approx(4.0 / 9));
    x.assign(1000, 0.0f);
    CHECK(few.all_reduce(std::span(x), feedback).residual == 0);
    all += {};
    CHECK(all.residual == doctest::Approx(4.0 / 9));
  });
}

TEST_CASE("report: all ranks get the previous call's time on the slowest rank") {
  constexpr int ranks = 3;
  std::vector<report> first(ranks), second(ranks), failed(ranks), unchecked(ranks);
  run_ranks(ranks, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    plan sum(values, sign<>{}, transport, executor);
    std::vector<float> x(values, 1.0f), wrong(values, 1.0f);
    if (rank == 1) wrong[5] = std::numeric_limits<float>::quiet_NaN();
    first[rank] = sum.all_reduce(std::span(x));
    second[rank] = sum.all_reduce(std::span(x));
    CHECK_THROWS_AS(sum.all_reduce(std::span(wrong)), nonfinite_error);
    failed[rank] = sum.all_reduce(std::span(x));

    plan blind(values, sign<>{}, transport, executor, {.check = false});
    blind.all_reduce(std::span(x));
    unchecked[rank] = blind.all_reduce(std::span(x));
  });
  double longest = 0;
  for (auto const& one : first) longest = std::max(longest, one.seconds() - one.seconds_agree);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CHECK(first[rank].seconds_of_last == 0);
    CHECK(second[rank].seconds_of_last >= longest);  // and the time between its phases
    CHECK(second[rank].seconds_of_last == second[0].seconds_of_last);
    CHECK(failed[rank].seconds_of_last == 0);
    CHECK(unchecked[rank].seconds_of_last == 0);
  }
}
