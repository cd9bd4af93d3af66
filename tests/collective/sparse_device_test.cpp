#include <doctest/doctest.h>

#include <algorithm>
#include <collective/host_memory.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/detail/lhc_index.hpp>
#include <hcomp/codec/detail/lhc_numbers.hpp>
#include <hcomp/codec/detail/lhc_plan.hpp>
#include <hcomp/codec/lhc.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/collective/detail/device_sketch.hpp>
#include <hcomp/collective/sparse_plan.hpp>
#include <hcomp/collective/staged.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/detail/sketch_runs.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/lane_group.hpp>
#include <support/sparse.hpp>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using over_staging = staged<loopback, guarded_executor>;

/// Sums of all ranks, and how they were made.
struct sums {
  sparse::vectors x;
  std::vector<std::string> choices;  ///< of each rank
  std::vector<std::uint64_t> sent;
};

/// Two sums with one plan, by ranks of which some are on devices.
template <class Lane>
sums sums_of(sparse::vectors const& x, sparse_plan_options const& options, reduction result,
             bool (*is_device)(int rank)) {
  sums found{{}, std::vector<std::string>(x.size()), std::vector<std::uint64_t>(x.size())};
  found.x = on_ranks(x, [&](loopback& transport, auto& mine) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    std::vector<float> first(mine.size(), 1.0f);
    auto const sum_both = [&](auto& sum, std::span<float> ones, std::span<float> values) {
      sum.all_reduce(ones);
      found.sent[rank] = sum.all_reduce(values, {.seed = 3, .result = result}).bytes_sent;
      found.choices[rank] = sum.choice().text();
    };
    if (!is_device(transport.rank())) {
      host_executor executor;
      sparse_plan<Lane, loopback, host_executor> sum(mine.size(), transport, executor, options);
      return sum_both(sum, first, mine);
    }
    guarded_executor executor;
    over_staging over(transport, executor);
    sparse_plan<Lane, over_staging, guarded_executor> sum(mine.size(), over, executor, options);
    device_vector<float> const ones(first, executor), there(mine, executor);
    sum_both(sum, ones.span(), there.span());
    mine = there.host();
  });
  return found;
}
auto const all = [](int) { return true; };
auto const none = [](int) { return false; };
auto const all_but_one = [](int rank) { return rank != 1; };

void check_equal(sums const& found, sums const& wanted) {
  for (std::size_t r = 0; r < wanted.x.size(); ++r) {
    CHECK(first_difference(found.x[r], wanted.x[r]) == nowhere);
    CHECK(found.choices[r] == wanted.choices[r]);
    CHECK(found.sent[r] == wanted.sent[r]);
  }
}

auto const numbers_of_ranks = few_cases ? std::vector{3} : std::vector{1, 3, 4};

template <class Lane> void check_sums(std::vector<int> const& all_ranks) {
  using vectors = sparse::vectors;
  constexpr std::size_t run = detail::run_values;
  for (int const ranks : all_ranks)
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
          auto found = sums_of<Lane>(x, options, result, all);
          auto const wanted = sums_of<Lane>(x, options, result, none);
          if (name == "direct") {  // on hosts, each shard has its own way
            found.choices = wanted.choices;
            found.sent = wanted.sent;
          }
          check_equal(found, wanted);
        }
}

/// Sketches that peel, that leave some values beside, or all.
template <class Lane> void check_sketched_sums(std::vector<int> const& all_ranks) {
  for (int const ranks : all_ranks)
    for (double const density : {0.0, 0.001, 0.2, 1.0})
      for (double const cells_per_value : {0.0, 1.21, 1.0})
        for (std::string const name : {"ring", "torus", "direct", "doubling"}) {
          if (name != "ring" && (density != 0.2 || cells_per_value == 1.0)) continue;
          CAPTURE(ranks);
          CAPTURE(density);
          CAPTURE(cells_per_value);
          CAPTURE(name);
          auto const x =
              sparse::ranks_of(static_cast<std::size_t>(ranks), detail::run_values + 100, density);
          sparse_plan_options const options{
              .ways = {.dense = false, .packed = false},
              .sketch = {.cells_per_value = cells_per_value, .attempts = 2},
              .plan = {.how = algorithm::from(name)}};
          auto const result = ranks == 3 ? reduction::mean : reduction::sum;
          auto const wanted = sums_of<Lane>(x, options, result, none);
          CHECK(wanted.choices[0].substr(0, 4) == "lhc:");
          check_equal(sums_of<Lane>(x, options, result, all), wanted);
          if (ranks > 1) check_equal(sums_of<Lane>(x, options, result, all_but_one), wanted);
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
  check_sums<float>(numbers_of_ranks);
}
TEST_CASE("sparse plan on devices: the bits and the choice of plans on hosts, in fixed point") {
  check_sums<std::uint32_t>(numbers_of_ranks);
  if (!few_cases) check_sums<std::uint64_t>({3});
}

TEST_CASE("sparse plan on devices: sketched sums have the bits and the bytes of those on hosts") {
  check_sketched_sums<std::uint32_t>(numbers_of_ranks);
  if (!few_cases) check_sketched_sums<std::uint64_t>({2});
}
TEST_CASE("sparse plan on devices: hosts and devices make one sum") {
  for (double const density : {0.02, 0.6}) {
    CAPTURE(density);
    auto const x = sparse::ranks_of(3, 2 * detail::run_values + 100, density);
    sparse_plan_options const options{.plan = {.how = algorithm::from("ring")}};
    check_equal(sums_of<float>(x, options, reduction::sum, all_but_one),
                sums_of<float>(x, options, reduction::sum, none));
  }
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
  sparse_plan_options const passing{.plan = {.nonfinite = nonfinite_policy::propagate}};
  for (auto const& one : sums_of<float>(x, passing, reduction::sum, all).x)
    CHECK(one[15000] != one[15000]);
}

namespace {

/// A transport that damages the first block of this codec that rank 0 sends.
auto damages_first(std::uint8_t codec) {
  return [codec](loopback& inner) {
    return tampered_transport(
        inner, [codec, done = inner.rank() != 0](int, int, std::span<std::byte> bytes) mutable {
          if (bytes.size() < block_header_bytes) return;
          auto const header = load<block_header>(bytes.data());
          if (header.magic != block_header{}.magic || header.codec != codec) return;
          if (!std::exchange(done, true)) bytes[block_header_bytes + 9] ^= std::byte{4};
        });
  };
}

}  // namespace

TEST_CASE("sparse plan on devices: an index damaged on its way is told on all ranks") {
  auto const x = sparse::ranks_of(3, 20000, 0.01);
  for (std::string const name : {"ring", "direct"}) {
    CAPTURE(name);
    auto const outcomes = ends_on_devices<std::uint32_t>(
        x, {.plan = {.how = algorithm::from(name), .checksum = true}},
        damages_first(native_lanes<std::uint64_t, native_operation::bit_or>::tag));
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, "wire_error"));
  }
}
TEST_CASE("sparse plan on devices: cells damaged on their way are told on all ranks") {
  auto const outcomes = ends_on_devices<std::uint32_t>(
      sparse::ranks_of(3, 20000, 0.01),
      {.ways = {.dense = false, .packed = false}, .plan = {.how = algorithm::from("ring")}},
      damages_first(lane_sum<std::uint32_t>::tag));
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "wire_error"));
  CHECK(outcomes[0].text.find("cells hold what the index does not explain") != std::string::npos);
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

TEST_CASE("sparse plan on devices: what it cannot be made for is refused") {
  auto const text_of = []<class Lane>(Lane, sparse_plan_options const& options) {
    std::string text = "nothing";
    run_ranks(1, [&](loopback& transport) {
      guarded_executor executor;
      over_staging over(transport, executor);
      try {
        sparse_plan<Lane, over_staging, guarded_executor>(10, over, executor, options);
      } catch (std::invalid_argument const& error) {
        text = error.what();
      }
    });
    return text;
  };
  CHECK(text_of(0.0f, {.ways = {.dense = false, .packed = false, .sketched = false}}) ==
        "sparse_plan: no way is allowed; there are dense, sparse_union and lhc");
  for (bool const dense : {false, true}) {
    sparse_plan_options const options{.ways = {.dense = dense, .packed = false}};
    CHECK(text_of(0.0f, options) ==
          "sparse_plan: lhc is allowed and sparse_union is not, but in a device's memory there are "
          "no sketches of floats; lanes of std::uint32_t or std::uint64_t have them");
    CHECK(text_of(std::uint32_t{}, options) == "nothing");
  }
  for (sparse_plan_options const& options :
       {sparse_plan_options{.sketch = {.cells_per_value = 0.5}},
        sparse_plan_options{.sketch = {.attempts = 0}}}) {
    CHECK(text_of(0.0f, options).find("there can be 1 to 100 (0: by itself) and 1 to 50") !=
          std::string::npos);
    CHECK(text_of(std::uint32_t{}, options) == text_of(0.0f, options));
  }
}

TEST_CASE("sparse plan on devices: by direct, hosts beside devices are refused on all ranks") {
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
  check_host_memory_is_refused(20000, [](auto& transport, auto& executor, std::span<float> x) {
    sparse_plan<float, over_staging, guarded_executor>(x.size(), transport, executor).all_reduce(x);
  });
}

namespace {

/// An executor of host memory that works at once: a device's, as far as types go.
template <class Run> class simple_executor {
 public:
  static constexpr memory_space space = memory_space::device;
  using buffer = host_buffer;
  using staging = host_buffer;
  struct mark {};

  template <class F> void for_each_block(std::size_t blocks, F const& f) { Run::all(blocks, f); }
  mark read(void* to, void const* from, std::size_t bytes) { return copy(to, from, bytes); }
  mark write(void* to, void const* from, std::size_t bytes) { return copy(to, from, bytes); }
  void wait(mark) {}
  void synchronize() {}
  memory_space space_of(void const*) const { return memory_space::device; }

 private:
  static mark copy(void* to, void const* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
};
/// Three blocks at once, the last first, each by one lane.
struct at_once {
  template <class F> static void all(std::size_t blocks, F const& f) {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = blocks; i-- > 0;)
          if (i % 3 == t) f(serial_group{}, i);
      });
    for (auto& thread : threads) thread.join();
  }
};
/// One block after the other, each by two warps.
struct by_warps {
  template <class F> static void all(std::size_t blocks, F const& f) {
    for (std::size_t i = blocks; i-- > 0;)
      lanes::run_in_warps<64>(0, [&](auto group) { f(group, i); });
  }
};

/// Whether sketches by such an executor claim what lhc_plan claims, in its order, and have the
/// lanes and values of lhc.
template <class Run>
void check_sketches(std::size_t values, double density, lhc_options const& options) {
  using lane_type = std::uint32_t;
  using executor_type = simple_executor<Run>;
  CAPTURE(values);
  CAPTURE(options.cells_per_value);
  auto const x = sparse::values(values, density, {.seed = 1});
  auto const others = sparse::values(values, density, {.seed = 2});
  lhc<lane_type> host({.ranks = 2}, options);
  auto const theirs = host.mark(others);
  std::vector<std::uint64_t> words(theirs.begin(), theirs.end());
  auto const both = host.mark(x);
  for (std::size_t w = 0; w < words.size(); ++w) words[w] = both[w] |= words[w];
  host.unite(5);
  detail::lhc_plan plan;
  auto const& index = host.index();
  plan.make(index, detail::lhc_plan::cells_per_value(index.marked(), options.cells_per_value),
            options.attempts, 5);

  executor_type executor;
  detail::device_sketch<lane_type, executor_type> sketch(values, options, executor);
  sketch.choose(words.data(), index.marked(), 5);
  CHECK(sketch.cells() == host.cells());
  CHECK(sketch.beside() == host.beside());
  CHECK(sketch.attempts() == host.attempts());
  CHECK(sketch.rounds() == host.rounds());
  REQUIRE(index.marked() - sketch.beside() == plan.claims());
  CHECK(std::equal(
      plan.order().begin(), plan.order().end(), sketch.claims(),
      [](auto const& a, auto const& b) { return a.value == b.value && a.cell == b.cell; }));

  std::vector<lane_type> lanes(sketch.lanes(), 77), expected(host.lanes(values));
  detail::lhc_numbers<lane_type> const numbers(index.exponent(), 2, 1);
  sketch.encode(numbers, x.data(), lanes.data());
  host.encode_lanes(x, expected);
  CHECK(lanes == expected);
  std::vector<float> found(values, 5), wanted(values);
  sketch.decode(numbers, lanes.data(), found.data());
  host.decode_lanes(expected, wanted);
  CHECK(first_difference(found, wanted) == nowhere);
}

}  // namespace

TEST_CASE("sparse plan on devices: many blocks at once claim and read what one lane does") {
  check_sketches<at_once>(1'000'000, 0.1, {});
  check_sketches<at_once>(60'000, 0.1, {.cells_per_value = 1.21, .attempts = 2});
  check_sketches<at_once>(3000, 0.5, {.cells_per_value = 1, .attempts = 2});
}
TEST_CASE("sparse plan on devices: many lanes add the claims of parts up as one does") {
  detail::lhc_cells const layout{1, 210};
  auto const added_up = [&](auto const& share) {
    std::vector<std::uint32_t> rounds{7, 0}, counts{3, 0, 1, 2048, 5, 0, 0, 9, 2, 1};
    detail::peeled_graph const peeled{layout, {nullptr, nullptr, nullptr, rounds.data()}};
    REQUIRE(peeled.parts() == counts.size());
    detail::add_up_claims const add_up{peeled, 1, counts.data()};
    share([&](auto group) { add_up(group, 0); });
    counts.push_back(rounds[1]);
    return counts;
  };
  std::vector<std::uint32_t> const expected{7,    10,   10,   11,   2059, 2064,
                                            2064, 2064, 2073, 2075, 2076};
  CHECK(added_up([](auto const& f) { f(serial_group{}); }) == expected);
  CHECK(added_up([](auto const& f) { lanes::run<3>(f); }) == expected);
}
TEST_CASE("sparse plan on devices: blocks of warps claim and read what one lane does") {
  check_sketches<by_warps>(4000, 0.1, {.cells_per_value = 1.21, .attempts = 1});
}

TEST_CASE(
    "sparse plan on devices: cells that the index does not explain are told as on hosts, and x "
    "keeps every bit") {
  using lane_type = std::uint32_t;
  constexpr std::size_t values = detail::run_values + 70;
  guarded_executor executor;
  sparse_ways const ways{.dense = false, .packed = false};
  detail::sparse_phases<lane_type, guarded_executor> phases(values, {.ranks = 2}, ways, {},
                                                            executor);
  for (double const density : {0.3, 0.02, 1.0}) {  // memory grows, or is larger than it must be
    CAPTURE(density);
    auto const x = sparse::values(values, density, {.seed = 1});
    lhc<lane_type> host({.ranks = 2});
    host.mark(x);
    host.unite(5);
    std::vector<lane_type> lanes(host.lanes(values));
    host.encode_lanes(x, lanes);

    device_vector<float> const there(x, executor);
    auto const before = buffers_made;
    phases.mark(there.span(), reduction::sum);
    phases.look();
    phases.unite(5);
    CHECK((density != 0.02 || buffers_made == before));
    REQUIRE(phases.lanes() == lanes.size());
    device_vector<lane_type> const encoded(std::vector<lane_type>(lanes.size()), executor);
    phases.encode_lanes(there.span(), encoded.span(), 0);
    CHECK(encoded.host() == lanes);

    for (std::size_t const spoilt : {1, 3}) {
      auto damaged = lanes;
      for (std::size_t c = 0; c < spoilt; ++c) damaged[c * 7] += 100;
      std::string expected;
      auto unchanged = x;
      try {
        host.decode_lanes(damaged, unchanged);
      } catch (wire_error const& error) {
        expected = error.what();
      }
      CHECK(expected.find("cells hold what the index does not explain") != std::string::npos);
      device_vector<lane_type> const reduced(damaged, executor);
      CHECK_THROWS_WITH_AS(phases.decode_lanes(reduced.span(), there.span(), 0), expected.c_str(),
                           wire_error);
      CHECK(first_difference(there.host(), x) == nowhere);
    }
    device_vector<float> const back(std::vector<float>(values, 5.0f), executor);
    phases.decode_lanes(encoded.span(), back.span(), 0);
    auto expected = x;
    host.decode_lanes(lanes, expected);
    CHECK(first_difference(back.host(), expected) == nowhere);
  }
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
