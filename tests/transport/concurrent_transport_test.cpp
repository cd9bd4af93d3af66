
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <support/concurrent_reductions.hpp>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr progress_mode both[] = {progress_mode::caller, progress_mode::thread};

void must(bool holds, char const* what) {  // doctest's checks work in one thread only
  if (!holds) throw std::runtime_error(std::string("expected: ") + what);
}

using exact = identity<float>;

/// One rank whose receives complete only after is_open is set.
struct gated {
  using request = int;
  static constexpr int rank() { return 0; }
  static constexpr int size() { return 1; }
  static constexpr bool reaches(memory_space) { return true; }
  static constexpr std::uint64_t bytes_sent() { return 0; }
  request isend(int, tag_t, std::span<std::byte const>) { return 0; }
  request irecv(int, tag_t, std::span<std::byte>) { return 0; }
  std::size_t wait(request&) { return 0; }
  std::optional<std::size_t> test(request&) const {
    return is_open ? std::optional<std::size_t>(0) : std::nullopt;
  }
  bool is_open = false;
};

}  // namespace

TEST_CASE(
    "concurrent_transport: concurrent all-reduces have the bits and the bytes sent of sequential "
    "ones") {
  for (auto const mode : both)
    for (int const ranks : {1, 2, 5}) {
      CAPTURE(ranks);
      CAPTURE(mode == progress_mode::thread);
      run_ranks(ranks, [&](in_process& inner) {
        must(difference_of_concurrent_reductions<exact>(inner, mode).empty(), "the same, exactly");
        must(difference_of_concurrent_reductions<sign<float>>(inner, mode).empty(),
             "the same of signs");
      });
    }
}

TEST_CASE(
    "concurrent_transport: calls of one plan run in order, also beyond the number of channels") {
  for (auto const mode : both) {
    CAPTURE(mode == progress_mode::thread);
    run_ranks(3, [&](in_process& inner) {
      concurrent_transport over(inner, mode);
      constexpr std::size_t values = 500;
      plans_of<exact> only(over, {values});
      constexpr int steps = 100;  // 30 could run at the same time
      std::vector<std::vector<float>> x;
      for (int step = 0; step < steps; ++step)
        x.emplace_back(values, static_cast<float>(step + inner.rank()));
      std::vector<hcomp::request<report>> under_way;
      for (int step = 0; step < steps; ++step)
        under_way.push_back(over.start(
            [&, step] { return only.plans[0]->all_reduce(std::span(x[std::size_t(step)])); },
            {.exclusive = only.plans[0].get()}));
      for (auto& one : under_way) one.wait();
      for (int step = 0; step < steps; ++step)
        must(x[std::size_t(step)] == std::vector<float>(values, static_cast<float>(3 * step + 3)),
             "the sum of that step");
    });
  }
}

TEST_CASE(
    "concurrent_transport: the highest priority proceeds first, the other calls proceed later") {
  gated transport;
  concurrent_transport over(transport);
  std::string order;
  std::vector<hcomp::request<void>> under_way;
  for (int const priority : {0, 2, 1, 2})
    under_way.push_back(over.start(
        [&, number = under_way.size()] {
          for (int message = 0; message < 3; ++message) {
            auto coming = over.irecv(0, 0, {});
            over.wait(coming);
            order += std::to_string(number);
          }
        },
        {.priority = priority}));
  CHECK(order.empty());
  transport.is_open = true;
  for (auto& one : under_way) one.wait();
  CHECK(order == "111333222000");
}

TEST_CASE("concurrent_transport: proceeds beside a computation, if a thread makes progress") {
  run_ranks(2, [&](in_process& inner) {
    concurrent_transport over(inner, progress_mode::thread);
    plans_of<exact> only(over, {20'000});
    auto x = only.inputs[0];
    auto sum = over.start([&] { return only.plans[0]->all_reduce(std::span(x)); });
    auto const start = std::chrono::steady_clock::now();
    while (!sum.test())
      must(std::chrono::steady_clock::now() - start < std::chrono::seconds(60),
           "it ends by itself");
    sum.wait();
  });
}

TEST_CASE("concurrent_transport: blocking calls progress beside nonblocking ones, and vice versa") {
  run_ranks(3, [&](in_process& inner) {
    concurrent_transport over(inner);
    plans_of<exact> some(over, {3000, 4000});
    auto x = some.inputs;
    auto sum = over.start([&] { return some.plans[0]->all_reduce(std::span(x[0])); });
    if (inner.rank() == 1) sum.wait();  // needs the other ranks, which wait for another call
    some.plans[1]->all_reduce(std::span(x[1]));
    if (inner.rank() != 1) sum.wait();
  });
}

TEST_CASE("concurrent_transport: a refused call leaves the other calls unaffected") {
  for (auto const mode : both)
    run_ranks(3, [&](in_process& inner) {
      concurrent_transport over(inner, mode);
      plans_of<sign<float>> all(over, {1000, 2000, 3000});
      auto x = all.inputs;
      if (inner.rank() == 1) x[1].resize(5);  // of 2000
      std::vector<hcomp::request<report>> under_way;
      for (std::size_t i = 0; i < 3; ++i)
        under_way.push_back(over.start([&, i] { return all.plans[i]->all_reduce(std::span(x[i])); },
                                       {.exclusive = all.plans[i].get()}));
      auto const second = outcome_of([&] { under_way[1].wait(); });
      must(second.what == "disagreement_error" &&
               second.text.find("rank 1 has 5") != std::string::npos,
           second.text.c_str());
      under_way[0].wait();
      under_way[2].wait();
      // the refused call can be repeated
      x[1].resize(2000);
      over.start([&] { return all.plans[1]->all_reduce(std::span(x[1])); }).wait();
    });
}

TEST_CASE("concurrent_transport: when a rank fails, all pending calls end and name it") {
  for (auto const mode : both) {
    in_process_world world(3);
    std::vector<std::string> ended(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        in_process inner(world, rank);
        if (rank == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return world.fail(1, "it is lost");
        }
        concurrent_transport over(inner, mode);
        plans_of<exact> all(over, sizes_of_reductions);
        auto x = all.inputs;
        std::vector<hcomp::request<report>> under_way;
        for (std::size_t i = 0; i < sizes_of_reductions.size(); ++i)
          under_way.push_back(
              over.start([&, i] { return all.plans[i]->all_reduce(std::span(x[i])); }));
        for (auto& one : under_way) {
          auto const how_it_ended = outcome_of([&] { one.wait(); });
          ended[std::size_t(rank)] += how_it_ended.what + std::to_string(how_it_ended.peer) + " ";
        }
      });
    for (auto& thread : threads) thread.join();
    std::string all;
    for (std::size_t i = 0; i < sizes_of_reductions.size(); ++i) all += "transport_error1 ";
    CHECK(ended[0] == all);
    CHECK(ended[2] == all);
  }
}

TEST_CASE(
    "concurrent_transport: exceptions that are being handled belong to their own collective") {
  run_ranks(2, [&](in_process& inner) {
    concurrent_transport over(inner);
    auto const meet = [&] {
      std::byte in{}, out{};
      auto coming = over.irecv(1 - over.rank(), 0, {&in, 1});
      auto going = over.isend(1 - over.rank(), 0, {&out, 1});
      over.wait(coming);
      over.wait(going);
    };
    std::vector<hcomp::request<std::string>> under_way;
    for (std::string const text : {"first", "second", "third"})
      under_way.push_back(over.start([&, text]() -> std::string {
        try {
          meet();
          throw std::runtime_error(text);
        } catch (std::exception const&) {
          for (int i = 0; i < 5; ++i) meet();  // while other calls throw
          try {
            throw;
          } catch (std::exception const& again) {
            return again.what();
          }
        }
      }));
    must(under_way[1].wait() == "second", "second");
    must(under_way[2].wait() == "third", "third");
    must(under_way[0].wait() == "first", "first");
  });
}

TEST_CASE("concurrent_transport: the destructor of a request waits") {
  for (auto const mode : both)
    run_ranks(2, [&](in_process& inner) {
      concurrent_transport over(inner, mode);
      plans_of<exact> only(over, {2000});
      auto x = only.inputs[0];
      bool is_done = false;
      {
        auto const sum = over.start([&] {
          only.plans[0]->all_reduce(std::span(x));
          is_done = true;
        });
      }
      must(is_done, "it is done");
    });
}

TEST_CASE(
    "concurrent_transport: a continuation is called once, by the thread that makes progress") {
  for (auto const mode : both)
    run_ranks(3, [&](in_process& inner) {
      concurrent_transport over(inner, mode);
      plans_of<exact> all(over, {3000, 4000});
      auto x = all.inputs;
      int calls = 0;
      std::thread::id thread;
      auto const sum = [&](std::size_t i) {
        return over.start([&, i] { return all.plans[i]->all_reduce(std::span(x[i])); });
      };
      auto first = sum(0);
      bool const is_late = inner.rank() == 1;  // the call has already completed
      while (is_late && !first.test()) std::this_thread::yield();
      auto bytes = first
                       .then([&](hcomp::request<report> done) {
                         ++calls;
                         thread = std::this_thread::get_id();
                         must(done.test(), "it is done");
                         return done.wait().bytes_sent;
                       })
                       .then([&](hcomp::request<std::uint64_t> done) { return done.wait() + 1; });
      // Only rank 0 has a continuation after this call.
      auto second = sum(1);
      if (inner.rank() == 0)
        second
            .then([&](hcomp::request<report> done) {
              done.wait();
              ++calls;
            })
            .wait();
      else
        second.wait();
      must(bytes.wait() > 1, "its result");
      sum(0).wait();
      must(calls == (inner.rank() == 0 ? 2 : 1), "once");
      must((thread == std::this_thread::get_id()) == (mode == progress_mode::caller), "its thread");
    });
}

TEST_CASE(
    "concurrent_transport: errors of a call reach its continuation, and those of a continuation "
    "reach wait()") {
  for (auto const mode : both)
    run_ranks(2, [&](in_process& inner) {
      concurrent_transport over(inner, mode);
      plans_of<sign<float>> only(over, {1000});
      auto x = only.inputs[0];
      x.resize(5);
      std::string seen;
      {
        // Its destructor waits.
        auto const handled = over.start([&] { return only.plans[0]->all_reduce(std::span(x)); })
                                 .then([&](hcomp::request<report> done) {
                                   seen = outcome_of([&] { done.wait(); }).what;
                                 });
      }
      must(seen == "disagreement_error" || seen == "invalid_argument", seen.c_str());
      auto thrown = over.start([] {}).then(
          [](hcomp::request<void>) -> int { throw std::runtime_error("the step failed"); });
      auto passed_on = thrown.then([](hcomp::request<int> done) { return done.wait(); });
      must(outcome_of([&] { passed_on.wait(); }).text == "the step failed", "the same error");
    });
}

TEST_CASE(
    "concurrent_transport: a continuation starts by its priority, and waits only for its own "
    "call") {
  gated transport;
  concurrent_transport over(transport);
  std::string order;
  std::vector<hcomp::request<void>> under_way;
  for (int const priority : {0, 1})
    under_way.push_back(over.start(
                                [&, priority] {
                                  auto coming = over.irecv(0, 0, {});
                                  over.wait(coming);
                                  order += std::to_string(priority);
                                },
                                {.priority = priority})
                            .then([&, priority](hcomp::request<void> done) {
                              done.wait();
                              order += priority == 0 ? "a" : "b";
                            }));
  CHECK(order.empty());
  transport.is_open = true;
  for (auto& one : under_way) one.wait();
  CHECK(order == "1b0a");
}

TEST_CASE("concurrent_transport: wrong use is refused") {
  run_ranks(1, [&](in_process& inner) {
    concurrent_transport over(inner);
    auto const text = [](auto const& f) { return outcome_of(f).text; };
    must(text([&] { over.isend(0, 1024, {}); }) ==
             "concurrent_transport: tag 1024, at most 1023 is possible",
         "tags have a limit");
    must(text([&] { over.start([&] { over.start([] {}).wait(); }).wait(); }) ==
             "concurrent_transport: a collective under way calls start",
         "start is for outside");
    auto done = over.start([] {});
    done.wait();
    must(text([&] { done.wait(); }) == "request: wait of a collective that was waited for already",
         "wait is once");
    must(text([&] { done.then([](hcomp::request<void>) {}).wait(); }) ==
             "request: then of a collective that was waited for already",
         "then is once, too");
    must(text([&] {
           over.start([] {}).then([&](hcomp::request<void>) { over.isend(0, 0, {}); }).wait();
         }) ==
             "concurrent_transport: isend by a function that `then` was given; collectives belong "
             "in "
             "those of `start`",
         "what follows calls no collectives");
    concurrent_transport threaded(inner, progress_mode::thread);
    must(text([&] { threaded.isend(0, 0, {}); }) ==
             "concurrent_transport: isend by a collective that was not started, where a thread "
             "makes "
             "progress",
         "all is started where a thread makes progress");
  });
  struct blocking_only {
    using request = int;
    int rank() const { return 0; }
    int size() const { return 1; }
    request isend(int, tag_t, std::span<std::byte const>) { return 0; }
    request irecv(int, tag_t, std::span<std::byte>) { return 0; }
    std::size_t wait(request&) { return 0; }
    bool reaches(memory_space) const { return true; }
    std::uint64_t bytes_sent() const { return 0; }
  } blocking;
  CHECK_THROWS_WITH_AS(
      concurrent_transport{blocking},
      "concurrent_transport: the transport has no `test`, which it needs to go on with "
      "one collective while another one waits",
      std::invalid_argument);
  any_transport hidden(blocking);
  CHECK_THROWS_AS(concurrent_transport{hidden}, std::invalid_argument);
}
