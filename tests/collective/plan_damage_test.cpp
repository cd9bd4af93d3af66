// optimise: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Tells blocks from the records that ranks exchange before and after them.
bool has_blocks(std::span<std::byte const> bytes) {
  return bytes.size() >= block_header_bytes &&
         load<std::uint16_t>(bytes.data()) == block_header{}.magic;
}

struct damaged_run {
  std::vector<outcome> outcomes;
  std::vector<std::vector<float>> x;
  bool applied = false;  ///< the message existed and was damaged
};

/// An all-reduce of small integers in which rank 0 flips one bit of its `message`-th message with
/// blocks. `bit` counts from the begin of the message, modulo its length.
template <class C, class Sum = plan<C, tampered_transport, host_executor>>
damaged_run run_with_flip(int ranks, std::size_t values, plan_options options, int message,
                          std::size_t bit) {
  damaged_run run;
  for (int rank = 0; rank < ranks; ++rank) run.x.push_back(integer_values(values, 1, rank));
  std::atomic<bool> applied = false;
  run.outcomes = outcomes_on(ranks, [&](in_process& inner) {
    int blocks_sent = 0;
    tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
      if (inner.rank() != 0 || message < 0 || !has_blocks(bytes) || blocks_sent++ != message)
        return;
      std::size_t const flipped = bit % (8 * bytes.size());
      bytes[flipped / 8] ^= static_cast<std::byte>(1 << flipped % 8);
      applied = true;
    });
    host_executor executor;
    auto& x = run.x[static_cast<std::size_t>(inner.rank())];
    Sum(values, C{}, transport, executor, options).all_reduce(std::span(x), {.seed = 2});
  });
  run.applied = applied;
  return run;
}

/// All ranks detected the flipped bit, and x is unchanged.
void check_noticed(damaged_run const& run) {
  CAPTURE(to_text(run.outcomes));
  CHECK(all_ended_alike(run.outcomes, "wire_error"));
  for (std::size_t rank = 0; rank < run.x.size(); ++rank) {
    auto const before = integer_values(run.x[rank].size(), 1, static_cast<int>(rank));
    CHECK(first_difference(run.x[rank], before) == nowhere);
  }
}

}  // namespace

TEST_CASE("plan with checksum: any single flipped bit of a block is a wire_error on all ranks") {
  // every bit of the first and of the last message of rank 0: one block each of one value
  builtin_codecs<float>::for_each([]<class C>() {
    std::size_t const bits = 8 * C{}.block_bytes(1);
    auto const whole = run_with_flip<C>(2, 1, {.checksum = true}, -1, 0);
    REQUIRE(all_ended_alike(whole.outcomes, "returned"));
    int applied = 0;
    for (int const message : {0, 1})
      for (std::size_t bit = 0; bit < bits; bit += few_cases ? 7 : 1) {
        CAPTURE(std::string(C::name));
        CAPTURE(message);
        CAPTURE(bit);
        auto const run = run_with_flip<C>(2, 1, {.checksum = true}, message, bit);
        applied += run.applied;
        if (run.applied) check_noticed(run);
      }
    CHECK(applied > 0);
  });
}

TEST_CASE("plan with checksum: a flipped bit is detected at every hop of every algorithm") {
  for (std::string const how : few_cases ? std::vector{"torus:2x2", "direct"}
                                         : std::vector{"ring", "torus:2x2", "torus:1x4", "direct"})
    builtin_codecs<float>::for_each([&]<class C>() {
      plan_options const options{
          .algorithm = algorithm::from(how), .checksum = true, .segment_bytes = 1};
      std::size_t const values = 4 * C::block_values + 1;
      auto const whole = run_with_flip<C>(4, values, options, -1, 0);
      REQUIRE(all_ended_alike(whole.outcomes, "returned"));
      int message = 0;
      for (;; ++message) {
        CAPTURE(how);
        CAPTURE(std::string(C::name));
        CAPTURE(message);
        auto const bit = static_cast<std::size_t>(40 * 8 + 31 * message);
        auto const run = run_with_flip<C>(4, values, options, message, bit);
        if (!run.applied) break;
        check_noticed(run);
      }
      CHECK(message >= 6);  // 6 hops (torus: 4, the outer ones of two chunks), a block or two each
    });
}

TEST_CASE(
    "plan: narrow messages whose blocks do not match the schedule are a wire_error on all ranks") {
  // one block of one value; the test changes the length that the receiver expects
  for (std::size_t const byte : {offsetof(block_header, values), offsetof(block_header, weight)})
    for (bool const narrow : {true, false}) {
      CAPTURE(byte);
      CAPTURE(narrow);
      auto const run =
          run_with_flip<thc<>>(3, 2 * thc<>::block_values, {.narrow = narrow}, 0, 8 * byte);
      REQUIRE(run.applied);
      CAPTURE(to_text(run.outcomes));
      CHECK(all_ended_alike(run.outcomes, "wire_error"));
      for (std::size_t rank = 0; rank < 3; ++rank)
        CHECK(first_difference(run.x[rank], integer_values(run.x[rank].size(), 1,
                                                           static_cast<int>(rank))) == nowhere);
    }
}

TEST_CASE("plan without checksum: damage to a header is a wire_error, x unchanged") {
  for (std::size_t const early : {plan_options{}.decode_on_arrival_bytes, std::size_t{0}}) {
    CAPTURE(early);
    // the version byte of a block that is still to be merged: all ranks learn of it
    auto const run = run_with_flip<sign<>>(
        3, 40000, {.segment_bytes = 1, .decode_on_arrival_bytes = early}, 0, 8 * 2);
    REQUIRE(run.applied);
    CAPTURE(to_text(run.outcomes));
    CHECK(all_ended_alike(run.outcomes, "wire_error"));
    for (std::size_t rank = 0; rank < 3; ++rank)
      CHECK(first_difference(run.x[rank], integer_values(40000, 1, static_cast<int>(rank))) ==
            nowhere);
  }
}

TEST_CASE("plan without checksum: a damaged reduced block is detected where it arrives") {
  for (std::size_t const early : {plan_options{}.decode_on_arrival_bytes, std::size_t{0}}) {
    CAPTURE(early);
    plan_options const options{.segment_bytes = 1, .decode_on_arrival_bytes = early};
    constexpr std::size_t values = 2 * sign<>::block_values;  // one block per rank
    auto const whole = run_with_flip<sign<>>(2, values, options, -1, 0);
    auto const run = run_with_flip<sign<>>(2, values, options, 1, 8 * 2);
    REQUIRE(run.applied);
    CHECK(run.outcomes[0].what == "returned");
    CHECK(first_difference(run.x[0], whole.x[0]) == nowhere);
    CHECK(run.outcomes[1].what == "wire_error");
    // rank 1 owns the first block and may have decoded it; its copy is not damaged
    auto const before = integer_values(values, 1, 1);
    std::size_t const half = sign<>::block_values;
    for (std::size_t i = half; i < values; ++i) REQUIRE(run.x[1][i] == before[i]);
    for (std::size_t i = 0; i < half; ++i)
      REQUIRE(run.x[1][i] == (early == 0 ? whole.x[1][i] : before[i]));
  }
}

TEST_CASE("algorithm sampled with checksum: any flipped bit is a wire_error on all ranks") {
  plan_options const options{.algorithm = {algorithm_kind::sampled}, .checksum = true};
  auto const whole = run_with_flip<sign<>>(3, 50, options, -1, 0);
  REQUIRE(all_ended_alike(whole.outcomes, "returned"));
  constexpr std::size_t bits = 8 * 34,
                        step = few_cases ? 8 + 9 : 1;  // a header and at least 9 bits
  std::size_t applied = 0;
  for (int const message : {0, 1})
    for (std::size_t bit = 0; bit < bits; bit += step) {
      CAPTURE(message);
      CAPTURE(bit);
      auto const run = run_with_flip<sign<>>(3, 50, options, message, bit);
      applied += run.applied;
      if (run.applied) check_noticed(run);
    }
  CHECK(applied == 2 * bits / step);
}

TEST_CASE("algorithm sampled without checksum: a header of another sender is a wire_error") {
  for (std::size_t const byte :
       {std::size_t{2}, offsetof(block_header, weight), offsetof(block_header, lowest_rank),
        offsetof(block_header, index), offsetof(block_header, key)}) {
    CAPTURE(byte);
    auto const run =
        run_with_flip<sign<>>(2, 100, {.algorithm = {algorithm_kind::sampled}}, 0, 8 * byte + 1);
    REQUIRE(run.applied);
    CAPTURE(to_text(run.outcomes));
    CHECK(run.outcomes[1].what == "wire_error");
    CHECK(first_difference(run.x[1], integer_values(100, 1, 1)) == nowhere);
  }
}

TEST_CASE("plans by name: no two calls send blocks with one key, so that replays are detected") {
  registered_codecs<float>().for_each([](codec_entry<float> const& entry) {
    std::string const codec = entry.name + (entry.name == "error_bounded" ? ":bound=1e-2" : "");
    for (auto const kind : entry.algorithms) {
      algorithm const how{kind};
      CAPTURE(codec);
      CAPTURE(how.name());
      std::array<std::set<std::uint64_t>, 3> keys;  // of rank 1's blocks in each call
      run_ranks(4, [&](in_process& inner) {
        std::size_t call = 0;
        tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
          if (inner.rank() == 1 && has_blocks(bytes))
            keys[call].insert(load<block_header>(bytes.data()).key);
        });
        host_executor executor;
        auto plan = make_plan<float>(codec, 3000, transport, executor, {.algorithm = how});
        for (call = 0; call < keys.size(); ++call) {
          std::vector<float> x(3000);  // more nonzero values in every call
          for (std::size_t i = 0; i < x.size(); i += 30 / (call + 1))
            x[i] = static_cast<float>(1 + (i + call) % 5);
          plan.all_reduce(x);
        }
      });
      for (std::size_t call = 0; call < keys.size(); ++call) {
        CAPTURE(call);
        CHECK(!keys[call].empty());
        for (auto const key : keys[call])
          for (std::size_t earlier = 0; earlier < call; ++earlier)
            CHECK(!keys[earlier].contains(key));
      }
    }
  });
}

TEST_CASE("plan: a message longer than expected is a transport_error that names its sender") {
  std::vector<outcome> outcomes(2);
  outcome_of([&] {
    run_ranks(2, [&](in_process& transport) {
      host_executor executor;
      std::vector<float> x(10);
      auto& mine = outcomes[static_cast<std::size_t>(transport.rank())];
      if (transport.rank() == 0) {
        std::vector<std::byte> const long_one(10000);
        auto send = transport.isend(1, 0, long_one);
        mine = outcome_of([&] { transport.wait(send); });
      } else {
        mine = outcome_of([&] { all_reduce(std::span(x), sign<>{}, transport, executor); });
      }
    });
  });
  CHECK(outcomes[0].what == "returned");
  CHECK(outcomes[1] == outcome{"transport_error",
                               "in_process: rank 0 sent 10000 bytes, rank 1 expected at most " +
                                   std::to_string(sizeof(detail::sealed<detail::call_summary>) +
                                                  detail::slack_for_longer_records),
                               0});
}

TEST_CASE("plan: an answer shorter than a call record is a wire_error that mentions the version") {
  auto const outcomes = outcomes_on(2, [](in_process& transport) {
    host_executor executor;
    std::vector<float> x(10);
    if (transport.rank() == 0) {
      std::vector<std::byte> const short_one(8);
      std::vector<std::byte> got(1000);
      auto receive = transport.irecv(1, 0, got);
      auto send = transport.isend(1, 0, short_one);
      transport.wait(receive);
      transport.wait(send);
    } else {
      all_reduce(std::span(x), sign<>{}, transport, executor);
    }
  });
  CHECK(outcomes[0].what == "returned");
  CHECK(outcomes[1].what == "wire_error");
  CHECK(outcomes[1].text == "rank 0 sent 8 bytes of call records, " +
                                std::to_string(sizeof(detail::sealed<detail::call_summary>)) +
                                " were expected; is it another version of hcomp, or another call?");
}

TEST_CASE("plan: a transport that fails in the middle ends the call on all ranks") {
  // Rank 1's n-th send throws. Its plan stays alive, as in a program that catches the exception
  // outside.
  constexpr int ranks = 3;
  for (std::string const how : {"ring", "direct"})
    for (int failing = 0; failing < 12; ++failing) {
      CAPTURE(how);
      CAPTURE(failing);
      using sum = plan<identity<>, tampered_transport, host_executor>;
      std::vector<std::unique_ptr<tampered_transport>> transports(ranks);
      std::vector<std::unique_ptr<sum>> plans(ranks);
      std::vector<outcome> outcomes(ranks);
      int sends = 0;
      outcome_of([&] {
        run_ranks(ranks, [&](in_process& inner) {
          auto const rank = static_cast<std::size_t>(inner.rank());
          transports[rank] =
              std::make_unique<tampered_transport>(inner, [&, rank](int, int number, auto) {
                if (rank != 1) return;
                sends = number;
                if (number == failing) throw transport_error(1, "cable cut");
              });
          host_executor executor;
          plans[rank] = std::make_unique<sum>(
              40000, identity<>{}, *transports[rank], executor,
              plan_options{.algorithm = algorithm::from(how), .segment_bytes = 1});
          std::vector<float> x(40000, 1.f);
          outcomes[rank] = outcome_of([&] { plans[rank]->all_reduce(std::span(x)); });
          if (outcomes[rank].what == "transport_error") throw transport_error(1, "cable cut");
        });
      });
      REQUIRE(sends >= failing);
      CAPTURE(to_text(outcomes));
      CHECK(outcomes[1] == outcome{"transport_error", "cable cut", 1});
      for (auto const& one : outcomes) {
        // a rank that already has everything may return
        bool const ended = one.what == "transport_error" || one.what == "returned";
        CHECK(ended);
        if (one.what == "transport_error") CHECK(one.peer == 1);
      }
    }
}
