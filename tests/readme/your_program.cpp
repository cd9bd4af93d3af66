/// @file
/// An MPI program that does not use hcomp: means of 2 MiB of floats.

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> x(1u << 19, 1.0f);
  MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  double mean = 0;
  for (float const value : x) mean += value / static_cast<double>(x.size());
  bool const wrong = std::fabs(mean - ranks) > 0.2 * ranks;
  if (wrong) std::printf("a mean of %g, not of %d\n", mean, ranks);
  MPI_Finalize();
  return wrong;
}
