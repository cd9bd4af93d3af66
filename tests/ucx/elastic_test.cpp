// run: single
// timeout: 240
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/elastic/group.hpp>
#include <hcomp/elastic/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <support/scratch_directory.hpp>
#include <utility>
#include <vector>

#include "campaign.hpp"
#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;
using hcomp::testing::scratch_directory;
using namespace std::chrono_literals;

namespace {

void check_all_finished(std::vector<outcome> const& ranks) {
  for (auto const& one : ranks) {
    INFO(one.text);
    CHECK(one.how == ending::finished);
  }
}

constexpr int most_steps = 400;
/// Results of the ranks, in shared memory.
struct ledger {
  std::atomic<int> finished[max_ranks];
  std::atomic<std::uint64_t> who[max_ranks][most_steps];  ///< one bit for each summand
  std::atomic<double> when[max_ranks][most_steps];
  std::atomic<int> fetched;  ///< results received from another rank
  std::atomic<double> fault_at;
  std::atomic<bool> is_sharing;

  static ledger& create() {
    void* const memory =
        mmap(nullptr, sizeof(ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "memory can be shared");
    return *new (memory) ledger{};
  }
};

void must_be_all(std::span<float const> x, float value, std::string const& what) {
  must(std::ranges::all_of(x, [&](float one) { return one == value; }), what);
}

elastic::group::settings const how{.transport = {.timeout = 20s}, .meeting_timeout = 20s};

/// The sum of 2^name over the ranks is exact, and identifies the summands.
void sum_on(member& self, std::filesystem::path const& path, ledger& seen, std::size_t values,
            int steps) {
  elastic::directory_store store(path);
  elastic::group group(store, self.rank, self.size, how);
  host_executor executor;
  elastic::plan<float> sum("identity", values, group, executor);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> x(values, static_cast<float>(1u << self.rank));
    auto const report = sum.all_reduce(x);
    must_be_all(x, x[0], "all values of a sum are of the same ranks");
    auto const ranks = static_cast<std::uint64_t>(x[0]);
    must(report.weight == static_cast<std::uint64_t>(__builtin_popcountll(ranks)),
         "the weight is the number of summands");
    seen.who[self.rank][step] = ranks;
    seen.when[self.rank][step] = now();
    seen.finished[self.rank] = step + 1;
    if (report.bytes_sent == 0 && group.size() > 1) ++seen.fetched;
    self.step();
  }
  group.close();
}

}  // namespace

TEST_CASE("elastic: a result that only some ranks have is sent to the other ranks") {
  scratch_directory const place;
  auto const ranks = run_ranks(4, [&](member& self) {
    elastic::directory_store store(place.path());
    elastic::group group(store, self.rank, self.size, how);
    bool const has_it = self.rank == 1 || self.rank == 2;
    std::vector<std::byte> mine = pattern(100'000, 7), work(5);
    if (has_it) group.finish_call(mine, 4);
    std::uint64_t weight = 0;
    bool const was_behind = group.recover(work, weight);
    must(was_behind != has_it, "those who have it get nothing");
    if (was_behind) {
      must(work == pattern(100'000, 7), "the result is the same");
      must(weight == 4, "and its weight");
      group.finish_call(work, weight);
    }
    must(group.generation() == 1 && group.size() == 4, "nobody is lost");
    must(!group.recover(work, weight), "then all have it");
    group.close();
  });
  for (auto const& one : ranks) {
    INFO(one.text);
    CHECK(one.how == ending::finished);
    CHECK(one.clean_exit);
  }
}

namespace {

/// A plan that detects a failed rank in its first call, on one rank, before it fails for another
/// reason.
class plan_that_hears_of_a_loss {
 public:
  using value_type = float;
  template <class T>
  plan_that_hears_of_a_loss(T& over, host_executor& executor, bool& hears)
      : plan_(make_plan<float>("thc:bits=4", 1000, over, executor)), hears_(&hears) {}

  std::size_t values() const { return plan_.values(); }
  value_range shard() const { return plan_.shard(); }
  std::size_t shard_alignment() const { return plan_.shard_alignment(); }
  template <class... Arguments> report all_reduce(Arguments&&... arguments) try {
    return plan_.all_reduce(arguments...);
  } catch (nonfinite_error const&) {
    if (std::exchange(*hears_, false)) throw transport_error(2, "rank 2 is lost");
    throw;
  }
  template <class... Arguments> report reduce_scatter(Arguments&&... arguments) {
    return plan_.reduce_scatter(arguments...);
  }
  report all_gather(std::span<float> x, call_options const& call) {
    return plan_.all_gather(x, call);
  }

 private:
  any_plan<float> plan_;
  bool* hears_;
};

}  // namespace

TEST_CASE("elastic: an error of all ranks also reaches ranks that detect a failed rank first") {
  scratch_directory const place;
  auto const ranks = run_ranks(3, [&](member& self) {
    elastic::directory_store store(place.path());
    elastic::group group(store, self.rank, self.size, how);
    host_executor executor;
    bool hears = self.rank == 1;
    elastic::plan<float> sum(1000, group, [&](any_transport& over) {
      return any_plan<float>(
          "thc:bits=4", detail::kept_transport(over),
          std::make_unique<detail::some_plan<plan_that_hears_of_a_loss>>(over, executor, hears));
    });
    std::vector<float> x(1000, 1);
    x[7] = self.rank == 0 ? std::numeric_limits<float>::infinity() : 1;
    try {
      sum.all_reduce(x);
      must(false, "infinity is refused");
    } catch (nonfinite_error const& error) {
      must(std::string(error.what()).find("infinity") != std::string::npos, error.what());
    }
    must(!hears && x[0] == 1, "x is as it was");
    std::vector<std::byte> work;
    std::uint64_t weight = 0;
    if (self.rank != 1) must(!group.recover(work, weight), "these have the result");
    must(group.calls() == 1 && group.generation() == 1, "it counts as a call on all");
    x[7] = 1;
    must(sum.all_reduce(x).weight == 3, "and the next one is right");
    group.close();
  });
  check_all_finished(ranks);
}

TEST_CASE("elastic: survivors keep their residuals") {
  // Rank 2 ends after five steps. With error feedback, the mean of many results of the same vector
  // approaches the exact mean of the survivors. It would not if a residual were missing or counted
  // twice.
  scratch_directory const place;
  auto const ranks = run_ranks(
      3,
      [&](member& self) {
        elastic::directory_store store(place.path());
        elastic::group group(store, self.rank, self.size, how);
        host_executor executor;
        constexpr std::size_t values = 4096;
        elastic::plan<float> sum("thc:bits=2", values, group, executor);
        error_feedback<float> feedback(values);
        std::vector<double> total(values);
        std::vector<float> mine(values);
        std::mt19937 draw(static_cast<unsigned>(self.rank) + 1);
        for (float& one : mine) one = static_cast<float>(draw() % 2001) / 1000 - 1;
        constexpr int before = 5, after = 60;
        for (int step = 0; step < before + after; ++step) {
          if (self.rank == 2 && step == before) {
            self.step();
            for (;;) pause();
          }
          auto x = mine;
          auto const report = sum.all_reduce(x, feedback, {.op = reduce_op::mean});
          must(report.weight == (step < before ? 3u : 2u), "it is known how many were summed");
          if (step == before - 1) std::fill(total.begin(), total.end(), 0);
          if (step >= before)
            for (std::size_t i = 0; i < values; ++i) total[i] += static_cast<double>(x[i]) / after;
        }
        std::vector<float> exact(values), other(values);
        std::mt19937 draws[2] = {std::mt19937(1), std::mt19937(2)};
        double error = 0, norm = 0;
        for (std::size_t i = 0; i < values; ++i) {
          double sum_of_two = 0;
          for (auto& one : draws) sum_of_two += static_cast<double>(one() % 2001) / 1000 - 1;
          error += (total[i] - sum_of_two / 2) * (total[i] - sum_of_two / 2);
          norm += sum_of_two * sum_of_two / 4;
        }
        // One result with 2 bits is off by about 0.5. The total over T steps is off by one
        // residual, plus the rounding of each answer.
        must(error < 0.05 * 0.05 * norm,
             "the mean of many sums is near the exact one, off by " + std::to_string(error / norm));
        group.close();
      },
      [](director& fate) {
        fate.await_steps(2, 1);
        fate.lose(2, SIGKILL);
      });
  for (int rank : {0, 1}) {
    INFO(ranks[std::size_t(rank)].text);
    CHECK(ranks[std::size_t(rank)].how == ending::finished);
  }
}

TEST_CASE("elastic: a rank that joins too late is left out and gets an error") {
  scratch_directory const place;
  auto const ranks = run_ranks(
      3,
      [&](member& self) {
        elastic::directory_store store(place.path());
        elastic::group group(store, self.rank, self.size,
                             {.transport = {.timeout = 2s}, .meeting_timeout = 1s});
        host_executor executor;
        elastic::plan<float> sum("identity", 1000, group, executor);
        std::vector<float> x(1000, 1);
        sum.all_reduce(x);
        if (self.rank == 1)
          while (!self.may_go()) usleep(1000);
        sum.all_reduce(x);
        must(x[0] == 6, "the second sum is of two");
        self.step();
        group.close();
      },
      [](director& fate) {
        fate.await_steps(0, 1);
        fate.await_steps(2, 1);
        fate.let_go();
      });
  for (int rank : {0, 2}) CHECK(ranks[std::size_t(rank)].how == ending::finished);
  CHECK(ranks[1].how == ending::gave_up);
  INFO(ranks[1].text);
  CHECK(std::string(ranks[1].text).find("the others have gone on without rank 1") !=
        std::string::npos);
}

TEST_CASE("elastic: one member sends its state to all members, which do not know its size") {
  scratch_directory const place;
  auto const ranks = run_ranks(3, [&](member& self) {
    elastic::directory_store store(place.path());
    elastic::group group(store, self.rank, self.size, how);
    bool const has_it = self.rank == 1;
    auto state = has_it ? pattern(1000, 3) : pattern(10, 1);
    if (!has_it) group.forget_state();
    group.share_any(state);
    must(state == pattern(1000, 3), "it is that of rank 1");
    state = pattern(self.rank == 0 ? 20 : 30, 5);
    group.share_any(state);
    must(state == pattern(self.rank == 0 ? 20 : 30, 5), "nobody needs it any more");
    try {
      group.share(state);
      must(false, "states of different sizes are refused");
    } catch (std::invalid_argument const& error) {
      must(std::string(error.what()) == "share: rank 0 has 20 bytes of state, rank 1 30",
           error.what());
    }
    group.forget_state();
    try {
      group.share_any(state);
      must(false, "somebody must have it");
    } catch (std::runtime_error const& error) {
      must(std::string(error.what()).find("no remaining rank") != std::string::npos, error.what());
    }
    group.close();
  });
  check_all_finished(ranks);
}

TEST_CASE("elastic: a rendezvous store from an earlier run is refused") {
  scratch_directory const place;
  elastic::directory_store store(place.path());
  for (bool const is_first : {true, false}) {
    CAPTURE(is_first);
    if (is_first)
      elastic::group(store, 0, 1).close();
    else
      CHECK_THROWS_WITH_AS(elastic::group(store, 0, 1), doctest::Contains("who comes back joins"),
                           std::invalid_argument);
  }
}

TEST_CASE("elastic: a new rank gets the state and takes part, while another rank fails") {
  for (bool const is_lost : {false, true}) {
    CAPTURE(is_lost);
    scratch_directory const place;
    constexpr int steps = 60, first_members = 3;
    auto const ranks = run_ranks(
        4,
        [&](member& self) {
          elastic::directory_store store(place.path());
          bool const is_new = self.rank == first_members;
          std::unique_ptr<elastic::group> group;
          if (is_new) {
            while (!self.may_go()) usleep(1000);
            group = elastic::group::join(store, how);
          } else {
            group = std::make_unique<elastic::group>(store, self.rank, first_members, how);
          }
          host_executor executor;
          elastic::plan<float> sum("identity", 1000, *group, executor);
          struct {
            std::int64_t step = 0;
            float parameters[1000] = {};
          } state;
          auto const bytes = std::as_writable_bytes(std::span(&state, 1));
          if (is_new) group->share(bytes);
          while (state.step < steps) {
            std::vector<float> x(1000, 1);
            sum.all_reduce(x, {.op = reduce_op::mean});
            for (std::size_t i = 0; i < x.size(); ++i) state.parameters[i] += x[i];
            ++state.step;
            self.step();
            usleep(2000);
            if (state.step % 5 == 0 && group->admit()) group->share(bytes);
          }
          must(group->size() == (is_lost ? 3 : 4), "newcomers are in, and the dead are not");
          must_be_all(state.parameters, steps, "every step counts once");
          group->close();
        },
        [&](director& fate) {
          fate.await_steps(0, 3);
          fate.let_go();
          if (!is_lost) return;
          fate.await_steps(0, 12);
          fate.lose(1, SIGKILL);
        });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (is_lost && rank == 1) continue;
      INFO("rank " << rank << ": " << ranks[rank].text);
      CHECK(ranks[rank].how == ending::finished);
    }
  }
}

TEST_CASE("elastic: a new rank joins while members detect a failure in different calls") {
  scratch_directory const place;
  auto const ranks = run_ranks(
      4,
      [&](member& self) {
        elastic::directory_store store(place.path());
        auto state = pattern(100, self.rank == 3 ? 0 : 1);
        if (self.rank == 3) {
          auto const group = elastic::group::join(store, how);
          group->share(state);
          must(state == pattern(100, 1), "the newcomer has the state");
          group->close();
          return;
        }
        elastic::group group(store, self.rank, 3, how);
        self.step();
        if (self.rank == 2)
          for (;;) pause();
        auto const queue = place.path() / "newcomer0";
        while (!std::filesystem::exists(queue)) usleep(1000);
        usleep(100'000);  // and its address
        std::vector<std::byte> result = pattern(1000, 7);
        if (self.rank == 1) {
          group.finish_call(result, 2);  // completes on this rank before it completes on rank 2
        } else {
          std::vector<std::byte> work(1000);
          std::uint64_t weight = 0;
          bool is_lost = false;
          try {
            auto coming = group.transport().irecv(2, 0, work);
            group.transport().wait(coming);
          } catch (transport_error const&) {
            is_lost = true;
          }
          must(is_lost && group.recover(work, weight) && work == result, "rank 1 has the result");
          group.finish_call(work, weight);
        }
        auto const begin = now();
        while (!group.admit()) usleep(1000);
        // If one rank goes to another generation and one does not, they wait for each other for 20
        // s.
        must(now() - begin < 10, "nobody waits for the time limit");
        group.share(state);
        must(group.size() == 3, "the newcomer is in, and the dead is not");
        group.close();
      },
      [](director& fate) {
        for (int const rank : {0, 1, 2}) fate.await_steps(rank, 1);
        fate.lose(2, SIGKILL);
      });
  for (std::size_t rank : {0, 1, 3}) {
    INFO("rank " << rank << ": " << ranks[rank].text);
    CHECK(ranks[rank].how == ending::finished);
  }
}

TEST_CASE("elastic: a join that is not admitted is an error, and one that ends blocks no member") {
  scratch_directory const place;
  auto const ranks = run_ranks(
      3,
      [&](member& self) {
        elastic::directory_store store(place.path());
        if (self.rank == 2) {
          // while the members do not admit
          elastic::group::join(store, {.meeting_timeout = 300ms});
        } else {
          elastic::group group(store, self.rank, 2, how);
          while (!self.may_go()) usleep(1000);
          must(!group.admit(), "who stands in the queue has ended");
          group.close();
        }
      },
      [](director& fate) {
        while (!fate.has_ended(2)) usleep(1000);
        usleep(300'000);
        fate.let_go();
      });
  CHECK(ranks[2].how == ending::gave_up);
  INFO(ranks[2].text);
  CHECK(std::string(ranks[2].text).find("nobody has admitted this newcomer") != std::string::npos);
  for (std::size_t rank : {0, 1}) {
    INFO(ranks[rank].text);
    CHECK(ranks[rank].how == ending::finished);
  }
}

TEST_CASE("elastic campaign: ranks killed at any moment; survivors have the same sums") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 12),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  hcomp::testing::campaign_stats stats;
  for (unsigned k = 0; k < trials; ++k) {
    std::mt19937 draw(seed + k);
    CAPTURE(seed + k);
    int const size = int(3 + draw() % 6), steps = 40;
    int const first = int(draw() % unsigned(size));
    int const second = draw() % 2 ? int(draw() % unsigned(size)) : first;  // equal: one kill
    std::size_t const values = draw() % 3 == 0 ? 300'000 : 1000;
    int const at_step = int(1 + draw() % 20);  // all ranks are connected by then
    unsigned const delay_us = draw() % 3000, between_us = draw() % 3 == 0 ? draw() % 600'000 : 0;
    scratch_directory const place;
    auto& seen = ledger::create();
    auto const ranks = run_ranks(
        size, [&](member& self) { sum_on(self, place.path(), seen, values, steps); },
        [&](director& fate) {
          fate.await_steps(first, at_step);
          usleep(delay_us);
          seen.fault_at = now();
          fate.lose(first, SIGKILL);
          if (second == first) return;
          usleep(between_us);  // during shrinking, if that takes long enough
          fate.lose(second, SIGKILL);
        });
    stats.killed += second == first ? 1 : 2;
    std::uint64_t left = 0;
    for (int rank = 0; rank < size; ++rank)
      if (rank != first && rank != second) left |= std::uint64_t{1} << rank;
    for (int rank = 0; rank < size; ++rank) {
      if ((left >> rank & 1) == 0) continue;
      INFO("rank " << rank << " of " << size << ": " << ranks[std::size_t(rank)].text);
      CHECK(ranks[std::size_t(rank)].how == ending::finished);
      CHECK(seen.finished[rank] == steps);
      std::uint64_t before = (std::uint64_t{1} << size) - 1;
      int const other = __builtin_ctzll(left);
      for (int step = 0; step < seen.finished[rank]; ++step) {
        std::uint64_t const who = seen.who[rank][step];
        REQUIRE(who == seen.who[other][step]);
        REQUIRE((who & left) == left);
        REQUIRE((who & ~before) == 0);  // no rank returns
        before = who;
      }
    }
    double next = 0;  // completion of the first sum after the kill, on the last rank
    for (int rank = 0; rank < size; ++rank) {
      if ((left >> rank & 1) == 0) continue;
      int step = 0;
      while (step < steps && seen.when[rank][step] < seen.fault_at) ++step;
      if (step < steps) next = std::max(next, seen.when[rank][step] - seen.fault_at);
    }
    if (second == first) stats.waits.push_back(next);
    stats.fetched += seen.fetched;
    munmap(&seen, sizeof seen);
  }
  stats.print(trials);
}

TEST_CASE("elastic campaign: new ranks join while ranks are killed") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 12),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  int came = 0;
  for (unsigned k = 0; k < trials; ++k) {
    std::mt19937 draw(seed + k);
    CAPTURE(seed + k);
    int const first_members = int(2 + draw() % 4), newcomers = int(1 + draw() % 2);
    int const all = first_members + newcomers;
    constexpr int steps = 80;
    // The trial kills neither of the last two ranks, so that one survives.
    int const victim = int(draw() % unsigned(all)), at_step = int(1 + draw() % 40);
    int const joining_step = std::max(1, at_step - int(draw() % 20));
    unsigned const delay_us = draw() % 4000;
    // In some trials the victim exits by itself while a new rank receives its state.
    bool const ends_while_sharing = draw() % 2 == 0;
    scratch_directory const place;
    auto& seen = ledger::create();
    auto const ranks = run_ranks(
        all,
        [&](member& self) {
          elastic::directory_store store(place.path());
          std::unique_ptr<elastic::group> group;
          bool const is_new = self.rank >= first_members;
          if (is_new) {
            while (!self.may_go()) usleep(500);
            group = elastic::group::join(store, how);
          } else {
            group = std::make_unique<elastic::group>(store, self.rank, first_members, how);
          }
          host_executor executor;
          elastic::plan<float> sum("identity", 1000, *group, executor);
          std::int64_t step = 0;
          auto const state = std::as_writable_bytes(std::span(&step, 1));
          if (is_new) group->share(state);
          while (step < steps) {
            std::vector<float> x(1000, static_cast<float>(1u << self.rank));
            sum.all_reduce(x);
            must_be_all(x, x[0], "all values of a sum are of the same ranks");
            seen.who[self.rank][step++] = static_cast<std::uint64_t>(x[0]);
            seen.finished[self.rank] = int(step);
            self.step();
            usleep(500);
            if (step % 4 == 0 && group->admit()) {
              if (ends_while_sharing && self.rank == victim) seen.is_sharing = true;
              group->share(state);
            }
          }
          group->close();
        },
        [&](director& fate) {
          int const watched = victim == 0 ? 1 : 0;  // survives
          fate.await_steps(watched, joining_step);
          fate.let_go();
          if (ends_while_sharing)
            for (double const start = now(); !seen.is_sharing && now() - start < 1; sched_yield()) {
            }
          else
            fate.await_steps(watched, at_step);
          usleep(ends_while_sharing ? delay_us / 20 : delay_us);
          fate.lose(victim, SIGKILL);
        });
    int const other = victim == 0 ? 1 : 0;
    for (int rank = 0; rank < all; ++rank) {
      if (rank == victim) continue;
      INFO("rank " << rank << " of " << first_members << " + " << newcomers << ": "
                   << ranks[std::size_t(rank)].text);
      // A rank that joins after the last admission gets an error.
      bool const too_late = rank >= first_members && seen.finished[rank] == 0;
      CHECK(ranks[std::size_t(rank)].how == (too_late ? ending::gave_up : ending::finished));
      came += rank >= first_members && !too_late;
      std::uint64_t const bit = std::uint64_t{1} << rank;
      bool was_in = rank < first_members;
      for (int step = 0; step < seen.finished[rank]; ++step) {
        std::uint64_t const who = seen.who[rank][step];
        if (who == 0) continue;  // before this rank joined
        REQUIRE(who == seen.who[other][step]);
        REQUIRE((who & bit) != 0);
        was_in = true;
      }
      CHECK((was_in || too_late));
    }
    munmap(&seen, sizeof seen);
  }
  std::printf("%u trials, %u ranks killed, %d newcomers\n", trials, trials, came);
  CHECK(came > 0);
}
