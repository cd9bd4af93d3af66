#include "faster.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../changing_rates.hpp"

namespace {

using bench::seconds_of, bench::turn;

/// Strategies, each on a communicator of its own. The second one shows the random variation of
/// plain calls.
constexpr std::array names{"plain", "plain again", "always", "faster"};
enum : std::size_t { plain, again, always, faster, strategies };
constexpr std::size_t left_out = 8;  // turns of the first trial

double median_of(std::size_t strategy, turn const* from, turn const* to) {
  std::vector<double> all;
  for (; from != to; ++from) all.push_back(from->seconds[strategy]);
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

void print(turn const* const begin, turn const* const end) {
  double better = 0;
  std::printf("%-10s %6s", "rate", "turns");
  for (auto const* name : names) std::printf(" %12s", name);
  std::printf("  ms of the median sum\n");
  for (auto const* from = begin; from != end;) {
    auto const* const to = bench::end_of_rate(from, end);
    std::printf("%-10s %6td", from->rate.c_str(), to - from);
    for (std::size_t strategy = 0; strategy < strategies; ++strategy)
      std::printf(" %12.3f", 1e3 * median_of(strategy, from, to));
    std::printf("\n");
    better += std::min(seconds_of(plain, from, to), seconds_of(always, from, to));
    from = to;
  }
  std::printf("faster, as fast as the better of plain and always at every rate: %.3f\n",
              better / seconds_of(faster, begin, end));
  for (auto const strategy : {faster, again})
    std::printf("%s, as fast as plain: %.3f, in the worst %zu turns one after the other %.3f\n",
                names[strategy], seconds_of(plain, begin, end) / seconds_of(strategy, begin, end),
                bench::window, bench::worst_speed(strategy, plain, begin, end));
}

[[noreturn]] void end_job(std::string const& why) {
  std::fprintf(stderr, "bench_drop_in faster: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

/// Creates communicators of all ranks, each with its own settings.
std::array<MPI_Comm, strategies> communicators(std::string const& rule) {
  using setter = int(MPI_Comm, char const*);
  using teller = char const*();
  auto* const set = reinterpret_cast<setter*>(dlsym(RTLD_DEFAULT, "hcomp_comm_set"));
  auto* const last_error = reinterpret_cast<teller*>(dlsym(RTLD_DEFAULT, "hcomp_last_error"));
  if (!set || !last_error) end_job("libhcomp_pmpi.so is not preloaded");
  std::array<MPI_Comm, strategies> all;
  std::array<std::string, strategies> const settings{"", "", rule, rule + " when=faster"};
  for (std::size_t strategy = 0; strategy < strategies; ++strategy) {
    MPI_Comm_dup(MPI_COMM_WORLD, &all[strategy]);
    if (set(all[strategy], settings[strategy].c_str()) != 0) end_job(last_error());
  }
  return all;
}

}  // namespace

void measure_faster(faster_options const& o) {
  auto comms = communicators(o.rule);
  auto const turns = bench::take_turns(
      strategies, o.values, o.seconds, o.rate_file,
      [&](std::size_t strategy, std::vector<float>& x) {
        MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                      comms[strategy]);
      },
      [] { return std::string(); });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && turns.size() > left_out)
    print(turns.data() + left_out, turns.data() + turns.size());
  for (auto& comm : comms) MPI_Comm_free(&comm);
}
