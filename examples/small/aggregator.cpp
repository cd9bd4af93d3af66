// In-network aggregation with codec thc, emulated by the last rank: it adds the contributions of
// four workers and does not wait for late ones. 10 % of the contributions are late, 1 % of the
// packets get lost.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/aggregator.cpp -o aggregator
//   mpirun -n 5 ./aggregator
//
// Prints, with numbers that depend on the load of the machine, e.g.:
// 4 workers, 34.1 % of the results lost, error of the mean: 0.3646 of its square
// aggregator: 18.6 % of all contributions late, 59.0 % of all results partial
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

/// Gradients of workers with different samples: a common gradient 1, and noise of variance 1/3.
float value_of(int rank, int round, std::size_t i) {
  auto const bits = hcomp::mix(i * 1000 + static_cast<std::size_t>(round * 10 + rank));
  return 1 + static_cast<float>(static_cast<std::int64_t>(bits)) * 0x1p-63f;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    constexpr std::size_t values = 200'000;
    constexpr int rounds = 10;
    hcomp::mpi::packets mpi(MPI_COMM_WORLD);
    hcomp::lossy_packets link(mpi, 0.01, 42);
    int const workers = link.size() - 1;
    if (link.rank() == workers) {
      hcomp::aggregation_layout const layout(values, hcomp::thc<>(), link.size(), {workers});
      hcomp::aggregator_options wanted;
      wanted.deadline = std::chrono::milliseconds(100);  // after the first contribution
      wanted.word_deadline = std::chrono::milliseconds(600);
      auto const stats = hcomp::serve_aggregation(link, layout.aggregator(wanted), 5s);
      std::printf(
          "aggregator: %.1f %% of all contributions late, %.1f %% of all results partial\n",
          100. * static_cast<double>(stats.late) / static_cast<double>(stats.late + stats.added),
          100. * static_cast<double>(stats.partial) /
              static_cast<double>(stats.partial + stats.whole));
    } else {
      hcomp::aggregated_mean mean(values, hcomp::thc<>(), link,
                                  {.share = {workers}, .timeout = 250ms, .resend_indices = false});
      double error = 0, square = 0, lost = 0;
      std::vector<float> x(values);
      for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < values; ++i) x[i] = value_of(link.rank(), round, i);
        if ((round * workers + link.rank()) % 10 == 7) std::this_thread::sleep_for(900ms);
        auto const report = mean.average(std::span(x), {.step = static_cast<unsigned>(round)});
        lost += 100. * static_cast<double>(report.lost) / static_cast<double>(report.chunks);
        for (std::size_t i = 0; i < values; ++i) {
          double exact = 0;
          for (int worker = 0; worker < workers; ++worker)
            exact += static_cast<double>(value_of(worker, round, i)) / workers;
          error += (static_cast<double>(x[i]) - exact) * (static_cast<double>(x[i]) - exact);
          square += exact * exact;
        }
      }
      mean.leave();
      if (link.rank() == 0)
        std::printf(
            "%d workers, %.1f %% of the results lost, error of the mean: %.4f of its square\n",
            workers, lost / rounds, error / square);
    }
  }
  MPI_Finalize();
}
