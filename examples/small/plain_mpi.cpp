// An MPI program without hcomp. README.md runs it with hcomp's preloaded library (LD_PRELOAD),
// which compresses MPI_Allreduce without recompiling.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/plain_mpi.cpp -o plain_mpi
//   mpirun -n 4 ./plain_mpi
//
// Prints: x[0] = 10.000
#include <mpi.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<float> x(1'000'000, 1.0f + static_cast<float>(rank));
  MPI_Allreduce(MPI_IN_PLACE, x.data(), 1'000'000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("x[0] = %.3f\n", x[0]);
  MPI_Finalize();
}
