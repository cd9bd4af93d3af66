/// @file
/// sums TYPE VALUES CALLS: a program that does not use hcomp. It makes CALLS all-reduces of vectors
/// of `double`, `float` or `int64` over all ranks. Rank 0 prints their seconds, without the first
/// call.

#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

/// Values of a smooth field plus noise; counts for integers.
template <class V> void fill(std::vector<V>& x, int rank, int call) {
  std::uint64_t random = static_cast<std::uint64_t>(1000 * rank + call + 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    auto const noise = static_cast<double>(random >> 40) / 0x1p24;
    x[i] = static_cast<V>(100 + 50 * std::sin(0.001 * static_cast<double>(i)) + noise);
  }
}

template <class V> double seconds_of(MPI_Datatype type, std::size_t values, int calls) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<V> x(values), sum(values);
  double seconds = 0;
  for (int call = 0; call < calls; ++call) {
    fill(x, rank, call);
    MPI_Barrier(MPI_COMM_WORLD);
    double const begin = MPI_Wtime();
    MPI_Allreduce(x.data(), sum.data(), static_cast<int>(values), type, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (call > 0) seconds += MPI_Wtime() - begin;
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string_view const type = argc > 1 ? argv[1] : "";
  auto const values = argc > 2 ? static_cast<std::size_t>(std::atoll(argv[2])) : 0;
  int const calls = argc > 3 ? std::atoi(argv[3]) : 0;
  double seconds = -1;
  if (type == "double") seconds = seconds_of<double>(MPI_DOUBLE, values, calls);
  if (type == "float") seconds = seconds_of<float>(MPI_FLOAT, values, calls);
  if (type == "int64") seconds = seconds_of<std::int64_t>(MPI_INT64_T, values, calls);
  if (rank == 0 && seconds >= 0) std::printf("%.6f\n", seconds);
  if (rank == 0 && seconds < 0)
    std::fprintf(stderr, "usage: sums double|float|int64 VALUES CALLS\n");
  MPI_Finalize();
  return seconds < 0 ? 2 : 0;
}
