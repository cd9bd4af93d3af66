/// @file
/// What the drop-in library costs calls it does not touch, and how much of a nonblocking sum it
/// hides behind computation. To be run with libhcomp_pmpi.so preloaded:
///
///     mpirun -n 1 -x LD_PRELOAD=... bench_drop_in.openmpi overhead
///     mpirun -n 2 -x LD_PRELOAD=... -x HCOMP_CONFIG="float: fp16; nonblocking=yes"
///         bench_drop_in.openmpi overlap --values 1000000

#include <mpi.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

/// Passes a value on unchanged, in a way the compiler does not see through.
template <class T> void keep(T& value) { asm volatile("" : "+m"(value) : : "memory"); }

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

using sum_function = int(void const*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

double nanoseconds_per_call(sum_function* sum, int calls) {
  double x = 1;
  double const begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) sum(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - begin) / calls * 1e9;
}

/// 8-byte sums through the library and past it, in turns.
void overhead(int turns) {
  constexpr int calls = 20000;
  std::vector<double> through, past, more;
  for (int t = 0; t < turns; ++t) {
    through.push_back(nanoseconds_per_call(MPI_Allreduce, calls));
    past.push_back(nanoseconds_per_call(PMPI_Allreduce, calls));
    more.push_back(through.back() - past.back());
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf("an 8-byte MPI_Allreduce takes %.1f ns, PMPI_Allreduce %.1f ns: %.1f ns more\n",
                median(through), median(past), median(more));
}

/// Something that takes this long on a core of its own.
void compute(std::int64_t rounds) {
  double x = 1;
  for (std::int64_t i = 0; i < rounds; ++i) {
    x = std::sqrt(x + 1.5);
    keep(x);
  }
}

/// Of all threads of this process.
double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct overlap_times {
  double sum, computation, both;
  double processor;  ///< of the sum alone, on this rank
};

overlap_times measure_overlap(std::vector<float>& x, std::int64_t rounds) {
  auto const seconds = [](auto const& f) {
    MPI_Barrier(MPI_COMM_WORLD);
    double const begin = MPI_Wtime();
    f();
    double took = MPI_Wtime() - begin;
    PMPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return took;
  };
  auto const sum_beside = [&](std::int64_t n) {
    return seconds([&] {
      MPI_Request request;
      MPI_Iallreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                     MPI_COMM_WORLD, &request);
      compute(n);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
  };
  overlap_times t{};
  double const before = processor_seconds();
  t.sum = sum_beside(0);
  t.processor = processor_seconds() - before;
  t.computation = seconds([&] { compute(rounds); });
  t.both = sum_beside(rounds);
  return t;
}

/// A sum beside a computation that takes about as long.
void overlap(std::size_t values, int turns) {
  std::vector<float> x(values, 1e-3f);
  std::int64_t rounds = 1'000'000;
  for (int i = 0; i < 3; ++i) {
    auto const t = measure_overlap(x, rounds);
    rounds = static_cast<std::int64_t>(static_cast<double>(rounds) * t.sum / t.computation) + 1;
    PMPI_Bcast(&rounds, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  }
  std::vector<double> sum, processor, computation, both, ratio;
  for (int i = 0; i < turns; ++i) {
    auto const t = measure_overlap(x, rounds);
    sum.push_back(t.sum);
    processor.push_back(t.processor);
    computation.push_back(t.computation);
    both.push_back(t.both);
    ratio.push_back(t.both / std::max(t.sum, t.computation));
  }
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0)
    std::printf(
        "%zu floats on %d ranks: MPI_Iallreduce alone %.2f ms, %.2f ms of them on a processor; the "
        "computation alone %.2f ms; both together %.2f ms: %.2f times the longer\n",
        values, ranks, 1e3 * median(sum), 1e3 * median(processor), 1e3 * median(computation),
        1e3 * median(both), median(ratio));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the drop-in library costs, and what it hides");
  int turns = 21;
  std::size_t values = 1'000'000;
  app.require_subcommand(1);
  app.add_option("--turns", turns, "measurements, of which the median is printed")
      ->check(CLI::Range(1, 1'000'000));
  auto* const small = app.add_subcommand("overhead", "8-byte sums, which nobody compresses");
  auto* const beside = app.add_subcommand("overlap", "a nonblocking sum beside a computation");
  beside->add_option("--values", values, "floats that are summed")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30));
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  if (*small) overhead(turns);
  if (*beside) overlap(values, turns);
  MPI_Finalize();
}
