// optimise: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/endings.hpp>
#include <collective/host_memory.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/detail/mark_list.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/sparse/detail/device_sketch.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/detail/sketch_runs.hpp>
#include <hcomp/op/detail/sparse_runs.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/sparse.hpp>
#include <support/sparse_plan.hpp>
#include <support/worker_group.hpp>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using sparse::plan_of;
using sparse::settings;

auto const direct = algorithm::from("direct");
using over_staging = host_staged<tampered_transport, guarded_executor>;

auto const untampered = [](in_process& inner) {
  return tampered_transport(inner, [](int, int, std::span<std::byte>) {});
};

/// Runs body(plan, x, y) on one rank, with a plan for x and y in host or in device memory. x and y
/// get the results.
template <class Lane, class F>
void on_plan(tampered_transport& transport, settings const& options, bool is_device,
             std::vector<float>& x, std::vector<float>& y, F const& body) {
  if (!is_device) {
    host_executor executor;
    auto sum = plan_of<Lane>(x.size(), transport, executor, options);
    return body(sum, std::span(x), std::span(y));
  }
  guarded_executor executor;
  over_staging over(transport, executor);
  auto sum = plan_of<Lane>(x.size(), over, executor, options);
  device_vector<float> const device_x(x, executor), device_y(y, executor);
  try {
    body(sum, device_x.span(), device_y.span());
  } catch (std::exception const&) {
    x = device_x.host();
    throw;
  }
  x = device_x.host();
  y = device_y.host();
}

/// Vectors of all ranks after two calls with one plan, and the report of the second call.
struct sums {
  sparse::vectors first, x;
  std::vector<std::string> choices;  ///< per rank
  std::vector<std::uint64_t> sent;
  std::vector<int> hops;
};

/// Some of the ranks are on devices.
template <class Lane>
sums sums_of(sparse::vectors const& x, settings const& options, reduce_op result,
             bool (*is_device)(int rank), operation what = operation::all_reduce) {
  sums found{sparse::vectors(x.size(), std::vector<float>(x[0].size(), 1.0f)),
             {},
             std::vector<std::string>(x.size()),
             std::vector<std::uint64_t>(x.size()),
             std::vector<int>(x.size())};
  found.x = on_ranks(x, [&](in_process& inner, auto& mine) {
    auto const rank = static_cast<std::size_t>(inner.rank());
    auto transport = untampered(inner);
    bool const on_device = is_device(inner.rank());
    auto& ones = found.first[rank];
    on_plan<Lane>(transport, options, on_device, mine, ones, [&](auto& sum, auto values, auto y) {
      perform(what, sum, y);
      auto const before = buffers_made;
      auto const report = perform(what, sum, values, {.seed = 3, .op = result});
      found.choices[rank] = what == operation::all_reduce ? sum.choice().text() : "";
      found.sent[rank] = report.bytes_sent;
      found.hops[rank] = report.hops;
      bool const by_shards = what != operation::all_reduce ||
                             (options.plan.algorithm.kind == algorithm_kind::direct &&
                              (options.strategies.dense || options.strategies.packed));
      if (!by_shards) return;
      CHECK(buffers_made == before);
      CHECK(report.messages == (on_device ? message_memory::host_staged : message_memory::host));
    });
  });
  return found;
}
auto const all = [](int) { return true; };
auto const none = [](int) { return false; };
auto const all_but_one = [](int rank) { return rank != 1; };

void check_equal(sums const& found, sums const& wanted) {
  for (std::size_t r = 0; r < wanted.x.size(); ++r) {
    CHECK(first_difference(found.first[r], wanted.first[r]) == nowhere);
    CHECK(first_difference(found.x[r], wanted.x[r]) == nowhere);
    CHECK(found.choices[r] == wanted.choices[r]);
    CHECK(found.sent[r] == wanted.sent[r]);
    CHECK(found.hops[r] == wanted.hops[r]);
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
        for (std::string const name : {"ring", "torus", "recursive_doubling"}) {
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(density);
          CAPTURE(name);
          vectors const x = sparse::ranks_of(static_cast<std::size_t>(ranks), n, density);
          settings const options{.plan = {.algorithm = algorithm::from(name)}};
          auto const result = n % 2 == 0 ? reduce_op::sum : reduce_op::mean;
          check_equal(sums_of<Lane>(x, options, result, all),
                      sums_of<Lane>(x, options, result, none));
        }
}

/// Sketches that peel completely, that leave some values out, or that leave all values out.
template <class Lane> void check_sketched_sums(std::vector<int> const& all_ranks) {
  for (int const ranks : all_ranks)
    for (double const density : {0.0, 0.001, 0.2, 1.0})
      for (double const cells_per_value : {0.0, 1.21, 1.0})
        for (std::string const name : {"ring", "torus", "direct", "recursive_doubling"}) {
          if (name != "ring" && (density != 0.2 || cells_per_value == 1.0)) continue;
          CAPTURE(ranks);
          CAPTURE(density);
          CAPTURE(cells_per_value);
          CAPTURE(name);
          auto const x =
              sparse::ranks_of(static_cast<std::size_t>(ranks), detail::run_values + 100, density);
          settings const options{.strategies = {.dense = false, .packed = false},
                                 .sketch = {.cells_per_value = cells_per_value, .attempts = 2},
                                 .plan = {.algorithm = algorithm::from(name)}};
          auto const result = ranks == 3 ? reduce_op::mean : reduce_op::sum;
          auto const wanted = sums_of<Lane>(x, options, result, none);
          CHECK(wanted.choices[0].substr(0, 4) == "lhc:");
          check_equal(sums_of<Lane>(x, options, result, all), wanted);
          if (ranks > 1) check_equal(sums_of<Lane>(x, options, result, all_but_one), wanted);
        }
}

/// Shards that begin and end in the middle of runs, or are empty.
template <class Lane> void check_shards(std::vector<int> const& all_ranks) {
  sparse_strategies const dense{.packed = false, .sketched = false}, packed{.dense = false};
  for (int const ranks : all_ranks)
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                                std::size_t{65}, 3 * detail::run_values + 100})
      for (double const density : {0.0, 0.001, 0.3, 1.0})
        for (auto const& strategies : {sparse_strategies{}, dense, packed}) {
          if (strategies.dense != strategies.packed && (n < 65 || density != 0.3)) continue;
          if (n < 65 && density == 0.001) continue;
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(density);
          CAPTURE(strategies.dense);
          CAPTURE(strategies.packed);
          auto const x = sparse::ranks_of(static_cast<std::size_t>(ranks), n, density);
          settings const options{.strategies = strategies,
                                 .plan = {.algorithm = direct, .checksum = n % 2 == 1}};
          auto const result = density == 0.3 ? reduce_op::mean : reduce_op::sum;
          for (auto const what : operations) {
            if (what == operation::all_gather && (density != 0.3 || !strategies.packed)) continue;
            CAPTURE(std::string(detail::to_text(what)));
            auto const wanted = sums_of<Lane>(x, options, result, none, what);
            check_equal(sums_of<Lane>(x, options, result, all, what), wanted);
            if (ranks == 3)
              check_equal(sums_of<Lane>(x, options, result, all_but_one, what), wanted);
          }
        }
}

/// Outcomes of all ranks, some of them on devices. Checks that x kept every bit.
template <class Lane, class MakeTransport>
std::vector<outcome> ends_of(sparse::vectors const& x, settings const& options,
                             MakeTransport const& make, bool (*is_device)(int rank) = all,
                             operation what = operation::all_reduce) {
  auto after = x;
  auto const outcomes = outcomes_on(static_cast<int>(x.size()), [&](in_process& inner) {
    auto transport = make(inner);
    std::vector<float> nothing;
    on_plan<Lane>(transport, options, is_device(inner.rank()),
                  after[static_cast<std::size_t>(inner.rank())], nothing,
                  [&](auto& sum, auto values, auto) { perform(what, sum, values); });
  });
  for (std::size_t r = 0; r < x.size(); ++r) CHECK(first_difference(after[r], x[r]) == nowhere);
  return outcomes;
}

}  // namespace

TEST_CASE("sparse plan on devices: the bits and the choice of plans on CPUs, in floats") {
  check_sums<float>(numbers_of_ranks);
}
TEST_CASE("sparse plan on devices: the bits and the choice of plans on CPUs, in fixed point") {
  check_sums<std::uint32_t>(numbers_of_ranks);
  if (!few_cases) check_sums<std::uint64_t>({3});
}

TEST_CASE(
    "sparse plan on devices: sketched all-reduces have the bits and the bytes of those on CPUs") {
  check_sketched_sums<std::uint32_t>(numbers_of_ranks);
  if (!few_cases) check_sketched_sums<std::uint64_t>({2});
}
TEST_CASE("sparse plan on devices: ranks on CPUs and on devices share one all-reduce") {
  for (double const density : {0.02, 0.6}) {
    CAPTURE(density);
    auto const x = sparse::ranks_of(3, 2 * detail::run_values + 100, density);
    settings const options{.plan = {.algorithm = algorithm::from("ring")}};
    check_equal(sums_of<float>(x, options, reduce_op::sum, all_but_one),
                sums_of<float>(x, options, reduce_op::sum, none));
  }
}

TEST_CASE("sparse plan on devices: shards have the bits and the bytes of those on CPUs") {
  check_shards<float>(numbers_of_ranks);
  check_shards<std::uint32_t>(numbers_of_ranks);
  if (!few_cases) check_shards<std::uint64_t>({3});
}

TEST_CASE("sparse plan on devices: all_gather keeps every bit of shards, also of zeros and NaN") {
  auto x = sparse::ranks_of(3, 20000, 0.5);
  x[1][9000] = same_bits<float>(0x7fc12345u);
  x[2][19999] = -0.0f;
  settings const passing{.plan = {.algorithm = direct, .nonfinite = nonfinite_policy::propagate}};
  auto const wanted = sums_of<float>(x, passing, reduce_op::sum, none, operation::all_gather);
  CHECK(same_bits<std::uint32_t>(wanted.x[0][9000]) == 0x7fc12345u);
  check_equal(sums_of<float>(x, passing, reduce_op::sum, all, operation::all_gather), wanted);
}

TEST_CASE(
    "sparse plan on devices: NaN is refused on all ranks as on CPUs, with x unchanged, or "
    "propagates") {
  for (float const special :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto x = sparse::ranks_of(3, 50000, 0.01);
    for (std::size_t const i : {20000, 20001, 20010, 33000}) x[1][i] = special;
    for (auto const what : operations) {
      CAPTURE(std::string(detail::to_text(what)));
      auto const check = [&]<class Lane>(Lane) {
        auto const wanted = ends_of<Lane>(x, {}, untampered, none, what);
        CAPTURE(to_text(wanted));
        CHECK(all_ended_alike(wanted, "nonfinite_error"));
        CHECK(ends_of<Lane>(x, {}, untampered, all, what) == wanted);
        CHECK(ends_of<Lane>(x, {}, untampered, all_but_one, what) == wanted);
      };
      check(0.0f);
      check(std::uint32_t{});
    }
    settings const passing{.plan = {.algorithm = direct, .nonfinite = nonfinite_policy::propagate}};
    check_equal(sums_of<float>(x, passing, reduce_op::sum, all),
                sums_of<float>(x, passing, reduce_op::sum, none));
  }
}
TEST_CASE("sparse plan on devices: float sums that overflow are refused as on CPUs") {
  sparse::vectors x(2, std::vector<float>(20000));
  for (auto& one : x) one[9999] = one[100] = std::numeric_limits<float>::max();
  for (auto const what : {operation::all_reduce, operation::reduce_scatter}) {
    auto const wanted = ends_of<float>(x, {}, untampered, none, what);
    CAPTURE(to_text(wanted));
    CHECK(all_ended_alike(wanted, "nonfinite_error"));
    CHECK(ends_of<float>(x, {}, untampered, all, what) == wanted);
  }
}

namespace {

/// A transport that flips a bit of rank 0's message number `message` among those with blocks or
/// shards.
auto flips(int message, std::size_t byte) {
  return [=](in_process& inner) {
    return tampered_transport(
        inner, [=, sent = 0, rank = inner.rank()](int, int, std::span<std::byte> bytes) mutable {
          bool const has_blocks = bytes.size() >= block_header_bytes &&
                                  load<std::uint16_t>(bytes.data()) == block_header{}.magic;
          if (rank == 0 && has_blocks && sent++ == message)
            bytes[byte % bytes.size()] ^= std::byte{4};
        });
  };
}

/// A transport that damages the first block of this codec that rank 0 sends.
auto damages_first(std::uint8_t codec) {
  return [codec](in_process& inner) {
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

TEST_CASE("sparse plan on devices: a damaged index is reported on all ranks") {
  auto const outcomes = ends_of<std::uint32_t>(
      sparse::ranks_of(3, 20000, 0.01),
      {.plan = {.algorithm = algorithm::from("ring"), .checksum = true}},
      damages_first(native_lanes<std::uint64_t, native_operation::bit_or>::codec_id));
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "wire_error"));
}
TEST_CASE("sparse plan on devices: damaged shards are reported as on CPUs") {
  auto const x = sparse::ranks_of(3, 20000, 0.1);
  for (auto const what : operations)
    for (int const message : {0, 3})  // to an owner, and from one
      for (std::size_t const byte : {3, 8, 24, 40, 5000}) {
        if (message == 3 && what != operation::all_reduce) continue;
        CAPTURE(std::string(detail::to_text(what)));
        CAPTURE(message);
        CAPTURE(byte);
        settings const options{.plan = {.algorithm = direct, .checksum = byte >= 40}};
        auto const damage = flips(message, byte);
        auto const wanted = ends_of<std::uint32_t>(x, options, damage, none, what);
        CAPTURE(to_text(wanted));
        CHECK(all_ended_alike(wanted, "wire_error"));
        CHECK(ends_of<std::uint32_t>(x, options, damage, all, what) == wanted);
        CHECK(ends_of<std::uint32_t>(x, options, damage, all_but_one, what) == wanted);
      }
}
TEST_CASE("sparse plan on devices: a sum that lacks a rank's values is refused as on CPUs") {
  sparse::vectors x(3, std::vector<float>(9000));
  for (auto& one : x)
    for (std::size_t i = 0; i < one.size(); i += 100) one[i] = 1;
  // the first index in the list of rank 0's first sum: 4 instead of 0
  auto const damage = flips(3, block_header_bytes + detail::sparse::lists_of(3008));
  auto const wanted = ends_of<std::uint32_t>(x, {}, damage, none);
  CAPTURE(to_text(wanted));
  CHECK(all_ended_alike(wanted, "wire_error"));
  CHECK(ends_of<std::uint32_t>(x, {}, damage) == wanted);
}
TEST_CASE("sparse plan on devices: damaged cells are reported on all ranks") {
  auto const outcomes = ends_of<std::uint32_t>(sparse::ranks_of(3, 20000, 0.01),
                                               {.strategies = {.dense = false, .packed = false},
                                                .plan = {.algorithm = algorithm::from("ring")}},
                                               damages_first(lane_sum<std::uint32_t>::codec_id));
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "wire_error"));
  CHECK(outcomes[0].text.find("cells hold what the index does not explain") != std::string::npos);
}

TEST_CASE(
    "sparse plan on devices: a union that lacks this rank's marks, or has marks beyond the end, is "
    "damage") {
  constexpr std::size_t values = detail::run_values + 70;
  auto const x = sparse::values(values, 0.1, {.seed = 5});
  std::size_t const words = sparse_index::words(values);
  for (std::size_t const spoilt :
       {words, std::size_t{100}, words - 1 - detail::sparse::exponent_words}) {
    CAPTURE(spoilt);
    guarded_executor executor;
    device_vector<float> const device_values(x, executor);
    detail::sparse_phases<lossless_sparse<>, guarded_executor> phases({}, values, {}, executor);
    auto const marks = phases.mark(device_values.span(), reduce_op::sum);
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
          (std::string("lossless_sparse: the index of values ") +
           (spoilt == 100 ? "0 to 8191" : "8192 to 8261") +
           " lacks some that this rank has marked, or marks what is no value; is this a result of "
           "a bitwise OR?")
              .c_str(),
          wire_error);
  }
}

TEST_CASE("sparse plan on devices: impossible settings are refused") {
  auto const text_of = []<class Lane>(Lane, settings const& options) {
    std::string text = "nothing";
    run_ranks(1, [&](in_process& transport) {
      guarded_executor executor;
      auto plain = untampered(transport);
      over_staging over(plain, executor);
      try {
        plan_of<Lane>(10, over, executor, options);
      } catch (std::invalid_argument const& error) {
        text = error.what();
      }
    });
    return text;
  };
  CHECK(text_of(0.0f, {.strategies = {.dense = false, .packed = false, .sketched = false}}) ==
        "lossless_sparse: no strategy is allowed; enable dense, sparse_union or lhc");
  for (bool const dense : {false, true}) {
    settings const options{.strategies = {.dense = dense, .packed = false}};
    CHECK(text_of(0.0f, options) ==
          "lossless_sparse: lhc is allowed and sparse_union is not, but in a device's memory there "
          "are "
          "no sketches of floats; lanes of std::uint32_t or std::uint64_t have them");
    CHECK(text_of(std::uint32_t{}, options) == "nothing");
  }
  for (settings const& options :
       {settings{.sketch = {.cells_per_value = 0.5}}, settings{.sketch = {.attempts = 0}}}) {
    CHECK(text_of(0.0f, options).find("there can be 1 to 100 (0: default) and 1 to 50") !=
          std::string::npos);
    CHECK(text_of(std::uint32_t{}, options) == text_of(0.0f, options));
  }
}

TEST_CASE("sparse plan on devices: values of one rank in host memory are refused on all ranks") {
  for (auto const what : operations)
    check_host_memory_is_refused(20000,
                                 [what](auto& transport, auto& executor, std::span<float> x) {
                                   auto sum = plan_of<float>(x.size(), transport, executor);
                                   perform(what, sum, x);
                                 });
}

namespace {

/// An executor of host memory that works synchronously and has a device's types.
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
/// Whether blocks build on the results of the blocks before them. Such blocks run in order.
template <class F> constexpr bool has_order = requires(F const& f) { f.order; };

/// Three blocks at once, the last first, each by one worker.
struct at_once {
  template <class F> static void all(std::size_t blocks, F const& f) {
    if constexpr (has_order<F>) {
      for (std::size_t i = 0; i < blocks; ++i) f(serial_group{}, i);
      return;
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = blocks; i-- > 0;)
          if (i % 3 == t) f(serial_group{}, i);
      });
    for (auto& thread : threads) thread.join();
  }
};
/// One block by two warps.
template <class F> void by_warps_of_block(F const& f, std::size_t i) {
  std::size_t bytes = 0;
  if constexpr (requires { f.scratch_bytes(); }) bytes = f.scratch_bytes();
  workers::run_in_warps<64>(bytes, [&](auto group) { f(group, i); });
}
/// One block after the other, each by two warps.
struct by_warps {
  template <class F> static void all(std::size_t blocks, F const& f) {
    for (std::size_t i = 0; i < blocks; ++i)
      by_warps_of_block(f, has_order<F> ? i : blocks - 1 - i);
  }
};

/// Checks that sketches on such an executor make the claims of lhc::sketch_plan, in its order, and
/// have the lanes and values of lhc.
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
  detail::lhc::sketch_plan plan;
  auto const& index = host.index();
  plan.make(index,
            detail::lhc::sketch_plan::cells_per_value(index.marked(), options.cells_per_value),
            options.attempts, 5);

  executor_type executor;
  detail::device_sketch<lane_type, executor_type> sketch(values, options, executor);
  sketch.choose({words.data(), index.marks_before().data()}, index.marked(), 5);
  CHECK(sketch.cells() == host.cells());
  CHECK(sketch.beside() == host.beside());
  CHECK(sketch.attempts() == host.attempts());
  CHECK(sketch.rounds() == host.rounds());
  REQUIRE(index.marked() - sketch.beside() == plan.claims());
  CHECK(std::equal(
      plan.order().begin(), plan.order().end(), sketch.claims(),
      [](auto const& a, auto const& b) { return a.value == b.value && a.cell == b.cell; }));

  std::vector<lane_type> lanes(sketch.lanes(), 77), expected(host.lanes(values));
  detail::sparse::lane_numbers<lane_type> const numbers(index.exponent(), 2, 1);
  sketch.encode(numbers, x.data(), lanes.data());
  host.encode_lanes(x, expected);
  CHECK(lanes == expected);
  std::vector<float> found(values, 5), wanted(values);
  sketch.decode(numbers, lanes.data(), found.data());
  host.decode_lanes(expected, wanted);
  CHECK(first_difference(found, wanted) == nowhere);
}

}  // namespace

TEST_CASE("sparse plan on devices: many blocks at once claim and read what one worker does") {
  check_sketches<at_once>(1'000'000, 0.1, {});
  check_sketches<at_once>(60'000, 0.1, {.cells_per_value = 1.21, .attempts = 2});
  check_sketches<at_once>(3000, 0.5, {.cells_per_value = 1, .attempts = 2});
}
TEST_CASE("sparse plan on devices: many workers add the claims of parts up as one does") {
  detail::lhc::cell_layout const layout{1, 210};
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
  CHECK(added_up([](auto const& f) { workers::run<3>(f); }) == expected);
}
TEST_CASE("sparse plan on devices: blocks of warps claim and read what one worker does") {
  check_sketches<by_warps>(few_cases ? 1000 : 4000, 0.1, {.cells_per_value = 1.21, .attempts = 1});
}

TEST_CASE(
    "sparse plan on devices: cells that the index does not explain are reported as on CPUs, and x "
    "keeps every bit") {
  using lane_type = std::uint32_t;
  constexpr std::size_t values = detail::run_values + 70;
  guarded_executor executor;
  lossless_sparse<lane_type> const sketches{.strategies = {.dense = false, .packed = false}};
  detail::sparse_phases<lossless_sparse<lane_type>, guarded_executor> phases(
      sketches, values, {.ranks = 2}, executor);
  for (double const density : {0.3, 0.02, 1.0}) {  // memory grows, or is larger than needed
    CAPTURE(density);
    auto const x = sparse::values(values, density, {.seed = 1});
    lhc<lane_type> host({.ranks = 2});
    host.mark(x);
    host.unite(5);
    std::vector<lane_type> lanes(host.lanes(values));
    host.encode_lanes(x, lanes);

    device_vector<float> const device_values(x, executor);
    auto const before = buffers_made;
    phases.mark(device_values.span(), reduce_op::sum);
    phases.look();
    phases.unite(5);
    CHECK((density != 0.02 || buffers_made == before));
    REQUIRE(phases.lanes() == lanes.size());
    device_vector<lane_type> const encoded(std::vector<lane_type>(lanes.size()), executor);
    phases.encode_lanes(device_values.span(), encoded.span(), 0);
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
      CHECK_THROWS_WITH_AS(phases.decode_lanes(reduced.span(), device_values.span(), 0),
                           expected.c_str(), wire_error);
      CHECK(first_difference(device_values.host(), x) == nowhere);
    }
    device_vector<float> const back(std::vector<float>(values, 5.0f), executor);
    phases.decode_lanes(encoded.span(), back.span(), 0);
    auto expected = x;
    host.decode_lanes(lanes, expected);
    CHECK(first_difference(back.host(), expected) == nowhere);
  }
}

TEST_CASE("sparse runs: many workers compute the runs of one worker") {
  using lane_type = std::uint32_t;
  constexpr std::size_t values = 5 * detail::run_values + 333;  // more than one share
  std::size_t const words = detail::sparse::index_words(values), runs = detail::runs_of(values);
  auto const x = sparse::values(values, 0.3, {.seed = 9});
  struct results {
    std::vector<std::uint64_t> words, own;
    std::vector<std::uint32_t> exponents, ranks;
    std::vector<lane_type> lanes;
    std::vector<float> back, sent, put;
    std::vector<lane_type> sums;
    std::vector<std::uint64_t> marks, begins_of_shards;
    std::vector<std::uint64_t> nonfinite;
    detail::index_summary summary{};
  };
  auto const all_of_it = [&](auto const& share) {
    results r;
    r.words.resize(words + detail::sparse::exponent_words);
    r.own.resize(words);
    r.exponents.resize(runs);
    r.ranks.resize(words);
    r.lanes.resize(values);
    r.back.resize(values);
    auto const all_blocks = [&](std::size_t blocks, auto const& work) {
      for (std::size_t i = 0; i < blocks; ++i) share(work, i);
    };
    auto const all_runs = [&](auto const& work) { all_blocks(runs, work); };
    all_runs(detail::mark_runs{x.data(), values, r.words.data(), r.own.data(), r.exponents.data()});
    detail::close_marks const close{r.exponents.data(), runs, r.words.data() + words};
    share(close, 0);
    std::size_t const shares = detail::count_shares::shares(values);
    std::vector<std::uint64_t> order(detail::block_order::words_for(shares), 7);
    detail::clear_words const clear{order.data(), order.size()};
    all_blocks(clear.runs(), detail::begin_counting{clear, r.words.data() + words, &r.summary});
    all_blocks(
        shares,
        detail::count_shares{
            r.words.data(), r.own.data(), values, {order.data()}, r.ranks.data(), &r.summary});
    detail::sparse::lane_numbers<lane_type> const numbers(127, 3, 1);
    detail::packed_places const places{r.words.data(), r.ranks.data()};
    all_runs(detail::pack_runs<detail::to_lane<lane_type>>{
        {numbers}, places, values, x.data(), r.lanes.data()});
    all_runs(detail::unpack_runs<detail::to_value<lane_type>>{
        {numbers}, places, values, r.lanes.data(), r.back.data()});
    r.begins_of_shards.resize(301);  // more shards than words
    share(detail::count_before_shards{r.words.data(), r.ranks.data(), words, 300,
                                      r.begins_of_shards.data()},
          0);
    r.sums.resize(values, 7);
    r.marks.resize(words, 7);
    std::vector<std::uint64_t> const nothing(words);
    all_runs(detail::begin_sums<lane_type>{nothing.data(), values, r.marks.data(), r.sums.data()});
    all_runs(detail::add_own_part<lane_type>{numbers, values, x.data(), r.sums.data()});
    all_runs(
        detail::add_part<lane_type>{places, values, r.lanes.data(), r.marks.data(), r.sums.data()});
    r.sent.resize(values);
    r.put.resize(values, 7.0f);
    all_runs(detail::pack_runs<detail::to_value<lane_type>>{
        {numbers}, places, values, r.sums.data(), r.sent.data()});
    all_runs(
        detail::unpack_runs<detail::as_it_is>{{}, places, values, r.sent.data(), r.put.data()});
    auto spoilt = x;
    spoilt[130] = spoilt[131] = spoilt[8191] = spoilt.back() =
        std::numeric_limits<float>::infinity();
    std::vector<detail::nonfinite_words> found(runs);
    all_runs(detail::find_nonfinite_runs{spoilt.data(), values, found.data()});
    for (auto const& one : found) {
      r.nonfinite.push_back(one.first);
      r.nonfinite.push_back(one.count);
    }
    return r;
  };
  auto const expected = all_of_it([](auto const& f, std::size_t i) { f(serial_group{}, i); });
  CHECK(expected.summary.print() == detail::print_of_index(expected.words.data(), values));
  CHECK(expected.summary.marked == values - std::size_t(std::count(x.begin(), x.end(), 0.0f)));
  CHECK(expected.marks == std::vector(expected.words.begin(), expected.words.end() - 4));
  for (std::size_t i = 0; i < values; ++i)
    if (expected.put[i] != 2 * expected.back[i]) FAIL("value " << i);
  std::vector<std::uint64_t> nonfinite{2, 2};
  for (std::size_t r = 1; r + 1 < runs; ++r)
    nonfinite.insert(nonfinite.end(), {detail::nonfinite_words::nowhere, 0});
  nonfinite.insert(nonfinite.end(), {words - 1, 1});
  CHECK(expected.nonfinite == nonfinite);
  CHECK(expected.begins_of_shards[299] == expected.ranks[words * 299 / 300]);
  CHECK(expected.begins_of_shards[300] == expected.summary.marked);
  auto const check = [&](results const& found) {
    CHECK(found.sums == expected.sums);
    CHECK(found.marks == expected.marks);
    CHECK(found.sent == expected.sent);
    CHECK(found.put == expected.put);
    CHECK(found.nonfinite == expected.nonfinite);
    CHECK(found.begins_of_shards == expected.begins_of_shards);
    CHECK(found.words == expected.words);
    CHECK(found.own == expected.own);
    CHECK(found.exponents == expected.exponents);
    CHECK(found.ranks == expected.ranks);
    CHECK(found.lanes == expected.lanes);
    CHECK(found.back == expected.back);
    CHECK(found.summary.marked == expected.summary.marked);
    CHECK(found.summary.print() == expected.summary.print());
    CHECK(found.summary.exponent == expected.summary.exponent);
    CHECK(found.summary.wrong_run == 0);
  };
  check(all_of_it(
      [](auto const& f, std::size_t i) { workers::run<3>([&](auto group) { f(group, i); }); }));
  check(all_of_it([](auto const& f, std::size_t i) { by_warps_of_block(f, i); }));
}
