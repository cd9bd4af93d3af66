// All-reduce over all MPI ranks with an error bound.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/all_reduce.cpp -o all_reduce
//   mpirun -n 4 ./all_reduce
//
// Prints: x[0] = 10.000, error at most 0.0005
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
    std::vector<float> x(1'000'000, 1.0f + transport.rank());
    hcomp::plan plan(x.size(), hcomp::error_bounded({.bound = 1e-3}), transport, executor);
    auto const report = plan.all_reduce(x);  // in place; call it in every step
    if (transport.rank() == 0) std::printf("x[0] = %.3f, error at most %.4f\n", x[0], report.error);
  }
  MPI_Finalize();
}
