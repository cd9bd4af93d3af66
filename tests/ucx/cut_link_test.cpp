// part: full
// run: single
// beside: nothing
// main: own
// timeout: 240
//
// A cable between a host and the switch is pulled: each rank lives in a network namespace of its
// own, and nobody says goodbye. Needs the right to make network namespaces; without it the test
// says so and counts as skipped.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <hcomp/ucx/transport.hpp>
#include <string>
#include <vector>

#include "campaign.hpp"
#include "network.hpp"
#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;
using namespace std::chrono_literals;

namespace {

options const short_timeout{.timeout = 2s};
/// timeout 2 s, half a second for answers, the rest for a busy machine
double const allowed_seconds = 8;

/// A rank that has ended has no cable any more.
void cut(director& fate, int rank) {
  fate.mark_fault();
  fate.expect(pull_cable(fate.id(rank)) || fate.has_ended(rank), "a cable that can be pulled");
}

void check_gave_up(outcome const& rank, int culprit) {
  INFO("after " << rank.seconds << " s: " << rank.text);
  CHECK(rank.how == ending::gave_up);
  CHECK(rank.peer == culprit);
  CHECK(rank.seconds < allowed_seconds);
  CHECK(rank.clean_exit);
}

}  // namespace

TEST_CASE("ucx fault: a link cut; both sides give up within the timeout") {
  for (std::size_t bytes : {std::size_t{64}, std::size_t{4'000'000}}) {
    CAPTURE(bytes);
    lan const joined = next_lan();
    auto const ranks = run_ranks(
        2,
        [&](member& self) {
          plug_in(self, joined);
          transport ring(self.rank, self.size, self.exchange(), short_timeout);
          auto const out = pattern(bytes, 1);
          std::vector<std::byte> in(bytes);
          for (double const start = now(); now() - start < hang_seconds; self.step())
            shift(ring, 1, out, in);
        },
        [](director& fate) {
          fate.await_steps(1, 10);
          cut(fate, 1);
        });
    for (int rank : {0, 1}) check_gave_up(ranks[std::size_t(rank)], 1 - rank);
  }
}

TEST_CASE("ucx fault: a link cut before the constructor connects; it ends within the timeout") {
  // Without earlier packets between the ranks, the kernel reports a rank as unreachable, and later.
  for (bool neighbours : {true, false}) {
    CAPTURE(neighbours);
    lan const joined = next_lan();
    auto const ranks = run_ranks(
        4,
        [&](member& self) {
          plug_in(self, joined);
          if (neighbours) {
            for (int other = 0; other < self.size; ++other)
              must(other == self.rank || meet_neighbour(joined, other),
                   "an answer of rank " + std::to_string(other));
          }
          self.meet();  // the director cuts the cable
          while (!self.may_go()) usleep(100);
          transport t(self.rank, self.size, self.exchange(), short_timeout);
        },
        [](director& fate) {
          fate.await_meetings(2);
          cut(fate, 2);
          fate.let_go();
        });
    for (int rank : {0, 1, 3}) check_gave_up(ranks[std::size_t(rank)], 2);
    CHECK(ranks[2].how == ending::gave_up);  // it names the rank that it waits for
    CHECK(ranks[2].seconds < allowed_seconds);
    CHECK(ranks[2].clean_exit);
  }
}

TEST_CASE("ucx campaign: a link cut at any moment; every survivor names the rank behind it") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 12),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  tally all;
  for (unsigned k = 0; k < trials; ++k) {
    trial const it(seed + k);
    lan const joined = next_lan();
    auto const ranks = run_ranks(
        it.size,
        [&](member& self) {
          plug_in(self, joined);
          it.run(self, short_timeout);
        },
        [&](director& fate) {
          it.await(fate, /*before=*/1);
          cut(fate, it.victim);
        });
    all.add(it, ranks, allowed_seconds);
    INFO(it.text() << "; the lost rank: " << ranks[std::size_t(it.victim)].text);
    CHECK(ranks[std::size_t(it.victim)].clean_exit);
    CHECK(ranks[std::size_t(it.victim)].seconds < allowed_seconds);
  }
  all.print();
}

int main(int argc, char** argv) {
  if (!may_make_networks()) {
    std::printf("Skipped: this process may not make network namespaces, veth pairs and bridges\n");
    return 77;
  }
  if (!become_switch()) {
    std::printf("a bridge in a network namespace of its own failed\n");
    return 1;
  }
  return doctest::Context(argc, argv).run();
}
