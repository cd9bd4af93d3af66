// run: ulfm
// timeout: 240
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hcomp/core/hash.hpp>
#include <hcomp/elastic/mpi_group.hpp>
#include <hcomp/elastic/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/mpi/transport.hpp>
#include <random>
#include <span>
#include <string>
#include <support/number_in.hpp>
#include <vector>

#include "job.hpp"

using namespace hcomp;
using namespace hcomp::mpi::testing;
using hcomp::testing::number_in;

namespace {

// ---- Work of the ranks --------------------------------------------------------------------------

std::uint64_t bits_of(std::span<float const> x) {
  return fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(x.data()), x.size_bytes());
}

/// Sends messages around a ring until a rank fails. MPI detects the failure.
void move_around(ledger& seen, ledger::place& mine) {
  mpi::transport over(MPI_COMM_WORLD);
  int const rank = over.rank(), size = over.size();
  std::vector<std::byte> out(seen.values), in(seen.values);
  for (;; ++mine.steps) {
    auto coming = over.irecv((rank + size - 1) % size, 0, in);
    auto going = over.isend((rank + 1) % size, 0, out);
    over.wait(coming);
    over.wait(going);
  }
}

/// The sum of 2^name over the ranks is exact, and identifies the summands.
void sum_exactly(ledger& seen, ledger::place& mine) {
  elastic::mpi_group group(MPI_COMM_WORLD);
  host_executor executor;
  elastic::plan<float> sum("identity", seen.values, group, executor);
  for (int step = 0; step < seen.steps; ++step) {
    std::vector<float> x(seen.values, static_cast<float>(1u << group.name()));
    auto const report = sum.all_reduce(x);
    must(std::ranges::all_of(x, [&](float one) { return one == x[0]; }),
         "all values of a sum are of the same ranks");
    auto const who = static_cast<std::uint64_t>(x[0]);
    must(report.weight == static_cast<std::uint64_t>(__builtin_popcountll(who)),
         "the weight is the number of summands");
    mine.who[step] = who;
    mine.bits[step] = bits_of(x);
    mine.when[step] = now();
    if (report.bytes_sent == 0 && group.size() > 1) ++mine.fetched;
    ++mine.steps;
  }
  group.close();
}

/// The same with a codec and error feedback; ranks wait inside MPI.
void sum_in_few_bits(ledger& seen, ledger::place& mine) {
  elastic::mpi_group group(MPI_COMM_WORLD, mpi::waiting::block);
  host_executor executor;
  elastic::plan<float> sum("thc:bits=4", seen.values, group, executor);
  error_feedback<float> feedback(seen.values);
  for (int step = 0; step < seen.steps; ++step) {
    std::mt19937 draw(static_cast<unsigned>(step * 100 + group.name()));
    std::vector<float> x(seen.values);
    for (float& one : x) one = static_cast<float>(draw() % 2001) / 1000 - 1;
    auto const report = sum.all_reduce(x, feedback, {.op = reduce_op::mean});
    for (int const name : group.members()) mine.who[step] |= std::uint64_t{1} << name;
    must(report.weight >= group.members().size(), "nobody is left out who is there");
    mine.bits[step] = bits_of(x);
    mine.when[step] = now();
    ++mine.steps;
  }
  group.close();
}

/// A result that only two of four ranks have.
void give_to_others(ledger&, ledger::place&) {
  elastic::mpi_group group(MPI_COMM_WORLD);
  bool const has_it = group.rank() == 1 || group.rank() == 2;
  std::vector<std::byte> mine(100'000, std::byte{7}), work(5);
  auto const right = mine;
  if (has_it) group.finish_call(mine, 4);
  std::uint64_t weight = 0;
  bool const was_behind = group.recover(work, weight);
  must(was_behind != has_it, "those who have it get nothing");
  if (was_behind) {
    must(work == right, "the result is the same");
    must(weight == 4, "and its weight");
    group.finish_call(work, weight);
  }
  must(group.generation() == 1 && group.size() == 4, "nobody is lost");
  group.close();
}

/// Ranks that close wait for a rank that needs another generation, and send it the missing result.
void close_early(ledger&, ledger::place&) {
  elastic::mpi_group group(MPI_COMM_WORLD);
  std::vector<std::byte> mine(1000, std::byte{7}), work;
  auto const right = mine;
  std::uint64_t weight = 0;
  if (group.rank() != 0) {
    group.finish_call(mine, 3);
  } else {
    usleep(200'000);
    must(group.recover(work, weight), "the others have it");
    must(work == right && weight == 3, "and give it");
    group.finish_call(work, weight);
  }
  group.close();
  must(group.generation() == 1 && group.calls() == 1, "all close in the next generation");
}

int be_rank(char const* how, char const* path) {
  MPI_Init(nullptr, nullptr);
  auto& seen = ledger::open(path);
  auto& mine = seen.ranks[mpi::rank_of(MPI_COMM_WORLD)];
  mine.id = ::getpid();
  write_ending(mine, [&] {
    auto const is = [&](char const* name) { return std::strcmp(how, name) == 0; };
    if (is("move_around")) return move_around(seen, mine);
    if (is("sum_exactly")) return sum_exactly(seen, mine);
    if (is("sum_in_few_bits")) return sum_in_few_bits(seen, mine);
    if (is("give_to_others")) return give_to_others(seen, mine);
    if (is("close_early")) return close_early(seen, mine);
    must(false, std::string("something to do, not ") + how);
  });
  MPI_Finalize();
  return 0;
}

// ---- Checks -------------------------------------------------------------------------------------

/// Starts ranks that continue after one of them fails.
std::string launcher() {
  char const* const words = std::getenv("HCOMP_TEST_LAUNCH");
  return words ? words
               : "mpiexec --with-ft ulfm --mca async_mpi_finalize 1 --oversubscribe --bind-to none "
                 "-np";
}

/// All ranks except those in `lost` have ended as `how`, and the job has ended.
void check_endings(job& it, ending how, std::vector<int> const& lost = {}) {
  bool const has_ended = it.end(20);
  INFO(it.output());
  CHECK(has_ended);
  CHECK(it.status == 0);  // sanitizers use other statuses
  for (int rank = 0; rank < it.seen.size; ++rank) {
    if (std::ranges::find(lost, rank) != lost.end()) continue;
    auto const& one = it.seen.ranks[rank];
    INFO("rank " << rank << " of " << it.seen.size << " after " << one.steps.load()
                 << " steps: " << one.text);
    CHECK(static_cast<int>(one.how.load()) == static_cast<int>(how));
  }
}

}  // namespace

TEST_CASE("mpi transport: all ranks identify a failed rank by its number") {
  for (int const victim : {0, 2}) {
    CAPTURE(victim);
    std::size_t const bytes = victim == 0 ? 100 : 300'000;
    job it(4, "move_around", 0, bytes);
    it.start(launcher());
    REQUIRE_MESSAGE(it.await_steps(victim, 20), it.output());
    it.lose(victim);
    check_endings(it, ending::gave_up, {victim});
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      INFO(it.seen.ranks[rank].text);
      CHECK(it.seen.ranks[rank].peer == victim);
      CHECK(std::string(it.seen.ranks[rank].text)
                .find("rank " + std::to_string(victim) + " is lost") != std::string::npos);
    }
  }
}

TEST_CASE("elastic over MPI: a job without fault tolerance gets an error on all ranks") {
  std::string words = launcher();
  auto const at = words.find("--with-ft ulfm");
  REQUIRE(at != std::string::npos);
  words.erase(at, std::strlen("--with-ft ulfm"));
  job it(2, "sum_exactly", 1, 10);
  it.start(words);
  check_endings(it, ending::other_exception);
  for (int rank : {0, 1})
    CHECK(std::string(it.seen.ranks[rank].text).find("mpirun --with-ft ulfm") != std::string::npos);
}

TEST_CASE("elastic over MPI: a result that only some ranks have is sent to the other ranks") {
  for (char const* how : {"give_to_others", "close_early"}) {
    CAPTURE(std::string(how));
    job it(4, how);
    it.start(launcher());
    check_endings(it, ending::finished);
  }
}

TEST_CASE("elastic over MPI campaign: ranks killed at any moment; survivors have the same sums") {
  unsigned const trials = number_in("HCOMP_FAULT_TRIALS", 4),
                 seed = number_in("HCOMP_FAULT_SEED", 1);
  hcomp::testing::campaign_stats stats;
  for (unsigned k = 0; k < trials; ++k) {
    std::mt19937 draw(seed + k);
    CAPTURE(seed + k);
    int const size = int(3 + draw() % 4), steps = 40;
    bool const is_exact = draw() % 3 != 0;
    std::vector<int> lost{int(draw() % unsigned(size))};
    if (int const second = int(draw() % unsigned(size)); draw() % 2 && second != lost[0])
      lost.push_back(second);
    std::size_t const values = draw() % 3 == 0 ? 300'000 : 1000;
    int const at_step = int(1 + draw() % 40);  // includes the last steps and the end
    unsigned const delay_us = draw() % 3000, between_us = draw() % 3 == 0 ? draw() % 100'000 : 0;
    job it(size, is_exact ? "sum_exactly" : "sum_in_few_bits", steps, values);
    it.start(launcher());
    REQUIRE_MESSAGE(it.await_steps(lost[0], at_step), it.output());
    usleep(delay_us);
    for (int const rank : lost) {
      it.lose(rank);
      ++stats.killed;
      usleep(between_us);  // during shrinking, if that takes long enough
    }
    check_endings(it, ending::finished, lost);

    std::uint64_t left = 0;
    for (int rank = 0; rank < size; ++rank)
      if (std::ranges::find(lost, rank) == lost.end()) left |= std::uint64_t{1} << rank;
    auto const& other = it.seen.ranks[__builtin_ctzll(left)];
    double next = 0;  // completion of the first sum after the kill, on the last rank
    for (int rank = 0; rank < size; ++rank) {
      if ((left >> rank & 1) == 0) continue;
      auto const& one = it.seen.ranks[rank];
      CHECK(one.steps == steps);
      std::uint64_t before = (std::uint64_t{1} << size) - 1;
      for (int step = 0; step < one.steps; ++step) {
        std::uint64_t const who = one.who[step];
        REQUIRE(one.bits[step] == other.bits[step]);
        REQUIRE((!is_exact || who == other.who[step]));
        REQUIRE((who & left) == left);
        REQUIRE((who & ~before) == 0);  // no rank returns
        before = who;
      }
      int step = 0;
      while (step < steps && one.when[step] < it.seen.lost_at) ++step;
      if (step < steps) next = std::max(next, one.when[step] - it.seen.lost_at);
      stats.fetched += one.fetched;
    }
    if (lost.size() == 1 && next > 0) stats.waits.push_back(next);
  }
  stats.print(trials);
}

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--rank") == 0) return be_rank(argv[2], argv[3]);
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  return context.run();
}
