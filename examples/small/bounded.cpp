// All-reduce of a smooth field with codec error_bounded: no value of the result differs from the
// exact sum by more than the bound, for every number of ranks.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/bounded.cpp -o bounded
//   mpirun -n 4 ./bounded
//
// Prints the largest error and the bytes that rank 0 sent, e.g.:
// 4 ranks, bound 0.0001, largest error 0.000094; 0.59 MB sent instead of 6.00
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    auto const ranks = static_cast<std::uint32_t>(transport.size());
    std::vector<float> field(1'000'000);
    for (std::size_t i = 0; i < field.size(); ++i)
      field[i] = std::sin(1e-4f * static_cast<float>(i) + static_cast<float>(transport.rank()));
    std::vector<double> exact(field.begin(), field.end());
    MPI_Allreduce(MPI_IN_PLACE, exact.data(), static_cast<int>(exact.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);

    hcomp::host_executor executor;
    hcomp::error_bounded const codec({.bound = 1e-4});
    hcomp::plan plan(field.size(), codec, transport, executor);
    auto const report = plan.all_reduce(field);

    double error = 0;
    for (std::size_t i = 0; i < field.size(); ++i)
      error = std::max(error, std::fabs(static_cast<double>(field[i]) - exact[i]));
    double const uncompressed = 2.0 * (ranks - 1) / ranks * 4.0 * static_cast<double>(field.size());
    if (transport.rank() == 0)
      std::printf("%u ranks, bound 0.0001, largest error %.6f; %.2f MB sent instead of %.2f\n",
                  ranks, error, static_cast<double>(report.bytes_sent) / 1e6, uncompressed / 1e6);
  }
  MPI_Finalize();
}
