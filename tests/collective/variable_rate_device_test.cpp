
/// @file
/// Plans of variable rate on devices give the bits of plans on hosts.
/// The host touches no device memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <collective/endings.hpp>
#include <collective/host_memory.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using vectors = std::vector<std::vector<float>>;
using detail::operation;

/// Memory of a rank's vector during the call.
enum class place { host, device, device_staged };

plan_options by(std::string const& how) { return {.algorithm = algorithm::from(how)}; }
/// The argument check of hosts also asks whether values are large. That of devices does not, and
/// sends more.
plan_options unchecked(plan_options options) {
  options.check = false;
  return options;
}
char const* const strategies[] = {"ring", "torus", "direct", "aggregator"};

vectors values_of(int ranks, std::size_t n, float scale = 0.05f) {
  vectors x;
  for (int r = 0; r < ranks; ++r) {
    auto& mine = x.emplace_back(uniform_values(n, 5, r));
    for (std::size_t i = 0; i < n; ++i) mine[i] *= i / 1024 % 3 == 1 ? 40 * scale : scale;
  }
  return x;
}

/// Some of values_of are too large to be integers.
error_bounded const bounded({.bound = 1e-5});

/// Fields of the last report that must be equal on hosts and devices.
struct stats {
  std::uint64_t bytes_sent, weight, error;  ///< the bits of the error, which may be NaN
  double parameter;
  friend bool operator==(stats const&, stats const&) = default;
};

/// x after two calls of `what` in one plan. The first call takes another vector, which is appended
/// to x.
template <class C>
stats summed(C const& codec, in_process& transport, place where, operation what,
             std::vector<float>& x, plan_options const& options, call_options const& call) {
  auto other = x;
  for (float& value : other) value = std::abs(value) < 1e30f ? 3 * value : 1;
  stats found{};
  auto const note = [&](auto const& sum, report const& last) {
    found = {last.bytes_sent, last.weight, same_bits<std::uint64_t>(last.error),
             sum.codec().parameters()[1]};
  };
  auto const on_device = [&](auto& over, guarded_executor& executor) {
    device_vector<float> const first(other, executor), second(x, executor);
    plan sum(x.size(), codec, over, executor, options);
    perform(what, sum, first.span(), call);
    auto const before = buffers_made;
    note(sum, perform(what, sum, second.span(), call));
    CHECK(buffers_made == before);
    x = second.host();
    other = first.host();
  };
  if (where == place::host) {
    host_executor executor;
    plan sum(x.size(), codec, transport, executor, options);
    perform(what, sum, other, call);
    note(sum, perform(what, sum, x, call));
  } else {
    guarded_executor executor;
    host_staged over(transport, executor);
    where == place::device ? on_device(transport, executor) : on_device(over, executor);
  }
  x.insert(x.end(), other.begin(), other.end());
  return found;
}

template <class C>
void compare(C const& codec, vectors const& x, operation what, plan_options const& options,
             call_options const& call) {
  std::vector<stats> expected(x.size()), found(x.size());
  auto const run = [&](auto const& where, std::vector<stats>& all) {
    return on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      all[rank] = summed(codec, transport, where(rank), what, mine, unchecked(options), call);
    });
  };
  auto const wanted = run([](std::size_t) { return place::host; }, expected);
  for (int const mixture : {0, 1, 2}) {  // on devices; with staging; hosts and devices in one group
    CAPTURE(mixture);
    auto const made = run(
        [&](std::size_t rank) {
          return mixture == 0                   ? place::device
                 : mixture == 1                 ? place::device_staged
                 : rank % 2 == x.size() / 2 % 2 ? place::host
                                                : place::device;
        },
        found);
    CHECK(found == expected);
    for (std::size_t r = 0; r < x.size(); ++r)
      CHECK(first_difference(made[r], wanted[r]) == nowhere);
  }
}

}  // namespace

TEST_CASE(
    "variable rate on devices: the bits and the bytes of plans on CPUs, with every strategy") {
  for (int const ranks : few_cases ? std::vector{3} : std::vector{1, 3, 4})
    for (std::string const how : strategies)
      for (std::size_t const n : {0, 1, 70, 9001})
        for (bool const flag : {false, true}) {
          CAPTURE(ranks);
          CAPTURE(how);
          CAPTURE(n);
          CAPTURE(flag);
          auto options = by(how);
          options.segment_bytes = flag ? 1 : 10'000;
          options.checksum = flag && n > 70;
          options.decode_on_arrival_bytes = 1;
          call_options const call{.op = flag ? reduce_op::mean : reduce_op::sum};
          compare(inceptionn(), values_of(ranks, n), operation::all_reduce, options, call);
          compare(bounded, values_of(ranks, n), operation::all_reduce, options, call);
        }
}

TEST_CASE("variable rate on devices: reduce_scatter and all_gather, and codecs that are fitted") {
  for (std::string const how : strategies)
    for (auto const what : operations)
      for (bool const fitted : {false, true}) {
        CAPTURE(how);
        CAPTURE(detail::to_text(what));
        CAPTURE(fitted);
        auto const options = by(how);
        auto const x = values_of(3, 5001, fitted ? 1e-5f : 0.05f);
        auto const result = what == operation::all_gather ? reduce_op::sum : reduce_op::mean;
        compare(inceptionn({.fitted = fitted}), x, what, options, {.op = result});
        if (!fitted) compare(bounded, x, what, options, {.op = result});
      }
}

namespace {

template <class C> void check_nonfinite(C const& codec) {
  auto x = values_of(3, 9001);
  x[1][8000] = std::numeric_limits<float>::quiet_NaN();
  x[2][100] = -std::numeric_limits<float>::infinity();
  x[0][8200] = same_bits<float>(0xffabcdefu);
  for (std::string const how : strategies) {
    CAPTURE(how);
    auto options = by(how);
    options.nonfinite = nonfinite_policy::propagate;
    for (auto const result : {reduce_op::sum, reduce_op::mean})
      compare(codec, x, operation::all_reduce, options, {.op = result});

    options.nonfinite = nonfinite_policy::throw_error;
    auto after = x;
    auto const outcomes = [&](bool on_device) {
      return outcomes_on(3, [&](in_process& transport) {
        auto const rank = static_cast<std::size_t>(transport.rank());
        if (!on_device) {
          auto mine = x[rank];
          host_executor executor;
          plan(9001, codec, transport, executor, options).all_reduce(mine);
          return;
        }
        guarded_executor executor;
        device_vector<float> const mine(x[rank], executor);
        plan sum(9001, codec, transport, executor, options);
        auto const outcome = outcome_of([&] { sum.all_reduce(mine.span()); });
        after[rank] = mine.host();
        if (outcome.what == "nonfinite_error") throw nonfinite_error(outcome.text);
      });
    };
    auto const found = outcomes(true);
    CAPTURE(to_text(found));
    CHECK(all_ended_alike(found, "nonfinite_error"));
    CHECK(found == outcomes(false));
    for (std::size_t rank = 0; rank < x.size(); ++rank)
      CHECK(first_difference(after[rank], x[rank]) == nowhere);
  }
}

/// Offset of the change in a message.
using place_in = std::function<std::size_t(std::span<std::byte const>)>;

/// Returns the number of changes that ranks detected.
template <class C>
int check_damage(C const& codec, vectors const& x, std::vector<place_in> const& places) {
  std::size_t const values = x[0].size();
  /// Rank 1 flips a bit of its message number `message` among those with encoded values, or
  /// truncates it.
  auto const damaged = [&](bool on_device, std::string const& how, int message,
                           place_in const& byte) {
    return outcomes_on(3, [&](in_process& inner) {
      int left = inner.rank() == 1 ? message : -1;
      tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
        bool const has_encoded = bytes.size() >= block_header_bytes &&
                                 load<std::uint16_t>(bytes.data()) == block_header{}.magic;
        if (has_encoded && left-- == 0) bytes[byte(bytes) % bytes.size()] ^= std::byte{4};
      });
      auto mine = x[static_cast<std::size_t>(inner.rank())];
      if (on_device) {
        guarded_executor executor;
        device_vector<float> const device_values(mine, executor);
        plan sum(values, codec, transport, executor, unchecked(by(how)));
        auto const outcome = outcome_of([&] { sum.all_reduce(device_values.span()); });
        if (outcome.what == "wire_error") {
          CHECK(first_difference(device_values.host(), mine) == nowhere);
          throw wire_error(outcome.text);
        }
      } else {
        host_executor executor;
        plan(values, codec, transport, executor, unchecked(by(how))).all_reduce(mine);
      }
    });
  };
  int complaints = 0;
  for (std::string const how : strategies)
    for (int const message : {0, 1, 3})
      for (std::size_t i = 0; i < places.size(); ++i) {
        CAPTURE(how);
        CAPTURE(message);
        CAPTURE(i);
        auto const found = damaged(true, how, message, places[i]);
        CAPTURE(to_text(found));
        CHECK(found == damaged(false, how, message, places[i]));
        complaints += found[0].what == "wire_error";
      }
  return complaints;
}

}  // namespace

TEST_CASE("variable rate on devices: NaN and infinity as on CPUs") {
  check_nonfinite(inceptionn());
  check_nonfinite(bounded);
}

TEST_CASE("variable rate on devices: damage is reported as on CPUs, on all ranks") {
  std::vector<place_in> places;
  // of the block header, and of the encoded vector's header, table, tags or modes, and payloads
  for (std::size_t const byte : {0, 3, 16, 34, 40, 48, 64, 68, 72, 76, 90, 100, 400})
    places.push_back([byte](auto) { return byte; });
  CHECK(check_damage(inceptionn(), values_of(3, 5000), places) > 60);
  CHECK(check_damage(bounded, values_of(3, 5000), places) > 60);
}

TEST_CASE(
    "variable rate on devices: damage to data decoded on arrival is reported, and does not "
    "persist") {
  auto const check = [](auto const& codec) {
    auto const x = values_of(3, 9001);
    int complaints = 0;
    for (std::string const how : strategies)
      for (int const message : few_cases ? std::vector{0, 8} : std::vector{0, 3, 5, 8, 11})
        for (std::size_t const byte : {34, 64, 72, 90}) {
          CAPTURE(how);
          CAPTURE(message);
          CAPTURE(byte);
          auto options = by(how);
          options.segment_bytes = 4096;
          options.decode_on_arrival_bytes = 1;
          /// All ranks' vectors after a second all-reduce. In the first one, rank 1 flips a bit.
          auto const run = [&](bool on_device, vectors& after) {
            after = x;
            return outcomes_on(3, [&](in_process& inner) {
              int left = inner.rank() == 1 ? message : -1;
              tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
                bool const has_encoded = bytes.size() > block_header_bytes &&
                                         load<std::uint16_t>(bytes.data()) == block_header{}.magic;
                if (has_encoded && left-- == 0) bytes[byte % bytes.size()] ^= std::byte{4};
              });
              auto& mine = after[static_cast<std::size_t>(inner.rank())];
              auto const twice = [&](auto& sum, std::span<float> first, std::span<float> second) {
                auto const outcome = outcome_of([&] { sum.all_reduce(first); });
                sum.all_reduce(second);
                return outcome;
              };
              outcome found;
              if (on_device) {
                guarded_executor executor;
                device_vector<float> const first(mine, executor), second(mine, executor);
                plan sum(mine.size(), codec, transport, executor, unchecked(options));
                found = twice(sum, first.span(), second.span());
                mine = second.host();
              } else {
                host_executor executor;
                auto first = mine;
                plan sum(mine.size(), codec, transport, executor, unchecked(options));
                found = twice(sum, first, mine);
              }
              if (found.what == "wire_error") throw wire_error(found.text);
            });
          };
          vectors device_values, host_values;
          auto const found = run(true, device_values);
          CAPTURE(to_text(found));
          CHECK(found == run(false, host_values));
          for (std::size_t rank = 0; rank < x.size(); ++rank)
            CHECK(first_difference(device_values[rank], host_values[rank]) == nowhere);
          complaints += found[0].what == "wire_error";
        }
    return complaints;
  };
  int const most = few_cases ? 16 : 40;
  CHECK(check(inceptionn()) > most);
  CHECK(check(bounded) > most);
}

TEST_CASE("variable rate on devices: impossible sums are reported as on CPUs, on all ranks") {
  auto x = values_of(3, 5000);
  for (auto& mine : x)
    for (std::size_t i = 0; i < mine.size(); i += 32) mine[i] = 1e9f;  // its block is words
  // bit 26 of the second word: not a float, and more steps than possible
  auto const word = [](std::span<std::byte const> message) {
    auto const encoded = message.subspan(block_header_bytes);
    if (load<block_header>(message.data()).codec == error_bounded_fallback<>::codec_id)
      return block_header_bytes + 8;  // of the bound
    std::size_t const values = std::min<std::size_t>(error_bounded<>::peek(encoded).values, 4096);
    std::size_t const chunk = load<std::uint32_t>(encoded.data() + 56);
    return block_header_bytes + chunk + 4 + (values + 31) / 32 + 7;
  };
  CHECK(check_damage(bounded, x, {word}) >= 4);  // every strategy adds the first message
}

TEST_CASE("variable rate on devices: values of one rank in host memory are refused on all ranks") {
  auto const check = [](auto const& codec, std::string const& how) {
    CAPTURE(how);
    check_host_memory_is_refused(5000, [&](auto& transport, auto& executor, std::span<float> x) {
      plan sum(x.size(), codec, transport, executor, by(how));
      device_vector<float> const device_values(std::vector<float>(x.size(), 1.0f), executor);
      CHECK(sum.all_reduce(device_values.span()).messages == message_memory::host_staged);
      sum.all_reduce(x);
    });
  };
  for (std::string const how : strategies) {
    check(inceptionn(), how);
    check(bounded, how);
  }
}
