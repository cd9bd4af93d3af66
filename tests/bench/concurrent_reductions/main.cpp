/// @file
/// All-reduces overlapped with a computation: sequential, nonblocking with a concurrent_transport,
/// and with the MPI library's own MPI_Iallreduce. Compares each with the longer of communication
/// and computation.

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <hcomp/concurrent.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#if defined(HCOMP_BENCH_OVER_UCX)
#include <hcomp/ucx/transport.hpp>
#endif
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace hcomp;

struct settings {
  int sums = 8;
  std::size_t values = 1 << 20;
  std::string codec = "identity", over = "mpi";
  double computation = 0.5;
  int turns = 7;
};

/// Keeps a core busy, with little memory traffic.
class computation {
 public:
  explicit computation(int steps) : steps_(steps) {}
  void slice() {
    for (int i = 0; i < 64 && !is_done(); ++i, ++done_)
      for (double& one : x_) one = one * 0.999 + 0.001;
  }
  bool is_done() const { return done_ >= steps_; }
  void all() {
    while (!is_done()) slice();
  }
  double result() const { return x_[0]; }

 private:
  int steps_, done_ = 0;
  std::vector<double> x_ = std::vector<double>(1024, 2.0);
};

double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}
/// Returns the time of the slowest rank; the median of all turns.
double seconds_of(int turns, std::function<void()> const& work) {
  std::vector<double> all;
  for (int turn = 0; turn <= turns; ++turn) {
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    work();
    double const took = slowest(MPI_Wtime() - start);
    if (turn > 0) all.push_back(took);  // the first turn touches new memory
  }
  std::nth_element(all.begin(), all.begin() + turns / 2, all.end());
  return all[static_cast<std::size_t>(turns / 2)];
}

/// Plans and vectors over one transport.
struct bundle {
  template <Transport T> bundle(settings const& o, T& transport) {
    for (int i = 0; i < o.sums; ++i) {
      plans.push_back(make_plan<float>(o.codec, o.values, transport, executor));
      x.emplace_back(o.values, 1.f);
    }
  }
  void sum(std::size_t i) {
    std::fill(x[i].begin(), x[i].end(), 1.f);
    plans[i].all_reduce(std::span(x[i]));
  }
  host_executor executor;
  std::vector<any_plan<float>> plans;
  std::vector<std::vector<float>> x;
};

/// @param make_transport  () -> a separate transport
template <class F> void run(settings const& o, F const& make_transport) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto const count = static_cast<std::size_t>(o.sums);

  auto const plain = make_transport();
  bundle blocking(o, *plain);
  auto const one_by_one = [&] {
    for (std::size_t i = 0; i < count; ++i) blocking.sum(i);
  };
  double const sums = seconds_of(o.turns, one_by_one);

  int steps = 1000;
  double computing = 0;
  while ((computing = seconds_of(3, [&] { computation(steps).all(); })) < o.computation * sums / 4)
    steps *= 2;
  for (int i = 0; i < 3; ++i) {  // a core may become slower under a longer load
    steps = static_cast<int>(steps * o.computation * sums / computing);
    computing = seconds_of(o.turns, [&] { computation(steps).all(); });
  }

  double const longer = std::max(sums, computing);
  if (rank == 0) {
    std::printf("%d ranks, %d sums of %zu values with %s over %s, median of %d turns\n", ranks,
                o.sums, o.values, o.codec.c_str(), o.over.c_str(), o.turns);
    std::printf("%-58s %9s %9s\n", "", "ms", "x longer");
  }
  auto const print = [&](char const* what, double seconds) {
    if (rank == 0) std::printf("%-58s %9.2f %9.2f\n", what, 1e3 * seconds, seconds / longer);
  };
  print("sums, one after the other", sums);
  print("computation", computing);
  print("sums, then computation", seconds_of(o.turns, [&] {
          one_by_one();
          computation(steps).all();
        }));
  auto const start_all = [&](concurrent_transport& over, bundle& of) {
    std::vector<hcomp::request<void>> all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(over.start([&of, i] { of.sum(i); }, {.priority = -static_cast<int>(i)}));
    return all;
  };
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    auto const transport = make_transport();
    concurrent_transport over(*transport, mode);
    bundle of(o, over);
    bool const by_thread = mode == progress_mode::thread;
    print(by_thread ? "sums, started, by a thread" : "sums, started, by the caller",
          seconds_of(o.turns, [&] {
            for (auto& one : start_all(over, of)) one.wait();
          }));
    print(by_thread ? "sums started, beside the computation, by a thread"
                    : "sums started, tested after every slice of the computation",
          seconds_of(o.turns, [&] {
            auto all = start_all(over, of);
            computation work(steps);
            while (!work.is_done()) {
              work.slice();
              if (!by_thread) all.back().test();
            }
            for (auto& one : all) one.wait();
          }));
  }
  std::vector<std::vector<float>> x(count, std::vector<float>(o.values, 1.f));
  for (bool const tests : {false, true})
    print(tests ? "MPI_Iallreduce, MPI_Testall after every slice"
                : "MPI_Iallreduce, computation, MPI_Waitall",
          seconds_of(o.turns, [&] {
            std::vector<MPI_Request> all(count);
            for (std::size_t i = 0; i < count; ++i)
              MPI_Iallreduce(MPI_IN_PLACE, x[i].data(), static_cast<int>(o.values), MPI_FLOAT,
                             MPI_SUM, MPI_COMM_WORLD, &all[i]);
            computation work(steps);
            int done = 0;
            while (!work.is_done()) {
              work.slice();
              if (tests)
                MPI_Testall(static_cast<int>(count), all.data(), &done, MPI_STATUSES_IGNORE);
            }
            MPI_Waitall(static_cast<int>(count), all.data(), MPI_STATUSES_IGNORE);
            for (auto& one : x) std::fill(one.begin(), one.end(), 1.f);
          }));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Several sums beside a computation");
  settings o;
  app.add_option("--sums", o.sums, "at a time")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--values", o.values, "float values of each")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  app.add_option("--codec", o.codec, "as make_plan reads it")->capture_default_str();
  std::vector<std::string> transports{"mpi"};
#if defined(HCOMP_BENCH_OVER_UCX)
  transports.push_back("ucx");
#endif
  app.add_option("--over", o.over, "which transport of hcomp")
      ->check(CLI::IsMember(transports))
      ->capture_default_str();
  app.add_option("--computation", o.computation, "how long it takes, in times of the sums")
      ->check(CLI::Range(0.01, 100.))
      ->capture_default_str();
  app.add_option("--turns", o.turns, "of everything")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  int status = 0;
  try {
    if (provided < MPI_THREAD_SERIALIZED)
      throw std::runtime_error(
          "this MPI has no MPI_THREAD_SERIALIZED, which sums by a thread need");
    app.parse(argc, argv);
#if defined(HCOMP_BENCH_OVER_UCX)
    if (o.over == "ucx")
      run(o, [] {
        return std::unique_ptr<ucx::transport>(
            new ucx::transport(mpi::connect<ucx::transport>(MPI_COMM_WORLD)));
      });
#endif
    if (o.over == "mpi") run(o, [] { return std::make_unique<mpi::transport>(MPI_COMM_WORLD); });
  } catch (CLI::ParseError const& error) {
    status = app.exit(error);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_concurrent_reductions: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
