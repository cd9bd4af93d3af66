/// @file
/// Exact all-reduces of ranks on one node, compared with the MPI library: in shared memory, by the
/// plan that node::make_plan makes for identity, and by the same plan with messages.
/// Or, on several nodes, hierarchical all-reduces compared with a ring of all ranks. Started by
/// mpirun.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Returns for each function the median over all turns of the slowest rank's milliseconds.
/// @param prepare  called before each call, not timed
std::vector<double> medians(
    std::vector<std::function<void()>> const& calls, int turns,
    std::function<void()> const& prepare = [] {}) {
  std::vector<std::vector<double>> all(calls.size());
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < calls.size(); ++i) {
      prepare();
      MPI_Barrier(MPI_COMM_WORLD);
      auto const begin = std::chrono::steady_clock::now();
      calls[i]();
      double ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
              .count();
      MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      all[i].push_back(ms);
    }
  std::vector<double> found;
  for (auto& times : all) {
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    found.push_back(times[times.size() / 2]);
  }
  return found;
}

void measure(int turns, std::size_t most_bytes) {
  hcomp::mpi::transport transport(MPI_COMM_WORLD);
  auto inside = hcomp::node::collectives::make(transport, 0, std::chrono::seconds(30));
  if (!inside) throw std::runtime_error("the ranks share no memory");
  hcomp::host_executor executor;
  std::vector<float> x(most_bytes / sizeof(float));
  if (transport.rank() == 0)
    std::printf(
        "%d ranks, float, medians of %d turns, ms; beside each: MPI / hcomp\n"
        "%10s %10s %16s %16s %16s %16s\n",
        transport.size(), turns, "bytes", "MPI", "collectives", "plan", "plan, propagate",
        "plan, messages");
  for (std::size_t bytes = 64; bytes <= most_bytes; bytes *= 4) {
    auto const n = bytes / sizeof(float);
    auto const values = std::span(x).first(n);
    auto const plan_with = [&](hcomp::nonfinite_policy policy) {
      return hcomp::node::make_plan<float>("identity", n, transport, executor,
                                           {.nonfinite = policy});
    };
    auto plan = plan_with(hcomp::nonfinite_policy::throw_error);
    auto propagating = plan_with(hcomp::nonfinite_policy::propagate);
    auto by_messages = hcomp::make_plan<float>("identity", n, transport, executor);
    auto const times =
        medians({[&] {
                   MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
                 },
                 [&] { inside->all_reduce(values); }, [&] { plan.all_reduce(values); },
                 [&] { propagating.all_reduce(values); }, [&] { by_messages.all_reduce(values); }},
                bytes < 1 << 20 ? 20 * turns : turns, [&] { std::ranges::fill(values, 1.0f); });
    if (transport.rank() != 0) continue;
    std::printf("%10zu %10.4f", bytes, times[0]);
    for (std::size_t i = 1; i < times.size(); ++i)
      std::printf(" %10.4f %5.2f", times[i], times[0] / times[i]);
    std::printf("\n");
  }
}

void measure_between(int turns, std::size_t bytes, std::string const& codec) {
  hcomp::mpi::transport transport(MPI_COMM_WORLD);
  hcomp::host_executor executor;
  std::size_t const n = bytes / sizeof(float);
  std::vector<float> x(n, 1.0f);
  hcomp::node::hierarchical_plan<float> hierarchical(codec, n, transport, executor);
  auto flat = hcomp::make_plan<float>(codec, n, transport, executor);
  double sent[2] = {};
  hcomp::call_options const mean{.op = hcomp::reduce_op::mean};
  auto const times =
      medians({[&] { sent[0] = static_cast<double>(hierarchical.all_reduce(x, mean).bytes_sent); },
               [&] { sent[1] = static_cast<double>(flat.all_reduce(x, mean).bytes_sent); }},
              turns);
  MPI_Allreduce(MPI_IN_PLACE, sent, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (transport.rank() != 0) return;
  int const nodes = hierarchical.ranks().nodes;
  for (double& one : sent) one /= 1e6 * nodes;
  std::printf("%-12s %10.1f %10.1f %8.2f %12.2f %12.2f %12.2f\n", codec.c_str(), times[0], times[1],
              times[1] / times[0], sent[0], sent[1],
              2e-6 * (nodes - 1) / nodes * static_cast<double>(bytes));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Exact all-reduces of ranks on one host, through shared memory and by MPI.");
  int turns = 11;
  std::size_t most_bytes = std::size_t{64} << 20;
  app.add_option("--turns", turns, "of every size; twenty times as many below 1 MiB")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--bytes", most_bytes, "of the longest vector, the shortest has 64")
      ->check(CLI::Range(std::size_t{64}, std::size_t{4} << 30))
      ->capture_default_str();
  std::vector<std::string> codecs;
  app.add_option("--codecs", codecs,
                 "between nodes: hierarchical sums beside the ring of all ranks");
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  try {
    if (codecs.empty()) measure(turns, most_bytes);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!codecs.empty() && rank == 0)
      std::printf(
          "vectors of %zu bytes, medians of %d turns; ms, and MB sent by a host: hierarchical, "
          "ring, "
          "and what float takes between nodes\n",
          most_bytes, turns);
    for (auto const& codec : codecs) measure_between(turns, most_bytes, codec);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_node_reductions: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
