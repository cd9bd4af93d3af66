/// @file
/// Trains one classifier with several ways to agree on its updates, and compares them.
///
///     mpirun -n 4 train --codec fp32,marsit --epochs 5 --plot train.svg

#include <fmt/core.h>
#include <mpi.h>

#include <cmath>
#include <exception>
#include <fstream>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/exchange.hpp>
#include <hcomp/mpi/transport.hpp>
#include <nlohmann/json.hpp>

#include "options.hpp"
#include "paced_transport.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "trainer.hpp"
#ifdef HCOMP_TRAIN_UCX
#include <hcomp/ucx/transport.hpp>
#endif

namespace train {
namespace {

MPI_Comm const comm = MPI_COMM_WORLD;

int rank() { return hcomp::mpi::rank_of(comm); }
int ranks() { return hcomp::mpi::size_of(comm); }

template <class... Args> void say(fmt::format_string<Args...> text, Args&&... args) {
  if (rank() != 0) return;
  fmt::print(text, std::forward<Args>(args)...);
  std::fflush(stdout);
}

/// Runs `work`, which may fail on some ranks only; then all ranks throw the first one's error.
template <class Work> void together(Work const& work) {
  std::string error;
  try {
    work();
  } catch (std::exception const& e) {
    error = e.what();
  }
  int first = error.empty() ? ranks() : rank();
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == ranks()) return;
  auto length = error.size();
  MPI_Bcast(&length, 1, MPI_UINT64_T, first, comm);
  error.resize(length);
  MPI_Bcast(error.data(), static_cast<int>(length), MPI_CHAR, first, comm);
  throw std::runtime_error(first == 0 ? error : fmt::format("rank {}: {}", first, error));
}

/// Calls f(transport) with the one that was asked for.
template <class F> void with_transport(options const& o, F const& f) {
  if (o.transport == "mpi") {
    hcomp::mpi::transport transport(comm);
    paced_transport paced(transport, o.link);
    return f(paced);
  }
#ifdef HCOMP_TRAIN_UCX
  hcomp::ucx::transport transport(rank(), ranks(),
                                  [](auto mine) { return hcomp::mpi::exchange(comm, mine); });
  paced_transport paced(transport, o.link);
  f(paced);
#else
  throw std::runtime_error("--transport ucx: this program was built without UCX");
#endif
}

void print_progress(history const& run, observation const& now) {
  if (now.step == 0)
    say("\n{}, seed {}: learning rate {}{}{}\n", run.codec, run.seed, run.rate,
        run.momentum > 0 ? fmt::format(", momentum {}", run.momentum) : "",
        run.sign_step > 0 ? fmt::format(", sign step {}", run.sign_step) : "");
  else
    say("  epoch {:5.2f}  step {:5}  training loss {:7.4f}  test accuracy {:5.2f} %  {:8.4f} GB  "
        "{:6.1f} s\n",
        now.epoch, now.step, now.train_loss, now.accuracy, now.bytes / 1e9, now.seconds);
}

void run(options const& o) {
  data_split data;
  together([&] {
    data = load_data(o.data, o.seed);
    if (rank() != 0) return;
    if (!o.plot.empty()) require_gnuplot();
    for (auto const& file : {o.json, o.plot})
      if (!file.empty() && !std::ofstream(file, std::ios::app))
        throw std::runtime_error(file + " cannot be written");
  });
  say("{} ranks, {} training and {} test images of {} pixels in {} classes\n", ranks(),
      data.train.size(), data.test.size(), data.train.features, data.train.classes);

  comparison all{o, ranks(), {}};
  trainer const train{o, data, comm, print_progress};
  hcomp::host_executor executor(o.threads);
  with_transport(o, [&](auto& transport) {
    for (auto const& name : o.codecs)
      for (int i = 0; i < o.seeds; ++i) {
        auto const& how = *find_method(name);
        auto const seed = o.seed + static_cast<std::uint64_t>(i);
        all.add(train(how, seed, [&](std::size_t parameters) {
          return make_synchronizer(how, o.sign_step.value_or(how.sign_step), parameters, o, seed,
                                   transport, executor);
        }));
      }
  });

  say("\n{}", table(all));
  together([&] {
    if (rank() != 0) return;
    if (!o.json.empty()) {
      std::ofstream out(o.json);
      out << to_json(all).dump(2) << '\n';
      if (!out.flush()) throw std::runtime_error(o.json + " could not be written to its end");
      say("\nfigures in {}\n", o.json);
    }
    if (!o.plot.empty()) {
      plot(all, o.plot);
      say("picture in {}\n", o.plot);
    }
  });
  if (auto const text = complaints(all); !text.empty()) throw std::runtime_error(text);
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int status = 0;
  bool const prints = train::rank() == 0;
  try {
    train::run(train::parse(argc, argv));
  } catch (train::usage const& u) {
    if (prints) fmt::print(u.status == 0 ? stdout : stderr, "{}", u.text);
    status = u.status;
  } catch (hcomp::transport_error const& e) {
    fmt::print(stderr, "train: rank {}: {}\n", train::rank(), e.what());
    MPI_Abort(train::comm, 1);  // some ranks may wait for others that will not come
  } catch (std::exception const& e) {
    if (prints) fmt::print(stderr, "train: {}\n", e.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
