/// @file
/// Trains one model with several codecs and compares the results.
///
///     mpirun -n 4 train --codec fp32,marsit --epochs 5 --json train.json

#include <fmt/core.h>
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "../support/interruption.hpp"
#include "../support/npy.hpp"
#include "../support/program.hpp"
#include "../support/transports.hpp"
#include "data.hpp"
#include "device.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
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

/// @param place  for an embedding, the CPU
std::unique_ptr<task> load_task(options const& o, workplace& place) {
  if (o.model->name == "embedding")
    return std::make_unique<embedding>(corpus(load_text(o.data, o.seed), o.words, o.seed),
                                       o.vectors);
  return place.classify(load_data(o.data, o.seed), o.hidden);
}

/// @param number, runs  "run 2 of 6"
void print_progress(model_kind const& model, history const& run, observation const& now, int number,
                    int runs) {
  if (now.step == 0)
    say("\nrun {} of {}: {}, seed {}, learning rate {}{}{}\n", number, runs, run.codec, run.seed,
        run.rate, run.momentum > 0 ? fmt::format(", momentum {}", run.momentum) : "",
        run.sign_step > 0 ? fmt::format(", sign step {}", run.sign_step) : "");
  else
    say("  epoch {:5.2f}  step {:5}  training loss {:7.4f}  {}  {:8.4f} GB sent  {:6.1f} s\n",
        now.epoch, now.step, now.train_loss,
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

/// Rank 0 only.
void save(comparison const& all) {
  if (auto const& file = all.settings.json; !file.empty())
    example::write_file(file, to_json(all).dump(2) + "\n");
}

/// Does all runs of one rank, until it is interrupted. Collective.
/// @param all    receives the runs; every rank has its own object
/// @param after  called after every run
void compare(comparison& all, trainer const& train, std::function<void()> const& after) {
  auto const& o = train.settings;
  all.is_complete = false;
  for (auto const& what : o.trials)
    for (int i = 0; i < o.seeds; ++i) {
      auto run = train(what, o.seed + static_cast<std::uint64_t>(i));
      if (!run.is_complete()) {  // a separate row, because it must not be part of a mean
        run.codec += fmt::format(", {} of {} steps", run.steps_made, run.steps);
        if (run.curve.size() > 1 || all.rows.empty()) all.add(std::move(run));
        return;
      }
      all.add(std::move(run));
      after();
      auto const& lost = all.find(what.name())->runs.back().lost;
      if (what.by_aggregators && train.transport.rank() == 0)
        say("  results without this rank's contribution: {:.2f} %, results lost: {:.2f} %\n",
            100 * lost.left_out, 100 * lost.missed);
    }
  all.is_complete = true;
}

/// Prints the table and saves the results. Collective over the ranks of MPI.
/// @param signal  signal that ended an incomplete comparison
void report(comparison const& all, int signal) {
  auto const& o = all.settings;
  together([&] {
    if (rank() != 0) return;
    save(all);  // first, because Open MPI leaves one second for it
    say("\n{}", table(all));
    if (!all.is_complete) say("# interrupted: these are the results so far\n");
    if (!o.json.empty()) say("\nresults in {}\n", o.json);
  });
  if (!all.is_complete) throw example::interrupted{signal};
  if (auto const text = complaints(all); !text.empty()) throw std::runtime_error(text);
}

/// @throws std::runtime_error  a file cannot be written
void require_outputs(options const& o) {
  if (rank() != 0) return;
  for (auto const& file : {o.json, o.dump}) example::require_writable(file);
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
      if (!all.rows.empty()) return;  // only in the first run
      if (o.dump_step > now.steps)
        throw std::runtime_error(
            fmt::format("--dump-step {}: training takes {} steps", o.dump_step, now.steps));
      if (step != o.dump_step) return;
      dump(gradient, o.dump);
      say("  gradients of step {} in {}\n", step, o.dump);
    };
  int number = 0, runs = static_cast<int>(o.trials.size()) * o.seeds;
  auto const observe = [&](history const& run, observation const& now) {
    print_progress(*o.model, run, now, number += now.step == 0, runs);
  };
  example::interruption stop;
  compare(all,
          {o, *place, *learnt, transport, observe, dump_once, [&] { return stop.signal() != 0; }},
          [&] {
            together([&] {
              if (rank() == 0) save(all);
            });
          });
  report(all, stop.signal());
}

void run_on_threads(options const& o) {
  if (ranks() > 1)
    throw std::runtime_error(
        fmt::format("--ranks {}: all of them are threads of one process, and mpirun started {}",
                    o.ranks, ranks()));
  require_outputs(o);
  comparison all{o, o.ranks, "host", {}};
  // All ranks use one copy of the data, in a workplace of no rank.
  hcomp::in_process_world nobody(1);
  hcomp::in_process silent(nobody, 0);
  hcomp::any_transport erased(silent);
  paced_transport unused(erased, 0);
  auto const library = make_host_workplace(o, unused);
  auto const learnt = load_task(o, *library);
  say("{} ranks, threads of one process, {}\n", o.ranks, learnt->text());
  example::interruption stop;
  // The call of stops() at which all ranks end. Rank 0 writes it before a step. All ranks can read
  // it after that step, because a step needs the updates of all ranks.
  std::atomic<std::uint64_t> end{std::numeric_limits<std::uint64_t>::max()};
  hcomp::run_ranks(o.ranks, [&](hcomp::in_process& in_process) {
    hcomp::any_transport unpaced(in_process);
    paced_transport transport(unpaced, o.link);
    auto const place = make_host_workplace(o, transport);
    bool const is_first = transport.rank() == 0;
    int number = 0, runs = static_cast<int>(o.trials.size()) * o.seeds;
    auto const observe = [&](history const& run, observation const& now) {
      if (is_first) print_progress(*o.model, run, now, number += now.step == 0, runs);
    };
    std::uint64_t calls = 0;
    auto const stops = [&] {
      if (++calls; is_first && stop.noted() != 0 && calls < end) end = calls + 1;
      return calls >= end;
    };
    comparison own{o, o.ranks, "host", {}};
    compare(is_first ? all : own, {o, *place, *learnt, transport, observe, {}, stops}, [&] {
      if (is_first) save(all);
    });
  });
  report(all, stop.noted());
}

void run(options const& o) { o.ranks > 0 ? run_on_threads(o) : run_on_processes(o); }

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  return example::main_of(
      "train", argc, argv, [](int c, char** v) { train::run(train::parse(c, v)); },
      train::is_of_device);
}
