// A sharded optimizer for sparse gradients. Each rank has the optimizer state of its shard only.
// A step: reduce-scatter of the gradient, update of the own shard, all-gather of the parameters.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/sharded.cpp -o sharded
//   mpirun -n 4 ./sharded
//
// Prints:
// 4 ranks, mean distance 1.000 before, 0.029 after; 24960 of 100000 values updated here; sent in a
// step: 7.7 kB of gradients, 299.8 kB of parameters; the same bits everywhere: yes
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/core/random.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    hcomp::host_executor executor;
    std::vector<float> parameters(100'000), gradient(parameters.size());
    // fixed point: the result does not depend on the order of the ranks
    hcomp::plan plan(parameters.size(), hcomp::lossless_sparse<std::uint32_t>{}, transport,
                     executor);
    auto const shard = plan.shard();
    std::vector<float> squares(shard.count);  // state of Adagrad

    hcomp::report scattered, gathered;
    for (std::uint64_t step = 0; step < 100; ++step) {
      // The target of all parameters is 1. This rank's samples use about 2 % of them.
      auto const samples = hcomp::mix(step * 64 + static_cast<std::uint64_t>(transport.rank()));
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = hcomp::mix(samples + i) % 50 == 0 ? parameters[i] - 1 : 0;

      scattered = plan.reduce_scatter(gradient, {.step = step});
      for (std::size_t i = 0; i < shard.count; ++i)
        if (float const slope = gradient[shard.first + i]; slope != 0) {
          squares[i] += slope * slope;
          parameters[shard.first + i] -= 0.5f * slope / std::sqrt(squares[i]);
        }
      gathered = plan.all_gather(parameters, {.step = step});
    }

    double distance = 0;
    for (float const value : parameters) distance += std::fabs(value - 1.0);
    bool const same = hcomp::digest(parameters, transport).same();
    if (transport.rank() == 0)
      std::printf(
          "%d ranks, mean distance 1.000 before, %.3f after; %zu of %zu values updated here; sent "
          "in a step: %.1f kB of gradients, %.1f kB of parameters; the same bits everywhere: %s\n",
          transport.size(), distance / static_cast<double>(parameters.size()), shard.count,
          parameters.size(), 1e-3 * static_cast<double>(scattered.bytes_sent),
          1e-3 * static_cast<double>(gathered.bytes_sent), same ? "yes" : "no");
  }
  MPI_Finalize();
}
