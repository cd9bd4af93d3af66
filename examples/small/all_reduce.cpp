// Sums a vector over all MPI ranks with one bit per value on the wire.
//   mpirun -n 4 ./all_reduce
#include <mpi.h>

#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    hcomp::host_executor executor;
    std::vector<float> gradient(1'000'000, transport.rank() == 0 ? -1.0f : 1.0f);

    hcomp::plan plan(gradient.size(), hcomp::sign<>{.magnitude = 0.01f}, transport, executor);
    auto const report = plan.all_reduce(gradient, {.seed = 42, .op = hcomp::reduce_op::mean});

    bool const same = hcomp::digest(gradient, transport).same();
    if (transport.rank() == 0)
      std::printf(
          "%d ranks, %.1f kB sent by each instead of %.1f kB, the same bits everywhere: %s\n",
          transport.size(), 1e-3 * static_cast<double>(report.bytes_sent),
          1e-3 * 8 * 1e6 * (transport.size() - 1) / transport.size(), same ? "yes" : "no");
  }
  MPI_Finalize();
}
