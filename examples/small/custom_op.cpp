// Compression for plain MPI_Allreduce: an MPI_Op and an MPI_Datatype that sum encoded blocks.
//   mpirun -n 4 ./custom_op
#include <mpi.h>

#include <cstdio>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/op/encode.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    int const rank = hcomp::mpi::rank_of(MPI_COMM_WORLD);
    std::vector<float> x(100'000, rank == 0 ? -1.0f : 1.0f);

    hcomp::mpi::op sum{hcomp::sign{}};
    hcomp::draw_key const key{.seed = 42, .step = 0};  // a new step for every sum
    auto code = hcomp::encode(sum.codec(), std::span<float const>(x), {.key = key, .rank = rank});
    MPI_Allreduce(MPI_IN_PLACE, code.data(), sum.count(x.size()), sum.type(), sum.handle(),
                  MPI_COMM_WORLD);
    auto const ranks = hcomp::decode(sum.codec(), code, std::span(x), {.key = key});

    double mean = 0;
    for (float const value : x) mean += value / static_cast<double>(x.size() * ranks);
    if (rank == 0)
      std::printf("%d ranks, mean sign %.2f (exact: %.2f)\n", static_cast<int>(ranks), mean,
                  1 - 2.0 / static_cast<double>(ranks));
  }
  MPI_Finalize();
}
