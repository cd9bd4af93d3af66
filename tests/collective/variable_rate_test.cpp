
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <collective/endings.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using vectors = std::vector<std::vector<float>>;
using detail::operation;

constexpr int rank_counts[] = {1, 2, 3, 5, 8};

/// Normal values of mean 0 for each rank.
vectors gradients(int ranks, std::size_t n, double sigma, std::uint64_t seed = 7) {
  vectors x;
  for (int r = 0; r < ranks; ++r) {
    random_numbers numbers(seed, static_cast<std::uint32_t>(r));
    auto& mine = x.emplace_back(n);
    for (std::size_t i = 0; i < n; i += 2) {
      double const length = sigma * std::sqrt(-2 * std::log((numbers.uniform() + 1 + 0x1p-32) / 2));
      double const angle = 3.14159265358979 * numbers.uniform();
      mine[i] = static_cast<float>(length * std::cos(angle));
      if (i + 1 < n) mine[i + 1] = static_cast<float>(length * std::sin(angle));
    }
  }
  return x;
}
/// Integers: 0, or at least 1, which INCEPTIONN keeps unchanged.
vectors whole_numbers(int ranks, std::size_t n) {
  vectors x;
  for (int r = 0; r < ranks; ++r) x.push_back(integer_values(n, 11, r));
  return x;
}
std::vector<float> exact_sum(vectors const& x) {
  std::vector<float> sum(x[0].size());
  for (auto const& one : x)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  return sum;
}

double largest_error(std::vector<float> const& sum, vectors const& x) {
  double most = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double exact = 0;
    for (auto const& one : x) exact += static_cast<double>(one[i]);
    most = std::max(most, std::fabs(static_cast<double>(sum[i]) - exact));
  }
  return most;
}

/// An algorithm with its options.
struct strategy {
  std::string name;
  plan_options options;
};
std::vector<strategy> strategies() {
  std::vector<strategy> all;
  for (std::string const how : {"aggregator", "ring", "torus", "direct"})
    all.push_back({how, {.algorithm = algorithm::from(how)}});
  return all;
}

template <class C>
vectors all_reduced(vectors const& x, C const& codec, plan_options const& options = {},
                    call_options const& call = {.seed = 3}) {
  return on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    plan sum(mine.size(), codec, transport, executor, options);
    sum.all_reduce(mine, call);
  });
}
/// All ranks have these bits.
bool all_are(vectors const& all, std::vector<float> const& expected) {
  return std::ranges::all_of(
      all, [&](auto const& one) { return first_difference(one, expected) == nowhere; });
}

/// The values that a receiver decodes from x.
std::vector<float> received(inceptionn const& codec, std::vector<float> const& x) {
  std::vector<std::byte> encoded(codec.capacity(x.size()));
  encoded.resize(codec.encode(x, encoded));
  std::vector<float> y(x.size());
  codec.decode(encoded, y);
  return y;
}
std::vector<float> plus(std::vector<float> a, std::vector<float> const& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Simulates a plan and encodes where the ranks do. Returns the ranks' results, which are equal if
/// owners decode the values that they send.
vectors oracle(vectors const& x, inceptionn const& codec, std::string const& how,
               bool owners_decode = true) {
  int const ranks = static_cast<int>(x.size());
  std::size_t const n = x[0].size(), blocks = (n + 63) / 64;
  auto result = x;
  auto const part = [&](int rank, std::size_t first, std::size_t end) {
    auto const begin = x[static_cast<std::size_t>(rank % ranks)].begin();
    return std::vector<float>(begin + static_cast<std::ptrdiff_t>(first),
                              begin + static_cast<std::ptrdiff_t>(end));
  };
  if (how == "aggregator") {
    auto sum = x[0];
    for (std::size_t r = 1; r < x.size(); ++r) sum = plus(sum, received(codec, x[r]));
    return vectors(x.size(), sum);
  }
  for (int chunk = 0; chunk < ranks; ++chunk) {
    auto const at = [&](int c) {
      return std::min(blocks * static_cast<std::size_t>(c) / x.size() * 64, n);
    };
    std::size_t const first = at(chunk), end = at(chunk + 1);
    auto sum = part(chunk, first, end);  // starts its path around the ring there
    for (int h = 1; h < ranks; ++h)
      sum = how == "ring" ? plus(received(codec, sum), part(chunk + h, first, end))
                          : plus(sum, received(codec, part(chunk + ranks - h, first, end)));
    auto const sent = received(codec, sum);
    int const owner = how == "ring" ? (chunk + ranks - 1) % ranks : chunk;
    for (int r = 0; r < ranks; ++r) {
      auto const& values = r == owner && !owners_decode ? sum : sent;
      std::ranges::copy(
          values, result[static_cast<std::size_t>(r)].begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("variable rate: all ranks have the bits of an oracle that encodes where they do") {
  for (auto const& settings : {inceptionn_options{}, inceptionn_options{.bound_exponent = 6,
                                                     .prescale = 2,
                                                     .rounding = inceptionn_rounding::nearest}})
    for (int const ranks : rank_counts)
      for (std::size_t const n : {0, 1, 5, 64, 1000, 20'001}) {
        inceptionn const codec(settings);
        auto const x = gradients(ranks, n, 0.03);
        for (auto const& by : strategies()) {
          if (by.name == "torus") continue;
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(by.name);
          auto const expected = oracle(x, codec, by.name);
          auto options = by.options;
          options.segment_bytes = n % 2 == 0 ? 1 : 256 * 1024;  // 1: of 1024 values
          CHECK(all_are(all_reduced(x, codec, options), expected[0]));
          options.decode_on_arrival_bytes = 1;
          options.segment_bytes = 10'000;
          CHECK(all_are(all_reduced(x, codec, options), expected[0]));
        }
      }
}

TEST_CASE("variable rate: several threads per rank give the bits of one thread") {
  constexpr std::size_t n = 150'000;  // segments of several runs of chunks, and a short one
  auto const x = gradients(3, n, 0.03);
  auto const check = [&](auto const& codec) {
    for (auto const& by : strategies()) {
      CAPTURE(by.name);
      auto const expected = all_reduced(x, codec, by.options);
      run_ranks(3, [&](in_process& transport) {
        auto mine = x[static_cast<std::size_t>(transport.rank())];
        host_executor threads(3);
        plan sum(n, codec, transport, threads, by.options);
        for (int turn = 0; turn < 2; ++turn) {
          mine = x[static_cast<std::size_t>(transport.rank())];
          sum.all_reduce(mine);
          CHECK(first_difference(mine, expected[0]) == nowhere);
        }
      });
    }
  };
  check(inceptionn());
  check(inceptionn({.fitted = true}));
  check(error_bounded({.bound = 1e-3}));
}

TEST_CASE("variable rate: replicas would diverge if owners kept their unencoded values") {
  auto const x = gradients(4, 5000, 0.03);
  inceptionn const codec;
  for (std::string const how : {"ring", "direct"}) {
    auto const drifted = oracle(x, codec, how, /*owners_decode=*/false);
    CHECK(first_difference(drifted[0], drifted[1]) != nowhere);
    auto const found = all_reduced(x, codec, {.algorithm = algorithm::from(how)});
    CHECK(all_are(found, found[0]));
  }
}

TEST_CASE("variable rate: values that need no rounding are summed exactly by every algorithm") {
  for (int const ranks : {1, 2, 4, 6})
    for (std::size_t const n : {0, 3, 130, 9999})
      for (auto const& by : strategies()) {
        CAPTURE(ranks);
        CAPTURE(n);
        CAPTURE(by.name);
        auto const x = whole_numbers(ranks, n);
        auto const sum = exact_sum(x);
        auto options = by.options;
        options.segment_bytes = 5000;
        options.checksum = n == 130;
        CHECK(all_are(all_reduced(x, inceptionn(), options), sum));
        auto mean = sum;
        for (float& value : mean) value /= static_cast<float>(ranks);
        CHECK(all_are(all_reduced(x, inceptionn(), options, {.op = reduce_op::mean}), mean));
      }
}

TEST_CASE("variable rate: errors on the ring stay below the number of ranks times the bound") {
  // ratios for partial sums of normal values, measured for 20000 values with another program
  struct {
    int ranks, bound;
    double sigma, ratio;
  } const cases[] = {{4, 10, 1e-3, 5.50},
                     {4, 10, 1e-1, 1.92},
                     {8, 10, 1e-2, 2.86},
                     {8, 8, 1e-2, 3.59},
                     {8, 6, 1e-2, 7.40}};
  constexpr std::size_t n = 100'000;
  for (auto const& one : cases) {
    CAPTURE(one.ranks);
    CAPTURE(one.bound);
    CAPTURE(one.sigma);
    auto const x = gradients(one.ranks, n, one.sigma);
    std::atomic<std::uint64_t> sent = 0;
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      host_executor executor;
      plan sum(n, inceptionn({.bound_exponent = one.bound}), transport, executor);
      sent += sum.all_reduce(mine).bytes_sent;
    });
    double const most = largest_error(found[0], x);
    CHECK(most < one.ranks * std::ldexp(1, -one.bound));
    CHECK(most > 0.5 * std::ldexp(1, -one.bound));  // some value was rounded
    double const ratio = 2.0 * (one.ranks - 1) * n * sizeof(float) / static_cast<double>(sent);
    CHECK(ratio == doctest::Approx(one.ratio).epsilon(0.03));
  }
}

TEST_CASE(
    "variable rate: a bound on the result holds with every algorithm, and the report has the bound "
    "per rank") {
  double const bound = 1e-3;
  for (int const ranks : {1, 3, 4})
    for (auto const& by : strategies())
      for (double const sigma : {1.0, 30.0}) {  // up to 2^18 steps, where floats are coarse
        CAPTURE(ranks);
        CAPTURE(by.name);
        CAPTURE(sigma);
        auto const x = gradients(ranks, 5000, sigma);
        std::mutex mutex;
        double said = 0;
        auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          host_executor executor;
          plan sum(mine.size(), error_bounded({.bound = bound}), transport, executor, by.options);
          double const error = sum.all_reduce(mine, {.seed = 3}).error;
          std::lock_guard const lock(mutex);
          said = std::max(said, error);
        });
        CHECK(all_are(found, found[0]));
        double const error = largest_error(found[0], x);
        CHECK(error <= bound);
        CHECK(said <= bound);
        CHECK(error <= said);
        CHECK(error >= 0.3 * said);
      }
}

TEST_CASE("variable rate: reduce_scatter and all_gather are all_reduce in two steps") {
  for (auto const& by : strategies())
    for (int const ranks : {1, 3, 4})
      for (std::size_t const n : {0, 70, 5001}) {
        CAPTURE(by.name);
        CAPTURE(ranks);
        CAPTURE(n);
        auto const x = gradients(ranks, n, 0.03);
        inceptionn const codec;
        auto const whole = all_reduced(x, codec, by.options);
        std::vector<value_range> shard(x.size());
        auto scattered = x;
        auto const gathered = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
          auto const rank = static_cast<std::size_t>(transport.rank());
          host_executor executor;
          plan sum(n, codec, transport, executor, by.options);
          shard[rank] = sum.shard();
          // the second call does not depend on the first
          for (std::uint64_t step = 0; step < 2; ++step) {
            mine = x[rank];
            CHECK(sum.reduce_scatter(mine, {.step = step}).weight == static_cast<unsigned>(ranks));
            scattered[rank] = mine;
            auto const report = sum.all_gather(mine, {.step = step});
            CHECK(report.weight == (n > 0 ? 1u : static_cast<unsigned>(ranks)));
          }
        });
        CHECK(all_are(gathered, whole[0]));
        auto expected = x;
        std::size_t covered = 0;
        for (std::size_t r = 0; r < x.size(); ++r) {
          covered += shard[r].count;
          for (std::size_t i = shard[r].first; i < shard[r].first + shard[r].count; ++i)
            expected[r][i] = whole[0][i];
        }
        CHECK(covered == n);
        CHECK(scattered == expected);
      }
}

TEST_CASE(
    "variable rate: a rank sends its share of the encoded vector, the aggregator complete "
    "vectors") {
  constexpr std::size_t n = 64'000;
  for (bool const aggregates : {false, true})
    run_ranks(4, [&](in_process& transport) {
      std::vector<float> mine(n, 3.0f);  // incompressible
      host_executor executor;
      plan sum(n, inceptionn(), transport, executor,
               {.algorithm = algorithm::from(aggregates ? "aggregator" : "ring")});
      auto const before = transport.bytes_sent();
      auto const report = sum.all_reduce(mine);
      CHECK(report.bytes_sent == transport.bytes_sent() - before);
      CHECK(report.weight == 4);
      double const vectors = !aggregates ? 1.5 : transport.rank() == 0 ? 3 : 1;
      CHECK(static_cast<double>(report.bytes_sent) > vectors * n * 4);
      CHECK(static_cast<double>(report.bytes_sent) < vectors * n * 4 + 1000);  // and the agreement
      CHECK(report.hops == (!aggregates ? 6 : transport.rank() == 0 ? 3 : 1));
    });
}

TEST_CASE("variable rate: a fitted codec is invariant under scaling by powers of two") {
  for (int const ranks : {1, 3, 5}) {
    auto const x = gradients(ranks, 3000, 0.05);
    auto const fitted = [&](int exponent) {
      auto scaled = x;
      for (auto& one : scaled)
        for (float& value : one) value = std::ldexp(value, exponent);
      auto const found = all_reduced(scaled, inceptionn({.fitted = true}));
      CHECK(all_are(found, found[0]));
      auto y = found[0];
      for (float& value : y) value = std::ldexp(value, -exponent);
      return y;
    };
    auto const expected = fitted(0);
    CHECK(std::ranges::count(expected, 0.0f) < 300);  // of 3000
    CHECK(first_difference(fitted(-30), expected) == nowhere);
    CHECK(first_difference(fitted(20), expected) == nowhere);
  }
  auto x = gradients(2, 100, 1e-4);
  x[0][7] = 0.3f;  // between 2^-2 and 2^-1
  x[1][8] = std::numeric_limits<float>::infinity();
  on_ranks(x, [](in_process& transport, std::vector<float>& mine) {
    host_executor executor;
    plan sum(100, inceptionn({.fitted = true}), transport, executor,
             {.nonfinite = nonfinite_policy::propagate});
    sum.all_reduce(mine);
    CHECK(sum.codec().options().prescale == 0);  // 0.3 * sqrt 2 is in [1/4, 1)
    std::ranges::fill(mine, 0.0f);
    sum.all_reduce(mine);
    CHECK(sum.codec().options() == inceptionn_options{});
    std::ranges::fill(mine, 1e-30f);
    sum.all_reduce(mine);
    CHECK(sum.codec().options().prescale == 64);
    CHECK(mine[0] == 0);  // 2e-30 * 2^64 is below 2^-10
  });
}

TEST_CASE("variable rate: a disagreement of ranks is reported on all ranks, and x is unchanged") {
  struct {
    std::function<void(inceptionn_options&, plan_options&, call_options&)> make;
    std::string text;
  } const cases[] = {
      {[](auto& c, auto&, auto&) { c.bound_exponent = 8; },
       "parameter 1 of the codec: rank 0 has 10, rank 2 has 8"},
      {[](auto& c, auto&, auto&) { c.prescale = -3; },
       "parameter 2 of the codec: rank 0 has 0, rank 2 has -3"},
      {[](auto& c, auto&, auto&) { c.rounding = inceptionn_rounding::nearest; },
       "parameter 3 of the codec: rank 0 has 0, rank 2 has 1"},
      {[](auto& c, auto&, auto&) { c.variant = inceptionn_variant::as_drawn; },
       "parameter 3 of the codec: rank 0 has 0, rank 2 has 2"},
      {[](auto& c, auto&, auto&) { c.fitted = true; },
       "parameter 4 of the codec: rank 0 has 0, rank 2 has 1"},
      {[](auto&, auto& o, auto&) { o.algorithm = algorithm::from("aggregator"); },
       "the algorithm: rank 0 has ring, rank 2 has aggregator"},
      {[](auto&, auto& o, auto&) { o.algorithm = algorithm::from("direct"); },
       "the algorithm: rank 0 has ring, rank 2 has direct"},
      {[](auto&, auto& o, auto&) { o.segment_bytes = 5; },
       "segment_bytes (device_segment_bytes if x is in device memory): rank 0 has 262144, rank 2 "
       "has 5"},
      {[](auto&, auto&, auto& c) { c.step = 6; }, "the step: rank 0 has 0, rank 2 has 6"},
      {[](auto&, auto&, auto& c) { c.op = reduce_op::mean; },
       "the op (0 sum, 1 mean): rank 0 has 0, rank 2 has 1"},
  };
  auto const x = gradients(3, 500, 0.1);
  for (auto const what : operations) {
    std::string const name = detail::to_text(what);
    for (auto const& one : cases)
      check_ending(ending_of(x,
                             [&](in_process& transport, auto mine) {
                               inceptionn_options settings;
                               plan_options options;
                               call_options call;
                               if (transport.rank() == 2) one.make(settings, options, call);
                               host_executor executor;
                               plan sum(500, inceptionn(settings), transport, executor, options);
                               perform(what, sum, mine, call);
                             }),
                   "disagreement_error", name + ": ranks disagree on " + one.text);
    check_ending(ending_of(x,
                           [&](in_process& transport, auto mine) {
                             std::size_t const n = transport.rank() == 1 ? 499 : 500;
                             host_executor executor;
                             plan sum(n, inceptionn(), transport, executor);
                             perform(what, sum, mine.first(n));
                           }),
                 "disagreement_error",
                 name + ": ranks disagree on the number of values: rank 0 has 500, rank 1 has 499");
    check_ending(ending_of(x,
                           [&](in_process& transport, auto mine) {
                             host_executor executor;
                             plan coded(500, inceptionn(), transport, executor);
                             plan other(500, error_bounded(), transport, executor);
                             if (transport.rank() == 1)
                               perform(what, other, mine);
                             else
                               perform(what, coded, mine);
                           }),
                 "disagreement_error",
                 name + ": ranks disagree on the codec (its id): rank 0 has 30, rank 1 has 28");
    check_ending(ending_of(x,
                           [&](in_process& transport, auto mine) {
                             host_executor executor;
                             plan sum(501, inceptionn(), transport, executor);
                             perform(what, sum, mine);
                           }),
                 "invalid_argument",
                 name +
                     ": on rank 0 x has not the number of values of the plan (x has 500 values, "
                     "the plan 501, the weight is 1)");
  }
  check_ending(ending_of(x,
                         [&](in_process& transport, auto mine) {
                           host_executor executor;
                           plan sum(500, inceptionn(), transport, executor);
                           sum.all_reduce(mine, {.weight = transport.rank() == 1 ? 2u : 1u});
                         }),
               "invalid_argument", "plan: rank 1 has weight 2, codec 'inceptionn' knows only 1");
}

TEST_CASE("variable rate: unsupported settings are refused") {
  in_process_world world(1);
  in_process transport(world, 0);
  auto const text_of = [&](auto const& codec, plan_options const& options) {
    host_executor executor;
    return outcome_of([&] { plan(10, codec, transport, executor, options); }).text;
  };
  for (std::string const how : {"recursive_doubling", "sampled"})
    CHECK(text_of(inceptionn(), {.algorithm = algorithm::from(how)}) ==
          "plan: codec 'inceptionn' has no algorithm '" + how +
              "'; it has: ring, torus, direct, aggregator");
  CHECK(text_of(inceptionn(), {.algorithm = algorithm::from("torus:2x3")})
            .starts_with("torus: 2 rows of 3 are 6 places"));
}

TEST_CASE("variable rate: NaN and infinity are refused on all ranks, or propagate at their index") {
  for (auto const& by : strategies()) {
    CAPTURE(by.name);
    auto x = gradients(3, 1000, 0.1);
    x[2][500] = std::numeric_limits<float>::quiet_NaN();
    x[1][501] = -std::numeric_limits<float>::infinity();
    check_ending(ending_of(x,
                           [&](in_process& transport, auto mine) {
                             host_executor executor;
                             plan sum(1000, inceptionn(), transport, executor, by.options);
                             sum.all_reduce(mine);
                           }),
                 "nonfinite_error",
                 "all_reduce: NaN or infinity on some rank, or overflow, first in block 7 (values "
                 "448 to 511) "
                 "of 1000 values, 1 blocks concerned; x is unchanged");
    auto options = by.options;
    options.nonfinite = nonfinite_policy::propagate;
    auto const passed = all_reduced(x, inceptionn(), options);
    CHECK(all_are(passed, passed[0]));
    CHECK(std::isfinite(passed[0][499]));
    CHECK(std::isnan(passed[0][500]));
    CHECK(passed[0][501] == x[1][501]);
  }
}

namespace {

/// Replaces one message that has a block header by the result of `change`.
class changed_transport {
 public:
  using request = in_process::request;
  using change = std::function<std::span<std::byte>(std::span<std::byte>)>;

  changed_transport(in_process& transport, int message, change make)
      : transport_(&transport), left_(message), make_(std::move(make)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space space) const { return transport_->reaches(space); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    bool const has_header = bytes.size() >= block_header_bytes &&
                            load<std::uint16_t>(bytes.data()) == block_header{}.magic;
    if (!has_header || left_-- != 0) return transport_->isend(peer, tag, bytes);
    changed_.assign(bytes.begin(), bytes.end());
    return transport_->isend(peer, tag, make_(changed_));
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return transport_->irecv(peer, tag, bytes);
  }
  std::size_t wait(request& r) { return transport_->wait(r); }
  bool has_changed() const { return !changed_.empty(); }

 private:
  in_process* transport_;
  int left_;
  change make_;
  std::vector<std::byte> changed_;
};
static_assert(Transport<changed_transport>);

constexpr std::size_t few = 3000;
vectors const& few_gradients() {
  static vectors const x = gradients(4, few, 0.03);
  return x;
}

/// Rank 1 of 4 changes its message number `message`. Returns false if it sends fewer messages.
template <class C = inceptionn>
bool check_change(plan_options const& options, operation what, int message,
                  changed_transport::change const& make, C const& codec = C()) {
  std::atomic<bool> changed = false;
  auto const found = ending_of(few_gradients(), [&](in_process& inner, auto mine) {
    changed_transport transport(inner, inner.rank() == 1 ? message : -1, make);
    host_executor executor;
    plan sum(few, codec, transport, executor, options);
    auto const note = [&] {
      if (transport.has_changed()) changed = true;
    };
    try {
      perform(what, sum, mine);
    } catch (...) {
      note();
      throw;
    }
    note();
  });
  if (!changed) return false;
  CAPTURE(to_text(found.outcomes));
  CHECK(all_ended_alike(found.outcomes, "wire_error"));
  CHECK(found.unchanged);
  return true;
}
changed_transport::change flipped(std::size_t byte) {
  return [byte](std::span<std::byte> bytes) {
    bytes[byte % bytes.size()] ^= std::byte{4};
    return bytes;
  };
}

}  // namespace

TEST_CASE("variable rate: messages of another step, index, length or codec stop all ranks") {
  for (auto const& by : strategies())
    for (auto const what : operations) {
      CAPTURE(by.name);
      CAPTURE(detail::to_text(what));
      int changed = 0;
      // of the header: magic, version, codec, values, flags, weight, rank, index, key
      for (std::size_t const byte : {0, 2, 3, 4, 6, 8, 12, 16, 24})
        for (int const message : {0, 3}) {
          CAPTURE(byte);
          CAPTURE(message);
          changed += check_change(by.options, what, message, flipped(byte));
        }
      bool const answers = (by.name == "aggregator") && what == operation::all_gather;
      CHECK((changed > 0) == !answers);  // rank 1 has no answers
    }
}

TEST_CASE("variable rate: all ranks learn where damage was first detected, and why") {
  for (auto const& by : strategies()) {
    auto const found = ending_of(few_gradients(), [&](in_process& inner, auto mine) {
      changed_transport transport(inner, inner.rank() == 1 ? 0 : -1, flipped(24));
      host_executor executor;
      plan sum(few, inceptionn(), transport, executor, by.options);
      sum.all_reduce(mine);
    });
    CAPTURE(by.name);
    CAPTURE(to_text(found.outcomes));
    CHECK(all_ended_alike(found.outcomes, "wire_error"));
    CHECK(found.outcomes[0].text.starts_with("all_reduce: codec 'inceptionn', block "));
    CHECK(found.outcomes[0].text.ends_with("blocks of different seeds, steps or tensors met"));
  }
}

TEST_CASE("variable rate: encoded vectors that are inconsistent or too short stop all ranks") {
  for (auto const& by : strategies()) {
    CAPTURE(by.name);
    // of the encoded vector: magic, version, bound, values, bytes, chunks, begin of a chunk, its
    // tags
    for (std::size_t const byte : {32, 34, 37, 40, 48, 56, 64, 90})
      for (int const message : {0, 3}) {
        CAPTURE(byte);
        CAPTURE(message);
        check_change(by.options, operation::all_reduce, message, flipped(byte));
      }
    for (std::size_t const bytes : {0, 1, 31, 32, 63, 64, 100})
      for (int const message : {0, 2}) {
        CAPTURE(bytes);
        CAPTURE(message);
        check_change(by.options, operation::all_reduce, message,
                     [bytes](auto all) { return all.first(bytes); });
      }
  }
}

TEST_CASE("variable rate: damage to vectors that are added in encoded form stops all ranks") {
  for (auto const& by : strategies())
    for (int const message : {0, 1, 3}) {
      CAPTURE(by.name);
      CAPTURE(message);
      error_bounded const codec;
      // of the header the magic, index and key; of the encoded vector the bound, values, bytes,
      // ranks, index
      for (std::size_t const byte : {0, 16, 24, 32 + 15, 32 + 16, 32 + 24, 32 + 40, 32 + 56})
        check_change(by.options, operation::all_reduce, message, flipped(byte), codec);
      for (std::size_t const bytes : {0, 31, 40, 100})
        check_change(
            by.options, operation::all_reduce, message,
            [bytes](auto all) { return all.first(bytes); }, codec);
    }
}

TEST_CASE("variable rate: with checksums any damage stops all ranks, also to a long vector") {
  for (auto const& by : strategies())
    for (int message = 0; message < 6; ++message)
      for (std::size_t const byte : {4, 20, 40, 1111}) {
        CAPTURE(by.name);
        CAPTURE(message);
        CAPTURE(byte);
        auto options = by.options;
        options.checksum = true;
        options.decode_on_arrival_bytes = 1;
        check_change(options, operation::all_reduce, message, flipped(byte));
      }
}

TEST_CASE("variable rate: damage to data that is decoded on arrival stops all ranks too") {
  for (int const message : {0, 3, 4, 5}) {  // sums, and then answers
    auto const found = ending_of(few_gradients(), [&](in_process& inner, auto mine) {
      changed_transport transport(inner, inner.rank() == 1 ? message : -1, flipped(40));
      host_executor executor;
      plan sum(few, inceptionn(), transport, executor, {.decode_on_arrival_bytes = 1});
      sum.all_reduce(mine);
    });
    CAPTURE(message);
    CAPTURE(to_text(found.outcomes));
    CHECK(all_ended_alike(found.outcomes, "wire_error"));
    CHECK((found.unchanged || message >= 3));
  }
}

TEST_CASE("variable rate: a plan continues after an error") {
  auto const x = gradients(3, 5000, 0.03);
  auto const expected = all_reduced(x, inceptionn())[0];
  auto damaged = x;
  damaged[1][7] = std::numeric_limits<float>::quiet_NaN();
  auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    auto& other = damaged[static_cast<std::size_t>(transport.rank())];
    host_executor executor;
    plan sum(5000, inceptionn(), transport, executor);
    CHECK_THROWS_AS(sum.all_reduce(other), nonfinite_error);
    sum.all_reduce(mine, {.seed = 3});
  });
  CHECK(all_are(found, expected));
}

TEST_CASE("variable rate: a transport that fails in the middle ends the call on all ranks") {
  // Rank 1's n-th send of encoded data throws. Its plan stays alive, as in a program that catches
  // the exception outside.
  constexpr int ranks = 3;
  for (auto const& by : strategies())
    for (int failing = 0; failing < 4; ++failing) {
      CAPTURE(by.name);
      CAPTURE(failing);
      using sum = plan<inceptionn, changed_transport, host_executor>;
      host_executor executors[ranks];
      std::vector<std::unique_ptr<changed_transport>> transports(ranks);
      std::vector<std::unique_ptr<sum>> plans(ranks);
      std::vector<outcome> outcomes(ranks);
      auto x = gradients(ranks, 5000, 0.03);
      auto options = by.options;
      options.segment_bytes = 1;
      outcome_of([&] {
        run_ranks(ranks, [&](in_process& inner) {
          auto const rank = static_cast<std::size_t>(inner.rank());
          transports[rank] = std::make_unique<changed_transport>(
              inner, rank == 1 ? failing : -1, [](std::span<std::byte>) -> std::span<std::byte> {
                throw transport_error(1, "cable cut");
              });
          plans[rank] = std::make_unique<sum>(5000, inceptionn(), *transports[rank],
                                              executors[rank], options);
          outcomes[rank] = outcome_of([&] { plans[rank]->all_reduce(x[rank]); });
          if (outcomes[rank].what == "transport_error") throw transport_error(1, "cable cut");
        });
      });
      CAPTURE(to_text(outcomes));
      CHECK(outcomes[1] == outcome{"transport_error", "cable cut", 1});
      for (auto const& one : outcomes) {
        CHECK(one.what == "transport_error");
        CHECK(one.peer == 1);
      }
    }
}
