// A sharded optimizer for sparse gradients: each rank sums, keeps the state of and updates only its
// shard of the parameters, then all ranks get all shards.
//   mpirun -n 4 ./sharded
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
    // in fixed point: exact, in whatever order the ranks come
    hcomp::plan plan(parameters.size(), hcomp::lossless_sparse<std::uint32_t>{}, transport,
                     executor);
    auto const shard = plan.shard();
    std::vector<float> squares(shard.count);  // what Adagrad remembers

    hcomp::report scattered, gathered;
    for (std::uint64_t step = 0; step < 100; ++step) {
      // Parameters should become 1. This rank's samples concern about one of them in fifty.
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
