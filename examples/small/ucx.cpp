// All-reduce over UCX. MPI only starts the ranks. If a rank fails, all other ranks get an error
// within the timeout of 5 s; it names the failed rank.
//
//   ucx=$(pkg-config --cflags --libs ucx)
//   mpicxx -std=c++20 -Iinclude -Iplugins examples/small/ucx.cpp -o ucx $ucx
//   mpirun -n 4 ./ucx
//
// Prints: 4 ranks over UCX, 1.2 MB sent by each, the same bits everywhere: yes
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/exchange.hpp>
#include <hcomp/ucx/transport.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    auto transport = hcomp::mpi::connect<hcomp::ucx::transport>(
        MPI_COMM_WORLD, hcomp::ucx::options{.timeout = std::chrono::seconds(5)});
    hcomp::host_executor executor;
    std::vector<float> gradient(1'000'000, transport.rank() == 0 ? -1.0f : 1.0f);

    hcomp::plan plan(gradient.size(), hcomp::thc<>({.bits = 4}), transport, executor);
    auto const report = plan.all_reduce(gradient, {.seed = 42, .op = hcomp::reduce_op::mean});

    bool const same = hcomp::digest(gradient, transport).same();
    if (transport.rank() == 0)
      std::printf("%d ranks over UCX, %.1f MB sent by each, the same bits everywhere: %s\n",
                  transport.size(), 1e-6 * static_cast<double>(report.bytes_sent),
                  same ? "yes" : "no");
  } catch (hcomp::transport_error const& error) {  // on all surviving ranks
    std::fprintf(stderr, "rank %d failed: %s\n", error.peer(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
