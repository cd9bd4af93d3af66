/// @file
/// Measures the drop-in library: its overhead for calls that it does not handle, and its cost per
/// communicator. Also the overlap of nonblocking all-reduces with computation, and rules with
/// when=faster compared with MPI's own all-reduce. Run it with libhcomp_pmpi.so preloaded:
///
/// ```sh
/// mpirun -n 1 -x LD_PRELOAD=... bench_drop_in.openmpi overhead
/// mpirun -n 2 -x LD_PRELOAD=... -x HCOMP_CONFIG="float: identity min=0"
///     bench_drop_in.openmpi communicators
/// mpirun -n 2 -x LD_PRELOAD=... -x HCOMP_CONFIG="float: fp16; nonblocking=yes"
///     bench_drop_in.openmpi overlap --values 1000000 --bytes 2000000
/// mpirun -n 2 -x LD_PRELOAD=... bench_drop_in.openmpi faster --rule "float: fp16"
/// ```

#include <mpi.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "faster.hpp"
#include "socket_link.hpp"

namespace {

/// Passes a value on unchanged, opaque to the compiler.
template <class T> void keep(T& value) { asm volatile("" : "+m"(value) : : "memory"); }

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

using reduction_function = int(void const*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

double nanoseconds_per_call(reduction_function* sum, int calls) {
  double x = 1;
  double const begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) sum(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - begin) / calls * 1e9;
}

/// 8-byte all-reduces through the library and past it, in turn.
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

/// Time of an all-reduce of 2000 floats: each on a communicator created for it and freed, or all on
/// one.
double microseconds_per_call(reduction_function* sum, bool on_its_own) {
  constexpr int count = 100;
  std::vector<float> x(2000);
  MPI_Barrier(MPI_COMM_WORLD);
  double const begin = MPI_Wtime();
  for (int i = 0; i < count; ++i) {
    MPI_Comm comm = MPI_COMM_WORLD;
    if (on_its_own) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::fill(x.begin(), x.end(), 1.0f);
    sum(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, comm);
    if (on_its_own) MPI_Comm_free(&comm);
  }
  return (MPI_Wtime() - begin) / count * 1e6;
}

/// Communicators created, used once and freed; through the library and past it, in turn.
void communicators(int turns) {
  std::vector<double> of_hcomp[2], of_mpi[2], ratio, only_made;  // on one communicator, on one each
  for (int t = -1; t < turns; ++t) {
    double us[2][2];
    for (bool const on_its_own : {false, true}) {
      us[0][on_its_own] = microseconds_per_call(MPI_Allreduce, on_its_own);
      us[1][on_its_own] = microseconds_per_call(PMPI_Allreduce, on_its_own);
      if (t < 0) continue;  // the first turn creates pages and connections
      of_hcomp[on_its_own].push_back(us[0][on_its_own]);
      of_mpi[on_its_own].push_back(us[1][on_its_own]);
    }
    if (t < 0) continue;
    ratio.push_back(us[0][1] / us[1][1]);
    only_made.push_back((us[0][1] - us[0][0]) / (us[1][1] - us[1][0]));
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf(
        "a communicator that is made, sums 2000 floats and is freed: %.1f us, by PMPI_Allreduce "
        "%.1f us, %.2f times that;\nsuch a sum alone: %.1f us and %.1f us; so making and freeing "
        "one takes %.2f times as long\n",
        median(of_hcomp[1]), median(of_mpi[1]), median(ratio), median(of_hcomp[0]),
        median(of_mpi[0]), median(only_made));
}

/// Computes for a time proportional to `rounds` on one core.
void compute(std::int64_t rounds) {
  double x = 1;
  for (std::int64_t i = 0; i < rounds; ++i) {
    x = std::sqrt(x + 1.5);
    keep(x);
  }
}

/// CPU seconds of all threads of this process.
double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds of the slowest rank.
template <class F> double seconds(F const& f) {
  MPI_Barrier(MPI_COMM_WORLD);
  double const begin = MPI_Wtime();
  f();
  double took = MPI_Wtime() - begin;
  PMPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return took;
}

/// Times of a transfer and of a computation of about the same length, each alone and both together.
struct overlap_times {
  std::vector<double> transfer, computation, both, ratio;
  std::vector<double> processor;  ///< CPU time of the transfer alone, on this rank
};

/// @param transfer  (meanwhile) moves data while it calls meanwhile()
template <class F> overlap_times measure_overlap(int turns, F const& transfer) {
  overlap_times t;
  std::int64_t rounds = 1'000'000;
  for (int turn = -3; turn < turns; ++turn) {  // the first turns calibrate the computation
    double const before = processor_seconds();
    double const alone = seconds([&] { transfer([] {}); });
    double const processor = processor_seconds() - before;
    double const computation = seconds([&] { compute(rounds); });
    double const both = seconds([&] { transfer([&] { compute(rounds); }); });
    if (turn < 0) {
      rounds = static_cast<std::int64_t>(static_cast<double>(rounds) * alone / computation) + 1;
      PMPI_Bcast(&rounds, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
      continue;
    }
    t.transfer.push_back(alone);
    t.processor.push_back(processor);
    t.computation.push_back(computation);
    t.both.push_back(both);
    t.ratio.push_back(both / std::max(alone, computation));
  }
  return t;
}

void print(char const* what, overlap_times const& t) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf(
        "%s alone %.2f ms, %.2f ms of them on a processor; the computation alone %.2f ms; both "
        "together %.2f ms: %.2f times the longer\n",
        what, 1e3 * median(t.transfer), 1e3 * median(t.processor), 1e3 * median(t.computation),
        1e3 * median(t.both), median(t.ratio));
}

/// All-reduces overlapped with a computation, and two blocking sockets in their place.
void overlap(std::size_t sums, std::size_t values, std::size_t bytes, int turns) {
  std::vector<std::vector<float>> x(sums, std::vector<float>(values, 1e-3f));
  std::vector<MPI_Request> requests(sums);
  print("MPI_Iallreduce", measure_overlap(turns, [&](auto const& meanwhile) {
          for (std::size_t i = 0; i < sums; ++i)
            MPI_Iallreduce(MPI_IN_PLACE, x[i].data(), static_cast<int>(values), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &requests[i]);
          meanwhile();
          MPI_Waitall(static_cast<int>(sums), requests.data(), MPI_STATUSES_IGNORE);
        }));
  if (bytes == 0) return;
  socket_link link(bytes);
  print("the bytes by sockets",
        measure_overlap(turns, [&](auto const& meanwhile) { link.exchange(meanwhile); }));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the drop-in library costs, and what it hides");
  int turns = 21;
  std::size_t values = 1'000'000, bytes = 0, sums = 1;
  app.require_subcommand(1);
  app.add_option("--turns", turns, "measurements, of which the median is printed")
      ->check(CLI::Range(1, 1'000'000));
  auto* const small = app.add_subcommand("overhead", "8-byte sums, which nobody compresses");
  auto* const made =
      app.add_subcommand("communicators", "communicators that are made, sum once and are freed");
  auto* const beside = app.add_subcommand("overlap", "nonblocking sums beside a computation");
  beside->add_option("--sums", sums, "at a time")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000}));
  beside->add_option("--values", values, "floats of each")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30));
  beside
      ->add_option("--bytes", bytes,
                   "that a rank sends for them: the limit is measured too, between two ranks")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 32));
  faster_options of_faster;
  auto* const by_faster =
      app.add_subcommand("faster", "sums by a rule, with when=faster, and plain, in turns");
  by_faster->add_option("--rule", of_faster.rule, "for floats, without when=")
      ->capture_default_str();
  by_faster->add_option("--values", of_faster.values, "floats of a vector")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  by_faster->add_option("--seconds", of_faster.seconds, "about so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  by_faster->add_option("--rate-file", of_faster.rate_file,
                        "in which stands, at any time, how fast the links are");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  if (*small) overhead(turns);
  if (*made) communicators(turns);
  if (*by_faster) measure_faster(of_faster);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (bytes > 0 && ranks != 2) {
    std::fprintf(stderr, "bench_drop_in: --bytes is for 2 ranks, these are %d\n", ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (*beside) overlap(sums, values, bytes, turns);
  MPI_Finalize();
}
