// part: full
// run: single
// timeout: 240
#include <doctest/doctest.h>

#include <chrono>

#include "campaign.hpp"
#include "support.hpp"

using namespace hcomp::ucx::testing;
using namespace std::chrono_literals;

TEST_CASE("ucx campaign: a rank killed at any moment; every survivor names it") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 60),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  tally all;
  for (unsigned k = 0; k < trials; ++k) {
    trial const it(seed + k);
    // UCX itself must detect the failure: the timeout must not be the end of a wait.
    all.add(it,
            run_ranks(
                it.size, [&](member& self) { it.run(self, {.timeout = 60s}); },
                [&](director& fate) {
                  it.await(fate, /*before=*/0);
                  fate.lose(it.victim, SIGKILL);
                }),
            /*limit=*/30);
  }
  all.print();
}
