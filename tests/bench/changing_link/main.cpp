/// @file
/// Compares all-reduces by fixed codecs and by an automatic_plan that may choose among them, in
/// turn, on links that change. Prints the times at each rate, and the plan's speed relative to the
/// best codec and to the first.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "../changing_rates.hpp"

namespace {

struct settings {
  std::size_t values = 262'144;
  double seconds = 5;
  std::string rate_file;
  std::vector<std::string> codecs{"identity", "float_cast:fp16", "thc"};
};

using bench::seconds_of, bench::turn;

void print_rates(settings const& o, turn const* from, turn const* const end) {
  std::printf("%-10s %6s", "rate", "turns");
  for (auto const& name : o.codecs) std::printf(" %16s", name.c_str());
  std::printf(" %16s  ms of a sum; turns of what was chosen\n", "automatic");
  while (from != end) {
    auto const* const to = bench::end_of_rate(from, end);
    std::printf("%-10s %6td", from->rate.c_str(), to - from);
    for (std::size_t strategy = 0; strategy <= o.codecs.size(); ++strategy)
      std::printf(" %16.3f", 1e3 * seconds_of(strategy, from, to) / static_cast<double>(to - from));
    std::map<std::string, int> chosen;
    for (; from != to; ++from) ++chosen[from->chosen];
    for (auto const& [name, times] : chosen) std::printf("  %s %d", name.c_str(), times);
    std::printf("\n");
  }
}

void print_verdict(settings const& o, turn const* const from, turn const* const end) {
  std::size_t const automatic = o.codecs.size();
  double best = std::numeric_limits<double>::infinity();
  std::size_t which = 0;
  for (std::size_t strategy = 0; strategy < automatic; ++strategy)
    if (double const seconds = seconds_of(strategy, from, end); seconds < best) {
      best = seconds;
      which = strategy;
    }
  std::printf("as fast as %s, the best codec for all turns: %.3f\n", o.codecs[which].c_str(),
              best / seconds_of(automatic, from, end));
  std::printf("as fast as %s, in the worst %zu turns one after the other: %.3f; %s itself: %.3f\n",
              o.codecs[0].c_str(), bench::window, bench::worst_speed(automatic, 0, from, end),
              o.codecs[which].c_str(), bench::worst_speed(which, 0, from, end));
}

void measure(settings const& o) {
  hcomp::mpi::transport transport(MPI_COMM_WORLD);
  hcomp::host_executor executor;
  std::vector<hcomp::any_plan<float>> plans;
  for (auto const& codec : o.codecs)
    plans.push_back(hcomp::make_plan<float>(codec, o.values, transport, executor));
  hcomp::automatic_plan<float> automatic(o.values, transport, executor,
                                         {.allowed = {.codecs = o.codecs}},
                                         hcomp::registered_codecs<float>());
  auto const turns = bench::take_turns(
      plans.size() + 1, o.values, o.seconds, o.rate_file,
      [&](std::size_t strategy, std::vector<float>& x) {
        strategy < plans.size() ? plans[strategy].all_reduce(x) : automatic.all_reduce(x);
      },
      [&] { return automatic.chosen().codec + " " + automatic.chosen().algorithm.name(); });
  if (transport.rank() != 0) return;
  print_rates(o, turns.data(), turns.data() + turns.size());
  print_verdict(o, turns.data(), turns.data() + turns.size());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("An automatic_plan beside fixed codecs, on links that change.");
  settings o;
  app.add_option("--values", o.values, "floats of a vector")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "about so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--codecs", o.codecs, "to choose among; with the first the plan is compared")
      ->capture_default_str();
  app.add_option("--rate-file", o.rate_file,
                 "in which stands, at any time, how fast the links are");
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  try {
    measure(o);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_changing_link: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
