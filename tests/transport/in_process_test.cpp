
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class V> std::span<std::byte const> bytes_of(V const& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class V> std::span<std::byte> bytes_of(V& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

TEST_CASE("in_process: messages of one pair and tag arrive in the order they were sent") {
  constexpr int messages = 100;
  for (bool const receives_first : {false, true}) {
    CAPTURE(receives_first);
    std::array<int, messages> sent{}, received{};
    for (int i = 0; i < messages; ++i) sent[static_cast<std::size_t>(i)] = 7 * i + 1;
    // one thread plays both ranks, so that the order does not depend on the scheduler
    in_process_world world(2);
    in_process from(world, 0), to(world, 1);
    std::vector<in_process::request> sends, receives;
    auto const send = [&] {
      for (auto const& one : sent) sends.push_back(from.isend(1, 5, bytes_of(one)));
    };
    auto const receive = [&] {
      for (auto& one : received) receives.push_back(to.irecv(0, 5, bytes_of(one)));
    };
    if (receives_first) receive();
    send();
    if (!receives_first) receive();
    for (auto& one : receives) CHECK(to.wait(one) == sizeof(int));
    for (auto& one : sends) CHECK(from.wait(one) == sizeof(int));
    CHECK(received == sent);
  }
}

TEST_CASE("in_process: a receive takes only messages of its own tag, whichever came first") {
  in_process_world world(2);
  in_process from(world, 0), to(world, 1);
  int const first = 11, second = 22;
  int a = 0, b = 0;
  auto send_first = from.isend(1, 1, bytes_of(first));
  auto send_second = from.isend(1, 2, bytes_of(second));
  auto receive_b = to.irecv(0, 2, bytes_of(b));
  auto receive_a = to.irecv(0, 1, bytes_of(a));
  to.wait(receive_b);
  to.wait(receive_a);
  from.wait(send_second);
  from.wait(send_first);
  CHECK(a == 11);
  CHECK(b == 22);
}

TEST_CASE("in_process: messages of different senders do not mix") {
  std::vector<std::vector<int>> got(5);
  run_ranks(5, [&](in_process& transport) {
    int const mine = 100 + transport.rank();
    std::vector<int> from_all(5, -1);
    std::vector<in_process::request> requests;
    for (int peer = 0; peer < 5; ++peer)
      requests.push_back(
          transport.irecv(peer, 0, bytes_of(from_all[static_cast<std::size_t>(peer)])));
    for (int peer = 4; peer >= 0; --peer)
      requests.push_back(transport.isend(peer, 0, bytes_of(mine)));  // to itself, too
    for (auto& request : requests) transport.wait(request);
    got[static_cast<std::size_t>(transport.rank())] = from_all;
  });
  for (auto const& one : got) CHECK(one == std::vector<int>{100, 101, 102, 103, 104});
}

TEST_CASE(
    "in_process: a receive may have more room than the message, and zero bytes are a message") {
  in_process_world world(2);
  in_process from(world, 0), to(world, 1);
  std::array<std::uint8_t, 3> const three{1, 2, 3};
  std::array<std::uint8_t, 5> five{9, 9, 9, 9, 9};
  auto send = from.isend(1, 0, std::as_bytes(std::span(three)));
  auto send_nothing = from.isend(1, 0, std::span<std::byte const>());
  auto receive = to.irecv(0, 0, std::as_writable_bytes(std::span(five)));
  auto receive_nothing = to.irecv(0, 0, std::as_writable_bytes(std::span(five).subspan(4)));
  CHECK(to.wait(receive) == 3);
  CHECK(to.wait(receive_nothing) == 0);
  CHECK(from.wait(send) == 3);
  CHECK(from.wait(send_nothing) == 0);
  CHECK(five == std::array<std::uint8_t, 5>{1, 2, 3, 9, 9});
  CHECK(from.bytes_sent() == 3);
  CHECK(to.bytes_sent() == 0);
}

TEST_CASE("in_process: a message longer than the receive is an error with both sizes, no overrun") {
  in_process_world world(2);
  in_process from(world, 0), to(world, 1);
  std::array<std::uint8_t, 5> const five{1, 2, 3, 4, 5};
  std::array<std::uint8_t, 4> four{9, 9, 9, 9};
  auto send = from.isend(1, 0, std::as_bytes(std::span(five)));
  auto receive = to.irecv(0, 0, std::as_writable_bytes(std::span(four).first(3)));
  auto const ended = outcome_of([&] { to.wait(receive); });
  CHECK(ended == outcome{"transport_error",
                         "in_process: rank 0 sent 5 bytes, rank 1 expected at most 3", 0});
  CHECK(four[3] == 9);
  CHECK(from.wait(send) == 5);
}

TEST_CASE("in_process: a peer that does not exist is refused with the valid range") {
  in_process_world world(4);
  in_process transport(world, 2);
  int value = 0;
  CHECK_THROWS_WITH_AS(transport.isend(4, 0, bytes_of(value)),
                       "isend: peer 4, but the transport has 4 ranks (0 to 3)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(transport.irecv(-1, 0, bytes_of(value)),
                       "irecv: peer -1, but the transport has 4 ranks (0 to 3)",
                       std::invalid_argument);
  CHECK_THROWS_AS(in_process(world, 4), std::invalid_argument);
  CHECK_THROWS_WITH_AS(in_process_world(0),
                       "in_process_world: 0 ranks asked for, at least 1 is needed",
                       std::invalid_argument);
}

TEST_CASE("in_process: reaches host memory only") {
  in_process_world world(1);
  CHECK(in_process(world, 0).reaches(memory_space::host));
  CHECK_FALSE(in_process(world, 0).reaches(memory_space::device));
}

TEST_CASE("in_process: after fail() every call of every rank throws, also pending ones") {
  in_process_world world(3);
  std::vector<outcome> pending(3), later(3);
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      in_process transport(world, rank);
      auto const place = static_cast<std::size_t>(rank);
      int value = 0;
      pending[place] = outcome_of([&] {
        auto receive = transport.irecv((rank + 1) % 3, 0, bytes_of(value));
        ++waiting;
        transport.wait(receive);
      });
      later[place] = outcome_of([&] { transport.isend((rank + 2) % 3, 0, bytes_of(value)); });
    });
  while (waiting < 3) std::this_thread::yield();
  world.fail(1, "power cut");
  for (auto& thread : threads) thread.join();
  outcome const expected{"transport_error", "in_process: rank 1 failed: power cut", 1};
  for (auto const& one : pending) CHECK(one == expected);
  for (auto const& one : later) CHECK(one == expected);
}

TEST_CASE("in_process: messages that arrived before fail() can still be waited for") {
  in_process_world world(2);
  in_process from(world, 0), to(world, 1);
  int const value = 5;
  int got = 0;
  auto send = from.isend(1, 0, bytes_of(value));
  auto receive = to.irecv(0, 0, bytes_of(got));
  world.fail(0, "too late");
  CHECK(to.wait(receive) == sizeof(int));
  CHECK(from.wait(send) == sizeof(int));
  CHECK(got == 5);
}

TEST_CASE(
    "run_ranks: all other ranks learn which rank failed first, and the caller gets its exception") {
  // The texts must name the rank that failed first, not one that failed as a consequence. Timing
  // can change this, so the test tries often, with the waiting ranks on all sides.
  constexpr int ranks = 6;
  for (int attempt = 0; attempt < 100; ++attempt) {
    int const culprit = attempt % ranks;
    std::vector<outcome> ended(ranks);
    auto const whole = outcome_of([&] {
      run_ranks(ranks, [&](in_process& transport) {
        int const rank = transport.rank();
        if (rank == culprit) throw std::runtime_error("out of paper");
        int value = 0;
        try {
          auto receive = transport.irecv((rank + 1) % ranks, 0, bytes_of(value));
          transport.wait(receive);
        } catch (transport_error const& error) {
          ended[static_cast<std::size_t>(rank)] = {"transport_error", error.what(), error.peer()};
          throw;
        }
      });
    });
    CAPTURE(attempt);
    REQUIRE(whole == outcome{"exception", "out of paper", -1});
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      if (rank != culprit)
        REQUIRE(ended[static_cast<std::size_t>(rank)] ==
                outcome{"transport_error",
                        "in_process: rank " + std::to_string(culprit) + " failed: out of paper",
                        culprit});
    }
  }
}

TEST_CASE("run_ranks: rethrows exceptions of classes that hcomp does not know, too") {
  CHECK_THROWS_AS(run_ranks(3,
                            [](in_process& transport) {
                              if (transport.rank() == 1) throw 42;
                              int value = 0;
                              auto receive = transport.irecv(1, 0, bytes_of(value));
                              transport.wait(receive);
                            }),
                  int);
}

TEST_CASE("in_process: after a wait threw, the rank's memory is neither written nor read") {
  // a transport that threw can only be destroyed; its buffers may be freed before it
  in_process_world world(2);
  in_process from(world, 0), to(world, 1);
  std::array<std::uint8_t, 5> const five{1, 2, 3, 4, 5};
  std::array<std::uint8_t, 5> short_one{}, next{}, answer{}, got{};
  auto too_short = to.irecv(0, 0, std::as_writable_bytes(std::span(short_one).first(3)));
  to.irecv(0, 0, std::as_writable_bytes(std::span(next)));
  to.isend(0, 0, std::as_bytes(std::span(answer)));
  from.isend(1, 0, std::as_bytes(std::span(five)));
  CHECK_THROWS_AS(to.wait(too_short), transport_error);
  answer.fill(77);
  // the sender has learned of the failure
  CHECK_THROWS_AS(from.isend(1, 0, std::as_bytes(std::span(five))), transport_error);
  CHECK_THROWS_AS(from.irecv(1, 0, std::as_writable_bytes(std::span(got))), transport_error);
  CHECK(next == std::array<std::uint8_t, 5>{});
  CHECK(got == std::array<std::uint8_t, 5>{});
}

TEST_CASE("run_ranks: a rank that waits for a finished rank is told, and then all waiting ranks") {
  for (bool const sends : {false, true}) {
    CAPTURE(sends);
    std::array<std::string, 3> texts;
    CHECK_THROWS_AS(run_ranks(3,
                              [&](in_process& transport) {
                                int const rank = transport.rank();
                                if (rank == 2) return;  // it calls one collective less
                                std::uint64_t value = 0;
                                // where rank 1 has ended already, rank 0's first call reports it
                                auto const end = outcome_of([&] {
                                  auto r = rank == 0 || !sends
                                               ? transport.irecv(rank + 1, 7, bytes_of(value))
                                               : transport.isend(rank + 1, 7, bytes_of(value));
                                  transport.wait(r);
                                });
                                texts[static_cast<std::size_t>(rank)] = end.text;
                                CHECK(end.what == "transport_error");
                                CHECK(end.peer == 2);
                                if (end.what != "returned") throw transport_error(2, end.text);
                              }),
                    transport_error);
    CHECK(texts[0] == texts[1]);
    CHECK(texts[1].starts_with("in_process: rank 1 waits for rank 2, which is done"));
  }
}
