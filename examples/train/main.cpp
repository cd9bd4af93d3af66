/// @file
/// Trains one model with several ways to agree on its updates, and compares them.
///
///     mpirun -n 4 train --codec fp32,marsit --epochs 5 --plot train.svg

#include <fmt/core.h>
#include <mpi.h>

#include <fstream>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/loopback.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "../support/gnuplot.hpp"
#include "../support/npy.hpp"
#include "../support/program.hpp"
#include "../support/transports.hpp"
#include "data.hpp"
#include "device.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "skip_gram.hpp"
#include "text.hpp"
#include "trainer.hpp"
#include "workplace.hpp"

namespace train {
namespace {

using example::comm;
using example::rank;
using example::ranks;
using example::say;
using example::together;

/// @param place  of an embedding the processor
std::unique_ptr<task> load_task(options const& o, workplace& place) {
  if (o.model->name == "embedding")
    return std::make_unique<embedding>(corpus(load_text(o.data, o.seed), o.words, o.seed),
                                       o.vectors);
  return place.classify(load_data(o.data, o.seed), o.hidden);
}

void print_progress(model_kind const& model, history const& run, observation const& now) {
  if (now.step == 0)
    say("\n{}, seed {}: learning rate {}{}{}\n", run.codec, run.seed, run.rate,
        run.momentum > 0 ? fmt::format(", momentum {}", run.momentum) : "",
        run.sign_step > 0 ? fmt::format(", sign step {}", run.sign_step) : "");
  else
    say("  epoch {:5.2f}  step {:5}  training loss {:7.4f}  {}  {:8.4f} GB  {:6.1f} s\n", now.epoch,
        now.step, now.train_loss,
        model.has_accuracy ? fmt::format("test accuracy {:5.2f} %", now.accuracy)
                           : fmt::format("test loss {:7.4f}", now.test_loss),
        now.bytes / 1e9, now.seconds);
}

/// Writes all ranks' gradients to one file. Collective.
void dump(std::span<float const> gradient, std::string const& file) {
  std::vector<float> all;
  if (rank() == 0) all.resize(gradient.size() * static_cast<std::size_t>(ranks()));
  auto const count = static_cast<int>(gradient.size());
  MPI_Gather(gradient.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, 0, comm);
  together([&] {
    if (rank() == 0) example::write_npy(file, all, static_cast<std::size_t>(ranks()));
  });
}

/// All runs on one rank. Collective.
/// @param all  gets them; every rank has its own
void compare(comparison& all, trainer const& train) {
  auto const& o = train.settings;
  for (auto const& what : o.trials)
    for (int i = 0; i < o.seeds; ++i) {
      all.add(train(what, o.seed + static_cast<std::uint64_t>(i)));
      auto const& lost = all.find(what.name())->runs.back().lost;
      if (what.by_aggregators && train.transport.rank() == 0)
        say("  of all sums {:.2f} % came without this rank's contribution, {:.2f} % did not come\n",
            100 * lost.left_out, 100 * lost.missed);
    }
}

/// Collective over MPI's ranks.
void report(comparison const& all) {
  auto const& o = all.settings;
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

/// @throws std::runtime_error  a file that cannot be written, or no gnuplot
void require_outputs(options const& o) {
  if (rank() != 0) return;
  if (!o.plot.empty()) example::require_gnuplot();
  for (auto const& file : {o.json, o.plot, o.dump}) example::require_writable(file);
}

void run_on_processes(options const& o) {
  comparison all{o, ranks(), "host", {}};
  if (o.device == "cuda") {
    int const local = example::rank_on_host();
    together([&] { all.device = take_device(local); });
  }
  auto unpaced = example::make_transport(o.transport);
  paced_transport transport(unpaced, o.link);
  std::unique_ptr<workplace> place;
  std::unique_ptr<task> learnt;
  together([&] {
    place = o.device == "cuda" ? make_device_workplace(o, transport)
                               : make_host_workplace(o, transport);
    learnt = load_task(o, *place);
    require_outputs(o);
  });
  say("{} ranks{}, {}\n", ranks(), o.device == "cuda" ? " on " + all.device : "", learnt->text());

  gradient_observer dump_once;
  if (!o.dump.empty())
    dump_once = [&](history const& now, std::span<float const> gradient, std::uint64_t step) {
      if (!all.rows.empty()) return;  // the first run is over
      if (o.dump_step > now.steps)
        throw std::runtime_error(
            fmt::format("--dump-step {}: training takes {} steps", o.dump_step, now.steps));
      if (step != o.dump_step) return;
      dump(gradient, o.dump);
      say("  gradients of step {} in {}\n", step, o.dump);
    };
  auto const observe = [&](history const& run, observation const& now) {
    print_progress(*o.model, run, now);
  };
  compare(all, {o, *place, *learnt, transport, observe, dump_once});
  report(all);
}

void run_on_threads(options const& o) {
  if (ranks() > 1)
    throw std::runtime_error(
        fmt::format("--ranks {}: all of them are threads of one process, and mpirun started {}",
                    o.ranks, ranks()));
  require_outputs(o);
  comparison all{o, o.ranks, "host", {}};
  // All ranks learn from one copy of the data, which belongs to nobody's place.
  hcomp::loopback_world nobody(1);
  hcomp::loopback silent(nobody, 0);
  hcomp::any_transport erased(silent);
  paced_transport unused(erased, 0);
  auto const library = make_host_workplace(o, unused);
  auto const learnt = load_task(o, *library);
  say("{} ranks, threads of one process, {}\n", o.ranks, learnt->text());
  hcomp::run_ranks(o.ranks, [&](hcomp::loopback& loopback) {
    hcomp::any_transport unpaced(loopback);
    paced_transport transport(unpaced, o.link);
    auto const place = make_host_workplace(o, transport);
    bool const is_first = transport.rank() == 0;
    auto const observe = [&](history const& run, observation const& now) {
      if (is_first) print_progress(*o.model, run, now);
    };
    comparison own{o, o.ranks, "host", {}};
    compare(is_first ? all : own, {o, *place, *learnt, transport, observe, {}});
  });
  report(all);
}

void run(options const& o) { o.ranks > 0 ? run_on_threads(o) : run_on_processes(o); }

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  return example::main_of(
      "train", argc, argv, [](int c, char** v) { train::run(train::parse(c, v)); },
      train::is_of_device);
}
