// The codec as text, from a command line or a settings file.
//   mpirun -n 4 ./by_name thc:bits=2
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
  } catch (std::exception const& error) {  // on all ranks, such as of a codec that does not exist
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
