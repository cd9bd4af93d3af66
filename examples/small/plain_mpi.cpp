// An MPI program that does not know hcomp, to be run with and without the preloaded library.
//   mpirun -n 4 ./plain_mpi
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
