// Gradients that are mostly zeros, as those of embeddings: only what is not zero travels, and the
// sum is exact.
//   mpirun -n 4 ./sparse
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/core/random.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    auto const rank = static_cast<std::uint32_t>(hcomp::mpi::rank_of(MPI_COMM_WORLD));
    auto const ranks = static_cast<std::uint32_t>(hcomp::mpi::size_of(MPI_COMM_WORLD));
    std::vector<float> gradient(1'000'000);
    // one value in a hundred, others on each rank
    for (std::size_t i = 0; i < gradient.size(); ++i)
      if (hcomp::mix(i * 64 + rank) % 100 == 0) gradient[i] = 0.125f;

    hcomp::sparse_sum<std::uint32_t> sum({.ranks = ranks});  // in fixed point; <float> is not exact
    std::vector<std::uint32_t> lanes;                        // kept from call to call
    auto const choice = hcomp::mpi::all_reduce_sparse(sum, std::span(gradient), {.seed = 42}, lanes,
                                                      MPI_COMM_WORLD);

    double total = 0;
    for (float const value : gradient) total += value;
    if (rank == 0) std::printf("%u ranks, total %.3f; %s\n", ranks, total, choice.text().c_str());
  }
  MPI_Finalize();
}
