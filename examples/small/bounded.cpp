// A field that every rank has a part of, as simulations sum: the answer is off by no more than a
// stated bound, whatever the number of ranks.
//   mpirun -n 4 ./bounded
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
