// run: single
// timeout: 120
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/ucx/transport.hpp>
#include <string>
#include <vector>

#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;
using namespace std::chrono_literals;

namespace {

/// For faults that UCX itself detects: the timeout must not be the end of the wait.
options const long_timeout{.timeout = 60s};
double const noticed_seconds = 30;

/// For faults that only the timeout ends. Upper bounds leave room for busy machines.
options const short_timeout{.timeout = 2s};
double const allowed_seconds = 8;

void check_gave_up(outcome const& rank, int culprit, double limit) {
  INFO("after " << rank.seconds << " s: " << rank.text);
  CHECK(rank.how == ending::gave_up);
  CHECK(rank.peer == culprit);
  CHECK(rank.seconds < limit);
  CHECK(rank.clean_exit);
}

bool says(outcome const& rank, std::string const& part) {
  return std::string(rank.text).find(part) != std::string::npos;
}

/// Sends around the ring until a fault; long enough for any fault, not forever.
void go_around(member& self, options const& how, std::size_t bytes) {
  transport ring(self.rank, self.size, self.exchange(), how);
  auto const out = pattern(bytes, 1);
  std::vector<std::byte> in(bytes);
  for (double const start = now(); now() - start < hang_seconds; self.step())
    shift(ring, 1, out, in);
}

}  // namespace

TEST_CASE("ucx fault: a rank killed while another only waits for its message") {
  auto const ranks = run_ranks(
      2,
      [](member& self) {
        transport t(self.rank, self.size, self.exchange(), long_timeout);
        std::vector<std::byte> out(8), in(8);
        shift(t, 1, out, in);
        self.step();
        if (self.rank == 1) usleep(useconds_t(hang_seconds) * 1'000'000);
        auto coming = t.irecv(1, 2, in);
        t.wait(coming);
      },
      [](director& fate) {
        fate.await_steps(0, 1);
        fate.await_steps(1, 1);
        usleep(50'000);
        fate.lose(1, SIGKILL);
      });
  check_gave_up(ranks[0], 1, noticed_seconds);
  CHECK(says(ranks[0], "ucx: receive of up to 8 bytes from rank 1 (tag 2): rank 1 failed: "));
}

TEST_CASE("ucx fault: a rank killed in the middle of a long message, receiving or sending it") {
  for (int dead : {0, 1}) {
    CAPTURE(dead);
    auto const ranks = run_ranks(
        2,
        [](member& self) {
          transport t(self.rank, self.size, self.exchange(), long_timeout);
          std::vector<std::byte> long_message(std::size_t{256} << 20);
          std::vector<std::byte> out(8), in(8);
          shift(t, 1, out, in);
          self.step();
          for (;;) {  // the signal always arrives in the middle of a message
            auto it = self.rank == 0 ? t.isend(1, 2, long_message) : t.irecv(0, 2, long_message);
            t.wait(it);
          }
        },
        [&](director& fate) {
          fate.await_steps(0, 1);
          fate.await_steps(1, 1);
          usleep(30'000);
          fate.lose(dead, SIGKILL);
        });
    check_gave_up(ranks[std::size_t(1 - dead)], dead, noticed_seconds);
    CHECK(says(ranks[std::size_t(1 - dead)], "268435456 bytes"));
  }
}

TEST_CASE("ucx fault: no rank waits for the rest of a message from a killed rank") {
  // UCX never completes such a receive. A wait for it would take a second in every turn; a busy
  // machine takes that long now and then.
  double least = hang_seconds;
  for (int turn = 0; turn < 4 && least >= 0.8; ++turn) {
    auto const ranks = run_ranks(
        2,
        [](member& self) {
          transport t(self.rank, self.size, self.exchange(), long_timeout);
          // too short for the rendezvous protocol, together more than the sockets' buffers hold
          std::vector<std::vector<std::byte>> messages(8, std::vector<std::byte>(7 << 20));
          std::vector<transport::request> under_way;
          for (auto& message : messages)
            under_way.push_back(self.rank == 0 ? t.isend(1, 2, message) : t.irecv(0, 2, message));
          double const start = now();
          for (int step = 0; now() - start < hang_seconds; usleep(1000), ++step) {
            // the receiver takes only a little from the sockets' buffers before the peer is killed
            if (self.rank == 0 || step < 50 || self.may_go()) t.test(under_way.back());
            self.step();
          }
        },
        [](director& fate) {
          fate.await_steps(0, 100);
          fate.await_steps(1, 100);
          fate.lose(0, SIGKILL);
          fate.let_go();
        });
    check_gave_up(ranks[1], 0, noticed_seconds);
    least = std::min(least, ranks[1].seconds);
  }
  CHECK(least < 0.8);
}

TEST_CASE("ucx fault: a rank killed before any message to it") {
  for (bool receive : {false, true}) {
    CAPTURE(receive);
    auto const ranks = run_ranks(
        2,
        [&](member& self) {
          transport t(self.rank, self.size, self.exchange(), long_timeout);
          self.step();
          if (self.rank == 1) usleep(useconds_t(hang_seconds) * 1'000'000);
          usleep(200'000);
          std::vector<std::byte> bytes(std::size_t{1} << 20);
          auto it = receive ? t.irecv(1, 1, bytes) : t.isend(1, 1, bytes);
          t.wait(it);
        },
        [](director& fate) {
          fate.await_steps(0, 1);
          fate.await_steps(1, 1);
          fate.lose(1, SIGKILL);
        });
    check_gave_up(ranks[0], 1, noticed_seconds);
  }
}

TEST_CASE("ucx fault: a rank of a ring killed; every survivor names it") {
  for (int size : {3, 4, 6})
    for (std::size_t bytes : {std::size_t{64}, std::size_t{3'000'000}}) {
      CAPTURE(size);
      CAPTURE(bytes);
      auto const ranks = run_ranks(
          size, [&](member& self) { go_around(self, long_timeout, bytes); },
          [](director& fate) {
            fate.await_steps(2, 10);
            fate.lose(2, SIGKILL);
          });
      for (int rank = 0; rank < size; ++rank)
        if (rank != 2) check_gave_up(ranks[std::size_t(rank)], 2, noticed_seconds);
    }
}

TEST_CASE("ucx fault: a rank stopped, which UCX does not detect; the timeout ends the wait") {
  for (std::size_t bytes : {std::size_t{64}, std::size_t{3'000'000}}) {
    CAPTURE(bytes);
    auto const ranks = run_ranks(
        2, [&](member& self) { go_around(self, short_timeout, bytes); },
        [](director& fate) {
          fate.await_steps(1, 10);
          fate.lose(1, SIGSTOP);
        });
    check_gave_up(ranks[0], 1, allowed_seconds);
    CHECK(ranks[0].seconds >= 1.5);
    CHECK(says(ranks[0], "no answer from rank 1 within 2000 ms"));
    CHECK(says(ranks[0], std::to_string(bytes) + " bytes"));
  }
}

TEST_CASE("ucx fault: a rank of a ring stopped; every survivor names it") {
  auto const ranks = run_ranks(
      5, [](member& self) { go_around(self, short_timeout, 1000); },
      [](director& fate) {
        fate.await_steps(3, 10);
        fate.lose(3, SIGSTOP);
      });
  for (int rank : {0, 1, 2, 4}) check_gave_up(ranks[std::size_t(rank)], 3, allowed_seconds);
}

TEST_CASE("ucx fault: ranks that waited for each other name the stopped rank, not each other") {
  // Rank 2 gives up first, and blames rank 1. Rank 0 hears of it and blames rank 1, too, which
  // waits for rank 0 and blames it: none of them names rank 3.
  auto const ranks = run_ranks(
      4,
      [](member& self) {
        transport t(self.rank, self.size, self.exchange(),
                    self.rank == 2 ? short_timeout : long_timeout);
        std::vector<std::byte> out(8), in(8);
        shift(t, 1, out, in);
        self.step();
        int const awaited[] = {3, 0, 1, 2};
        auto coming = t.irecv(awaited[self.rank], 2, in);
        while (!self.may_go()) usleep(100);
        t.wait(coming);
      },
      [](director& fate) {
        for (int rank = 0; rank < 4; ++rank) fate.await_steps(rank, 1);
        fate.lose(3, SIGSTOP);
        fate.let_go();
      });
  for (int rank : {0, 1, 2}) {
    check_gave_up(ranks[std::size_t(rank)], 3, allowed_seconds);
    CHECK(says(ranks[std::size_t(rank)], "rank 3 "));
  }
}

TEST_CASE("ucx: ranks that are all stopped for longer than the timeout go on") {
  auto const ranks = run_ranks(
      3,
      [](member& self) {
        transport ring(self.rank, self.size, self.exchange(), short_timeout);
        std::vector<std::byte> out(1000), in(1000);
        for (int left = 0;; self.step()) {  // turns that are left; 0: not known yet
          if (left == 0 && self.rank == 0 && self.may_go()) left = self.size;
          out[0] = std::byte(left);
          shift(ring, 1, out, in);
          if (left == 1) break;
          left = std::max(left, int(in[0])) - (left > 0 || in[0] > std::byte{0});
        }
      },
      [](director& fate) {
        fate.await_steps(0, 10);
        for (int const signal : {SIGSTOP, SIGCONT}) {
          for (int rank : {0, 1, 2}) kill(fate.id(rank), signal);
          if (signal == SIGSTOP) usleep(4'000'000);
        }
        fate.let_go();
      });
  for (auto const& rank : ranks) {
    INFO(rank.text);
    CHECK(rank.how == ending::finished);
    CHECK(rank.clean_exit);
  }
}

TEST_CASE("ucx fault: without keepalive the timeout still ends the wait") {
  for (char const* transports : {"tcp,self", "posix,sysv,self"}) {
    CAPTURE(transports);
    auto const ranks = run_ranks(
        3,
        [&](member& self) {
          setenv("HCOMP_UCX_TLS", transports, 1);
          options how = short_timeout;
          how.failures = peer_failure::ignore;
          go_around(self, how, 1000);
        },
        [](director& fate) {
          fate.await_steps(1, 10);
          fate.lose(1, SIGKILL);
        });
    check_gave_up(ranks[0], 1, allowed_seconds);
    check_gave_up(ranks[2], 1, allowed_seconds);
  }
}

TEST_CASE("ucx fault: a rank killed while the others are in their destructors") {
  auto const ranks = run_ranks(
      4,
      [](member& self) {
        transport ring(self.rank, self.size, self.exchange(), long_timeout);
        std::vector<std::byte> out(1000), in(1000);
        shift(ring, 1, out, in);
        self.step();
        if (self.rank == 1) usleep(useconds_t(hang_seconds) * 1'000'000);
      },
      [](director& fate) {
        for (int rank = 0; rank < 4; ++rank) fate.await_steps(rank, 1);
        usleep(100'000);
        fate.lose(1, SIGKILL);
      });
  for (int rank : {0, 2, 3}) {
    auto const& it = ranks[std::size_t(rank)];
    INFO(it.text);
    CHECK(it.how == ending::finished);
    CHECK(it.clean_exit);
    CHECK(it.seconds < noticed_seconds);
  }
}

TEST_CASE("ucx fault: a rank that was busy while other ranks gave up names the dead rank") {
  for (bool receive : {false, true})
    for (std::size_t bytes : {std::size_t{64}, std::size_t{3'000'000}}) {
      CAPTURE(receive);
      CAPTURE(bytes);
      auto const ranks = run_ranks(
          3,
          [&](member& self) {
            transport t(self.rank, self.size, self.exchange(), long_timeout);
            std::vector<std::byte> out(bytes), in(bytes);
            shift(t, 1, out, in);
            self.step();
            if (self.rank == 2) usleep(useconds_t(hang_seconds) * 1'000'000);
            if (self.rank == 0) usleep(2'000'000);
            // A send that the network accepts may still fail; the next one finds the connection
            // closed.
            for (int k = 0; k < 3 && self.rank == 0 && !receive; ++k, usleep(5'000))
              t.isend(1, 2, out);
            auto it = t.irecv(self.rank == 0 ? 1 : 2, 3, in);
            t.wait(it);
          },
          [](director& fate) {
            for (int rank = 0; rank < 3; ++rank) fate.await_steps(rank, 1);
            usleep(50'000);
            fate.lose(2, SIGKILL);
          });
      check_gave_up(ranks[0], 2, noticed_seconds);
      check_gave_up(ranks[1], 2, noticed_seconds);
    }
}

TEST_CASE("ucx fault: ranks wait, within the timeout, for one that is late after the exchange") {
  for (bool too_late : {false, true}) {
    CAPTURE(too_late);
    auto const ranks = run_ranks(4, [&](member& self) {
      transport t(
          self.rank, self.size,
          [&](std::span<std::byte const> mine) {
            auto all = self.exchange()(mine);
            if (self.rank == 1) usleep(too_late ? 5'000'000 : 700'000);
            return all;
          },
          short_timeout);
    });
    for (int rank : {0, 2, 3})
      if (too_late) {
        check_gave_up(ranks[std::size_t(rank)], 1, allowed_seconds);
        CHECK(says(ranks[std::size_t(rank)], "ucx: connecting to rank "));
      } else {
        INFO(ranks[std::size_t(rank)].text);
        CHECK(ranks[std::size_t(rank)].how == ending::finished);
      }
    CHECK(ranks[1].how == (too_late ? ending::gave_up : ending::finished));
    CHECK(ranks[1].clean_exit);
    CHECK(ranks[1].seconds < 5 + allowed_seconds);
  }
}

TEST_CASE("ucx fault: a rank killed while many exchanges are pending; each of them names it") {
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    CAPTURE(mode == progress_mode::thread);
    auto const ranks = run_ranks(
        4,
        [&](member& self) {
          transport ring(self.rank, self.size, self.exchange(), long_timeout);
          concurrent_transport over(ring, mode);
          int const next = (self.rank + 1) % self.size,
                    before = (self.rank + self.size - 1) % self.size;
          std::vector<hcomp::request<void>> all;
          for (int i = 0; i < 8; ++i)
            all.push_back(over.start([&, bytes = std::size_t{1} << (2 * i)] {
              auto const out = pattern(bytes, 1);
              std::vector<std::byte> in(bytes);
              for (double const start = now(); now() - start < hang_seconds; self.step()) {
                auto coming = over.irecv(before, 0, in);
                auto going = over.isend(next, 0, out);
                over.wait(coming);
                over.wait(going);
              }
            }));
          for (std::size_t i = 1; i < all.size(); ++i) try {
              all[i].wait();
              must(false, "it ends by an error");
            } catch (transport_error const& error) {
              must(error.peer() == 2, "that names rank 2");
            }
          all[0].wait();
        },
        [](director& fate) {
          fate.await_steps(0, 100);
          fate.lose(2, SIGKILL);
        });
    for (std::size_t rank : {0, 1, 3}) check_gave_up(ranks[rank], 2, noticed_seconds);
  }
}

TEST_CASE(
    "ucx fault: a rank killed while many hierarchical all-reduces are pending; all of them end") {
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    CAPTURE(mode == progress_mode::thread);
    auto const ranks = run_ranks(
        4,
        [&](member& self) {
          transport inner(self.rank, self.size, self.exchange(), long_timeout);
          concurrent_transport over(inner, mode);
          host_executor executor;
          std::vector<any_plan<float>> plans;
          over.start([&] {
                for (int i = 0; i < 4; ++i)
                  plans.push_back(node::make_plan<float>("identity", 5000, over, executor,
                                                         {.algorithm = {.hierarchical = true}},
                                                         {0, 0, 1, 1}));
              })
              .wait();
          std::vector<hcomp::request<void>> all;
          for (auto& plan : plans)
            all.push_back(over.start([&] {
              std::vector<float> x(5000);
              for (double const start = now(); now() - start < hang_seconds; self.step())
                plan.all_reduce(x);
            }));
          for (auto& sum : all) try {
              sum.wait();
              must(false, "it ends by an error");
            } catch (transport_error const& error) {
              must(error.peer() == 2, "that names rank 2");
              // of a rank that learned of the failure from another rank
            } catch (wire_error const& error) {
              must(std::string(error.what()).find("rank 2") != std::string::npos, error.what());
            }
        },
        [](director& fate) {
          fate.await_steps(0, 100);
          fate.lose(2, SIGKILL);
        });
    for (std::size_t rank : {0, 1, 3}) {
      INFO("rank " << rank << " after " << ranks[rank].seconds << " s: " << ranks[rank].text);
      CHECK(ranks[rank].how == ending::finished);
      CHECK(ranks[rank].clean_exit);
      CHECK(ranks[rank].seconds < noticed_seconds);
    }
  }
}

TEST_CASE(
    "ucx fault: a rank that sends too much; all ranks name it, even those that wait for another") {
  auto const ranks = run_ranks(4, [](member& self) {
    transport t(self.rank, self.size, self.exchange(), long_timeout);
    std::vector<std::byte> out(self.rank == 1 ? 16 : 8), in(8);
    for (tag_t round = 1; round < 10'000; ++round) shift(t, round, out, in);
  });
  for (auto const& rank : ranks) check_gave_up(rank, 1, allowed_seconds);
  CHECK(says(ranks[2], "rank 1 sent more"));
  CHECK(says(ranks[1], " gave up on this rank"));
}

TEST_CASE("ucx fault: a rank that revokes ends every wait at once, with its text") {
  for (bool pending : {false, true}) {  // does the rank have an operation pending itself?
    CAPTURE(pending);
    auto const ranks = run_ranks(6, [&](member& self) {
      transport t(self.rank, self.size, self.exchange(), long_timeout);
      std::vector<std::byte> in(8);
      if (self.rank == 4) {
        usleep(50'000);
        if (pending) t.irecv(5, 1, in);
        t.revoke("block 7 is damaged");
      }
      auto coming = t.irecv((self.rank + 1) % 6, 1, in);  // one of the ranks waits for rank 4
      t.wait(coming);
    });
    for (auto const& rank : ranks) {
      INFO("after " << rank.seconds << " s: " << rank.text);
      CHECK(rank.how == ending::other_exception);
      CHECK(says(rank, "block 7 is damaged"));
      CHECK(rank.seconds < allowed_seconds);
      CHECK(rank.clean_exit);
    }
  }
}

TEST_CASE("ucx fault: a rank of a ring killed, when no rank has a connection to all ranks") {
  auto const ranks = run_ranks(
      7, [&](member& self) { go_around(self, long_timeout, 64); },
      [](director& fate) {
        fate.await_steps(3, 1);
        fate.lose(3, SIGKILL);
      });
  for (int rank : {0, 1, 2, 4, 5, 6}) {
    check_gave_up(ranks[std::size_t(rank)], 3, noticed_seconds);
    // timeouts do not add up, nor does a pause per rank
    CHECK(ranks[std::size_t(rank)].seconds < 5);
  }
}

TEST_CASE(
    "ucx fault: after a failure every call repeats it, and completed requests stay complete") {
  auto const ranks = run_ranks(
      2,
      [](member& self) {
        transport t(self.rank, self.size, self.exchange(), long_timeout);
        std::vector<std::byte> out(8), in(8);
        shift(t, 1, out, in);
        self.step();
        if (self.rank == 1) usleep(useconds_t(hang_seconds) * 1'000'000);
        auto through = t.isend(1, 1, out);
        t.wait(through);
        auto first = t.irecv(1, 2, in), second = t.irecv(1, 3, in);
        std::string text;
        auto const fails = [&](auto call) {
          try {
            call();
          } catch (transport_error const& error) {
            must(error.peer() == 1, "rank 1 named");
            must(text.empty() || text == error.what(), "the same text");
            text = error.what();
            return true;
          }
          return false;
        };
        must(fails([&] { t.wait(first); }), "the first wait fails");
        must(fails([&] { t.wait(second); }), "so does the second");
        must(fails([&] { t.isend(1, 1, out); }), "and a new send");
        must(fails([&] { t.irecv(1, 1, in); }), "and a new receive");
        must(t.wait(through) == 8, "what was through");
      },
      [](director& fate) {
        fate.await_steps(0, 1);
        fate.await_steps(1, 1);
        usleep(50'000);
        fate.lose(1, SIGKILL);
      });
  INFO(ranks[0].text);
  CHECK(ranks[0].how == ending::finished);
  CHECK(ranks[0].clean_exit);
}
