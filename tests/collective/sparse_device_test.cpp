#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/collective/sparse_plan.hpp>
#include <hcomp/collective/staged.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/lane_group.hpp>
#include <support/sparse.hpp>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using over_staging = staged<loopback, guarded_executor>;

/// Sums on devices, several with one plan; what was chosen last, by rank 0.
template <class Lane>
sparse::vectors sums_on_devices(sparse::vectors const& x, sparse_plan_options const& options,
                                reduction result, sparse_choice& choice, int host_rank = -1) {
  return on_ranks(x, [&](loopback& transport, auto& mine) {
    if (transport.rank() == host_rank) {
      host_executor host;
      sparse_plan<Lane, loopback, host_executor> sum(mine.size(), transport, host, options);
      std::vector<float> first(mine.size(), 1.0f);
      sum.all_reduce(std::span(first));
      sum.all_reduce(std::span(mine), {.seed = 3, .result = result});
      return;
    }
    guarded_executor executor;
    over_staging over(transport, executor);
    sparse_plan<Lane, over_staging, guarded_executor> sum(mine.size(), over, executor, options);
    device_vector<float> const first(std::vector<float>(mine.size(), 1.0f), executor);
    device_vector<float> const there(mine, executor);
    sum.all_reduce(first.span());
    sum.all_reduce(there.span(), {.seed = 3, .result = result});
    if (transport.rank() == 0) choice = sum.choice();
    mine = there.host();
  });
}
template <class Lane>
sparse::vectors sums_on_hosts(sparse::vectors const& x, sparse_plan_options const& options,
                              reduction result, sparse_choice& choice) {
  return on_ranks(x, [&](loopback& transport, auto& mine) {
    host_executor executor;
    sparse_plan<Lane, loopback, host_executor> sum(mine.size(), transport, executor, options);
    sum.all_reduce(std::span(mine), {.seed = 3, .result = result});
    if (transport.rank() == 0) choice = sum.choice();
  });
}

template <class Lane> void check_sums() {
  using vectors = sparse::vectors;
  constexpr std::size_t run = detail::run_values;
  for (int const ranks : few_cases ? std::vector{3} : std::vector{1, 3, 4})
    for (std::size_t const n :
         {std::size_t{0}, std::size_t{1}, std::size_t{65}, 2 * run - 1, 2 * run, 2 * run + 100})
      for (double const density : {0.0, 0.02, 0.6})
        for (std::string const name : {"ring", "torus", "direct", "doubling"}) {
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(density);
          CAPTURE(name);
          // By direct, hosts add up floats in another order.
          if (std::is_same_v<Lane, float> && name == "direct") continue;
          vectors const x = sparse::ranks_of(static_cast<std::size_t>(ranks), n, density);
          sparse_plan_options const options{.plan = {.how = algorithm::from(name)}};
          auto const result = n % 2 == 0 ? reduction::sum : reduction::mean;
          sparse_choice chosen, expected;
          auto const found = sums_on_devices<Lane>(x, options, result, chosen);
          auto const wanted = sums_on_hosts<Lane>(x, options, result, expected);
          for (std::size_t r = 0; r < x.size(); ++r)
            CHECK(first_difference(found[r], wanted[r]) == nowhere);
          if (name == "direct") continue;  // on hosts, each shard has its own way
          CHECK(chosen.marked == expected.marked);
          CHECK(chosen.way == expected.way);
        }
}

/// How ranks end that sum on devices, and whether x kept every bit.
template <class Lane, class MakeTransport>
std::vector<outcome> ends_on_devices(sparse::vectors const& x, sparse_plan_options const& options,
                                     MakeTransport const& make) {
  auto after = x;
  auto const outcomes = outcomes_on(static_cast<int>(x.size()), [&](loopback& inner) {
    auto const rank = static_cast<std::size_t>(inner.rank());
    guarded_executor executor;
    auto transport = make(inner);
    staged over(transport, executor);
    device_vector<float> const there(x[rank], executor);
    sparse_plan<Lane, decltype(over), guarded_executor> sum(x[rank].size(), over, executor,
                                                            options);
    try {
      sum.all_reduce(there.span());
    } catch (std::exception const&) {
      after[rank] = there.host();
      throw;
    }
  });
  for (std::size_t r = 0; r < x.size(); ++r) CHECK(first_difference(after[r], x[r]) == nowhere);
  return outcomes;
}
auto const untampered = [](loopback& inner) {
  return tampered_transport(inner, [](int, int, std::span<std::byte>) {});
};

}  // namespace

TEST_CASE("sparse plan on devices: the bits and the choice of plans on hosts, in floats") {
  check_sums<float>();
}
TEST_CASE("sparse plan on devices: the bits and the choice of plans on hosts, in fixed point") {
  check_sums<std::uint32_t>();
  if (!few_cases) check_sums<std::uint64_t>();
}

TEST_CASE("sparse plan on devices: hosts and devices make one sum") {
  auto const x = sparse::ranks_of(3, 2 * detail::run_values + 100, 0.02);
  sparse_plan_options const options{.plan = {.how = algorithm::from("ring")}};
  sparse_choice choice;
  auto const found = sums_on_devices<float>(x, options, reduction::sum, choice, 1);
  auto const wanted = sums_on_hosts<float>(x, options, reduction::sum, choice);
  for (std::size_t r = 0; r < x.size(); ++r)
    CHECK(first_difference(found[r], wanted[r]) == nowhere);
}

TEST_CASE(
    "sparse plan on devices: NaN is refused on all ranks alike, x is unchanged, or it passes") {
  auto x = sparse::ranks_of(3, 20000, 0.01);
  x[1][15000] = std::numeric_limits<float>::quiet_NaN();
  for (auto const& outcomes : {ends_on_devices<float>(x, {}, untampered),
                               ends_on_devices<std::uint32_t>(x, {}, untampered)}) {
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "nonfinite_error"));
  }
  sparse_choice choice;
  sparse_plan_options const passing{.plan = {.nonfinite = nonfinite_policy::propagate}};
  auto const found = sums_on_devices<float>(x, passing, reduction::sum, choice);
  for (auto const& one : found) CHECK(one[15000] != one[15000]);
}

TEST_CASE("sparse plan on devices: an index damaged on its way is told on all ranks") {
  auto const x = sparse::ranks_of(3, 20000, 0.01);
  auto const damaging = [](loopback& inner) {
    return tampered_transport(
        inner, [done = inner.rank() != 0](int, int, std::span<std::byte> bytes) mutable {
          bool const has_blocks = bytes.size() >= block_header_bytes &&
                                  load<std::uint16_t>(bytes.data()) == block_header{}.magic;
          if (has_blocks && !std::exchange(done, true))
            bytes[block_header_bytes + 9] ^= std::byte{4};
        });
  };
  for (std::string const name : {"ring", "direct"}) {
    CAPTURE(name);
    auto const outcomes = ends_on_devices<std::uint32_t>(
        x, {.plan = {.how = algorithm::from(name), .checksum = true}}, damaging);
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "wire_error"));
  }
}

TEST_CASE(
    "sparse plan on devices: a union that lacks this rank's marks, or has marks beyond, is one") {
  constexpr std::size_t values = detail::run_values + 70;
  auto const x = sparse::values(values, 0.1, {.seed = 5});
  std::size_t const words = sparse_index::words(values);
  for (std::size_t const spoilt : {words, std::size_t{100}, words - 1 - detail::exponent_words}) {
    CAPTURE(spoilt);
    guarded_executor executor;
    device_vector<float> const there(x, executor);
    detail::sparse_phases<float, guarded_executor> phases(values, {}, {}, {}, executor);
    auto const marks = phases.mark(there.span(), reduction::sum);
    executor.synchronize();
    if (spoilt < words) {
      guarded_memory::opened const open;
      if (spoilt == 100)
        marks[spoilt] = 0;
      else
        marks[spoilt] |= std::uint64_t{1} << 63;
    }
    phases.look();
    if (spoilt == words)
      CHECK_NOTHROW(phases.unite(0));
    else
      CHECK_THROWS_WITH_AS(
          phases.unite(0),
          (std::string("sparse_plan: the index of values ") +
           (spoilt == 100 ? "0 to 8191" : "8192 to 8261") +
           " lacks some that this rank has marked, or marks what is no value; is this a result of "
           "a bitwise OR?")
              .c_str(),
          wire_error);
  }
}

TEST_CASE("sparse plan on devices: sketches alone are refused, and hosts beside devices, too") {
  guarded_executor executor;
  run_ranks(1, [&](loopback& transport) {
    over_staging over(transport, executor);
    using plan_type = sparse_plan<float, over_staging, guarded_executor>;
    CHECK_THROWS_WITH_AS(
        plan_type(10, over, executor, {.ways = {.dense = false, .packed = false}}),
        "sparse_plan: of the ways only sketches, or none, are allowed; in a device's memory there "
        "are dense and sparse_union",
        std::invalid_argument);
  });
  auto const outcomes = outcomes_on(2, [](loopback& transport) {
    std::vector<float> x(100, 1.0f);
    if (transport.rank() == 0) {
      host_executor host;
      sparse_plan<float, loopback, host_executor>(100, transport, host).all_reduce(std::span(x));
    } else {
      guarded_executor device;
      over_staging over(transport, device);
      device_vector<float> const there(x, device);
      sparse_plan<float, over_staging, guarded_executor>(100, over, device)
          .all_reduce(there.span());
    }
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "disagreement_error"));
}

TEST_CASE("sparse plan on devices: values of one rank in host memory are refused on all ranks") {
  auto const x = sparse::ranks_of(3, 20000, 0.01);
  auto const outcomes = outcomes_on(3, [&](loopback& transport) {
    auto mine = x[static_cast<std::size_t>(transport.rank())];
    guarded_executor executor;
    over_staging over(transport, executor);
    device_vector<float> const there(mine, executor);
    sparse_plan<float, over_staging, guarded_executor> sum(mine.size(), over, executor);
    sum.all_reduce(transport.rank() == 1 ? std::span(mine) : there.span());
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "invalid_argument"));
  CHECK(outcomes[0].text.find("on rank 1 x is not in memory") != std::string::npos);
}

TEST_CASE("sparse runs: many lanes make what one lane makes") {
  using lane_type = std::uint32_t;
  constexpr std::size_t values = detail::run_values + 333;
  std::size_t const words = detail::index_words(values), runs = detail::runs_of(values);
  auto const x = sparse::values(values, 0.3, {.seed = 9});
  struct results {
    std::vector<std::uint64_t> words, own;
    std::vector<std::uint32_t> exponents, begins, ranks;
    std::vector<lane_type> lanes;
    std::vector<float> back;
    detail::index_summary summary{};
  };
  auto const all_of_it = [&](auto const& share) {
    results r;
    r.words.resize(words + detail::exponent_words);
    r.own.resize(words);
    r.exponents.resize(runs);
    r.begins.resize(runs);
    r.ranks.resize(words);
    r.lanes.resize(values);
    r.back.resize(values);
    std::vector<detail::run_record> records(runs);
    auto const all_runs = [&](auto const& work) {
      for (std::size_t i = 0; i < runs; ++i) share([&](auto group) { work(group, i); });
    };
    all_runs(detail::mark_runs{x.data(), values, r.words.data(), r.own.data(), r.exponents.data()});
    detail::close_marks const close{r.exponents.data(), runs, r.words.data() + words};
    share([&](auto group) { close(group, 0); });
    all_runs(detail::count_runs{r.words.data(), r.own.data(), values, records.data()});
    detail::add_up_runs const add_up{records.data(), runs, r.words.data() + words, r.begins.data(),
                                     &r.summary};
    share([&](auto group) { add_up(group, 0); });
    all_runs(detail::rank_runs{r.words.data(), values, r.begins.data(), r.ranks.data()});
    detail::lhc_numbers<lane_type> const numbers(127, 3, 1);
    detail::packed_places const places{r.words.data(), r.ranks.data()};
    all_runs(detail::pack_runs<lane_type>{numbers, places, values, x.data(), r.lanes.data()});
    all_runs(
        detail::unpack_runs<lane_type>{numbers, places, values, r.lanes.data(), r.back.data()});
    return r;
  };
  auto const expected = all_of_it([](auto const& f) { f(serial_group{}); });
  CHECK(expected.summary.marked == values - std::size_t(std::count(x.begin(), x.end(), 0.0f)));
  auto const check = [&](results const& found) {
    CHECK(found.words == expected.words);
    CHECK(found.own == expected.own);
    CHECK(found.exponents == expected.exponents);
    CHECK(found.begins == expected.begins);
    CHECK(found.ranks == expected.ranks);
    CHECK(found.lanes == expected.lanes);
    CHECK(found.back == expected.back);
    CHECK(found.summary.marked == expected.summary.marked);
    CHECK(found.summary.print == expected.summary.print);
    CHECK(found.summary.exponent == expected.summary.exponent);
    CHECK(found.summary.wrong_run == 0);
  };
  check(all_of_it([](auto const& f) { lanes::run<3>(f); }));
  check(all_of_it([](auto const& f) { lanes::run_in_warps<64>(0, f); }));
}
