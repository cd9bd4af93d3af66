#pragma once
/// @file
/// Many faults at random moments, from the first microsecond of the constructor on.
///
/// HCOMP_FAULT_TRIALS sets the number of trials, HCOMP_FAULT_SEED the seed of the first. A failing
/// trial prints its seed; set HCOMP_FAULT_SEED to it and HCOMP_FAULT_TRIALS=1 to repeat the trial.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <hcomp/ucx/transport.hpp>
#include <random>
#include <string>
#include <support/number_in.hpp>
#include <vector>

#include "support.hpp"

namespace hcomp::ucx::testing {

using hcomp::testing::number_in;

/// Parameters of one trial.
struct trial {
  std::uint32_t seed;
  int size, victim;
  std::size_t bytes;
  enum traffic_t { ring, all_to_all, far } traffic;  ///< who sends to whom
  int rounds;         ///< before the transports end; -1: until a fault
  unsigned delay_us;  ///< of the fault, after all ranks have the addresses
  bool destructor;    ///< the delay counts from the end of the rounds

  explicit trial(std::uint32_t from) : seed(from) {
    std::mt19937 draw(seed);
    auto const one_of = [&](auto... values) {
      std::common_type_t<decltype(values)...> const list[] = {values...};
      return list[draw() % sizeof...(values)];
    };
    size = int(2 + draw() % 5);
    victim = int(draw() % unsigned(size));
    bytes = one_of(0u, 64u, 5'000u, 100'000u, 1'000'000u);
    traffic = one_of(ring, all_to_all, far);
    destructor = draw() % 5 == 0;
    rounds = destructor ? int(draw() % 4) : -1;
    delay_us = draw() % one_of(1u, 300u, 3'000u, 20'000u, 60'000u);
  }

  std::string text() const {
    return "seed " + std::to_string(seed) + ": rank " + std::to_string(victim) + " of " +
           std::to_string(size) + " lost " + std::to_string(delay_us) + " us after " +
           (destructor ? std::to_string(rounds) + " rounds of " : "the exchange, rounds of ") +
           std::to_string(bytes) + " bytes, traffic " + std::to_string(int(traffic));
  }

  /// One round, as far as it involves rank `self`.
  void move(transport& t, std::vector<std::byte> const& out, std::vector<std::byte>& in) const {
    for (int distance = 1; distance < size; ++distance) {
      if (traffic == ring && distance > 1) break;
      if (traffic == far && distance != size / 2) continue;
      auto coming = t.irecv((t.rank() + size - distance) % size, 1, in);
      auto going = t.isend((t.rank() + distance) % size, 1, out);
      t.wait(coming);
      t.wait(going);
    }
  }

  /// The body of a rank. The second meeting of all ranks is the end of the rounds.
  void run(member& self, options const& how) const {
    std::vector<std::byte> const out = pattern(bytes, 1);
    std::vector<std::byte> in(bytes);
    transport t(self.rank, self.size, self.exchange_once(), how);
    for (double const start = now(); rounds < 0 && now() - start < hang_seconds;) move(t, out, in);
    for (int round = 0; round < rounds; ++round) move(t, out, in);
    self.meet();
  }

  /// Waits for the moment of the fault. `before` meetings precede the transport's constructor.
  void await(director& fate, int before) const {
    fate.await_meetings(before + (destructor ? 2 : 1));
    if (delay_us > 2'000) usleep(delay_us);
    for (double const start = now(); now() - start < delay_us * 1e-6;) {
    }
  }
};

/// Counts the outcomes of all survivors.
struct tally {
  int trials = 0, named = 0, finished = 0, named_wrong = 0, died = 0, other = 0;
  double slowest = 0;

  /// @param limit  seconds allowed for a survivor
  void add(trial const& it, std::vector<outcome> const& ranks, double limit) {
    ++trials;
    INFO(it.text());
    for (int rank = 0; rank < it.size; ++rank) {
      if (rank == it.victim) continue;
      auto const& one = ranks[std::size_t(rank)];
      INFO("rank " << rank << " after " << one.seconds << " s: " << one.text);
      CHECK(one.clean_exit);
      CHECK(one.seconds < limit);
      if (one.how == ending::gave_up)
        CHECK(one.peer == it.victim);
      else
        CHECK((it.destructor && one.how == ending::finished));
      (!one.clean_exit               ? died
       : one.how == ending::finished ? finished
       : one.how != ending::gave_up  ? other
       : one.peer == it.victim       ? named
                                     : named_wrong)++;
      slowest = std::max(slowest, one.seconds);
    }
  }

  void print() const {
    std::printf(
        "%d trials: %d survivors name the lost rank, %d finish, %d name another, %d hang or end by "
        "a signal, %d end otherwise; the slowest after %.2f s\n",
        trials, named, finished, named_wrong, died, other, slowest);
  }
};

}  // namespace hcomp::ucx::testing
