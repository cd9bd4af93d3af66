// Exact all-reduce of sparse gradients, e.g. of embeddings: ranks send only the values that are not
// zero on some rank.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/sparse.cpp -o sparse
//   mpirun -n 4 ./sparse
//
// Prints the sum of all values, and the bytes of the possible encodings:
// 4 ranks, total 5008.250; sparse_union: 39477 of 1000000 values are not zero on some rank; bytes:
// dense 4000000, sparse_union 157908, lhc 205440
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
    // 1 % of the values, at different positions on each rank
    for (std::size_t i = 0; i < gradient.size(); ++i)
      if (hcomp::mix(i * 64 + rank) % 100 == 0) gradient[i] = 0.125f;

    hcomp::sparse_sum<std::uint32_t> sum({.ranks = ranks});  // fixed point; <float> rounds
    std::vector<std::uint32_t> lanes;                        // reused by every call
    auto const choice = hcomp::mpi::all_reduce_sparse(sum, std::span(gradient), {.seed = 42}, lanes,
                                                      MPI_COMM_WORLD);

    double total = 0;
    for (float const value : gradient) total += value;
    if (rank == 0) std::printf("%u ranks, total %.3f; %s\n", ranks, total, choice.text().c_str());
  }
  MPI_Finalize();
}
