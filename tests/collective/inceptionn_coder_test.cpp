// optimise: -O1
/// @file
/// INCEPTIONN's codes by executors: the host's bytes, values and complaints.

#include <doctest/doctest.h>

#include <collective/coder.hpp>
#include <cstddef>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <support/inceptionn.hpp>
#include <support/worker_executor.hpp>
#include <vector>

using hcomp::variable_rate_coder;
using hcomp::testing::check_coder;
using hcomp::testing::few_cases;
using hcomp::testing::guarded_executor;
using inceptionn::floats;
using workers::array;

namespace {

template <class E> void check_vector(E& executor, hcomp::inceptionn const& codec, floats const& x) {
  check_coder(executor, codec, x, inceptionn::normal(x.size(), 0.05, {.seed = 5}));
}

}  // namespace

TEST_CASE(
    "variable_rate_coder of inceptionn: the host's bytes and values; the host touches no memory") {
  for (auto const& options : inceptionn::all_settings({10}))
    for (std::size_t const n : {0, 1, 4, 1023, 1024, 1025, 5000}) {
      CAPTURE(hcomp::detail::inceptionn::text_of(options));
      CAPTURE(n);
      guarded_executor executor;
      check_vector(executor, hcomp::inceptionn(options), inceptionn::mixed(n, {.seed = n}));
    }
  for (double const sigma : {1e-3, 1e-2, 1e5})  // the last is stored as floats
    for (int const prescale : {-5, 0}) {
      CAPTURE(sigma);
      guarded_executor executor;
      check_vector(executor, hcomp::inceptionn({.prescale = prescale}),
                   inceptionn::normal(20'000, sigma, {.seed = 1}));
    }
}

TEST_CASE("variable_rate_coder of inceptionn: many chunks") {
  for (std::size_t const n : {512 * 1024, 700 * 1024 + 5}) {
    auto const x = inceptionn::normal(n, 0.02, {.seed = 2});
    guarded_executor executor;
    check_vector(executor, hcomp::inceptionn(), x);
  }
  // and more than blocks that measure
  guarded_executor executor;
  variable_rate_coder<hcomp::inceptionn, guarded_executor> coder(0, executor);
  for (std::size_t const place : {0, 1023 * 1024, 1024 * 1024, 1'500'000 - 1}) {
    floats x(1'500'000, 1e-3f);
    x[place] = -7;
    CHECK(coder.measure(array(executor, x).span()) == hcomp::inceptionn::measure(x));
  }
}

TEST_CASE("variable_rate_coder of inceptionn: by several workers, and by threads") {
  hcomp::testing::workers_executor many;
  workers::sharing_executor<8> sharing;
  hcomp::reference_executor threads(3);
  hcomp::host_executor one, three(3);
  for (std::size_t const n : {1, 1025, 5000}) {
    CAPTURE(n);
    auto const x = inceptionn::mixed(n, {.seed = n});
    check_vector(many, hcomp::inceptionn(), x);
    check_vector(sharing, hcomp::inceptionn(), x);
    check_vector(threads, hcomp::inceptionn(), x);
    check_vector(one, hcomp::inceptionn(), x);
    check_vector(three, hcomp::inceptionn(), x);
  }
  auto const longer = inceptionn::normal(300'000, 0.02, {.seed = 2});
  check_vector(sharing, hcomp::inceptionn(), longer);
  check_vector(threads, hcomp::inceptionn(), longer);
  // runs of 16 chunks, of which the last is short or one chunk alone; and codes as long as can be
  for (std::size_t const n : {16 * 1024, 16 * 1024 + 1, 50 * 1024 + 7})
    for (double const sigma : {0.02, 1e5}) {
      CAPTURE(n);
      auto const x = inceptionn::normal(n, sigma, {.seed = n});
      check_vector(threads, hcomp::inceptionn(), x);
      check_vector(one, hcomp::inceptionn(), x);
      check_vector(three, hcomp::inceptionn(), x);
    }
}

TEST_CASE("variable_rate_coder of inceptionn: damage is told as on the host") {
  for (std::size_t const n : {0, 6, 2500})
    hcomp::testing::check_damage(hcomp::inceptionn(), inceptionn::mixed(n, {.seed = 3}));
}

TEST_CASE("variable_rate_coder of inceptionn: what there is no room for is refused") {
  hcomp::testing::check_refusals(hcomp::inceptionn());
}
