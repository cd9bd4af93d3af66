// Selects the codec by a text, e.g. from the command line or a settings file.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/by_name.cpp -o by_name
//   mpirun -n 4 ./by_name
//   mpirun -n 4 ./by_name thc:bits=2
//
// Prints: error_bounded:bound=0.001: 52.2 kB sent, a mean of 0.25
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/transport.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    char const* const codec = argc > 1 ? argv[1] : "error_bounded:1e-3";
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    hcomp::host_executor executor;
    std::vector<float> gradient(1'000'000, 0.25f);

    auto plan = hcomp::make_plan<float>(codec, gradient.size(), transport, executor);
    auto const report = plan.all_reduce(gradient, {.op = hcomp::reduce_op::mean});

    if (transport.rank() == 0)
      std::printf("%s: %.1f kB sent, a mean of %.2f\n", plan.codec().c_str(),
                  static_cast<double>(report.bytes_sent) / 1e3, static_cast<double>(gradient[0]));
  } catch (std::exception const& error) {  // on all ranks, e.g. an unknown codec
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
