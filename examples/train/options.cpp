#include "options.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "../support/command_line.hpp"
#include "methods.hpp"

namespace train {
namespace {

std::string known_methods() {
  std::string text;
  for (auto const& m : methods) text += fmt::format("  {:<15}{}\n", m.name, m.what);
  return text;
}

std::string known_models() {
  std::string text;
  for (auto const& m : models)
    text += fmt::format("  {:<15}{}; from {}, {:g} epochs, {} {} per rank and step\n", m.name,
                        m.what, m.data_name, m.epochs, m.batch, m.examples);
  return text;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (auto const& m : models) names.emplace_back(m.name);
  return names;
}

/// Refuses what `read` throws for.
template <class Read> CLI::Validator readable(char const* name, Read const& read) {
  return {[=](std::string const& text) {
            try {
              read(text);
              return std::string();
            } catch (std::invalid_argument const& e) {
              return std::string(e.what());
            }
          },
          name};
}

/// --late and --lost are for every codec that says nothing about them itself.
void add_mishaps(std::vector<trial>& trials, std::optional<double> late,
                 std::optional<double> lost) {
  if (!late && !lost) return;
  for (auto& one : trials) {
    if (!one.how->aggregated)
      throw example::usage{
          fmt::format("--{} {}: {} has no aggregator; these have: {}\n", late ? "late" : "lost",
                      late ? *late : *lost, one.how->name, names_of_aggregated()),
          1};
    if (!one.by_aggregators) one.by_aggregators = mishaps{late.value_or(0), lost.value_or(0)};
  }
}

/// --aggregator is for every codec that has one.
void add_addresses(options& o) {
  if (o.aggregators.empty()) return;
  bool found = false;
  for (auto& one : o.trials) {
    if (!one.how->aggregated) continue;
    found = true;
    if (!one.by_aggregators) one.by_aggregators.emplace();
    if (one.by_aggregators->lost > 0)
      throw example::usage{
          fmt::format(
              "--codec {}: with --aggregator packets get lost where the network loses them\n",
              one.name()),
          1};
  }
  if (!found)
    throw example::usage{fmt::format("--aggregator {}: it adds for {}; --codec has none of these\n",
                                     fmt::join(o.aggregators, ","), names_of_aggregated()),
                         1};
}

bool is_on_device(std::string_view codec) {
  return std::ranges::find(methods_on_device, codec) != methods_on_device.end();
}

/// Whether everything that is asked for can be done on a device.
void require_what_devices_can(options const& o) {
  auto const there_are = [](std::string const& asked, std::string const& names) {
    throw example::usage{fmt::format("{}: with --device cuda there are {}\n", asked, names), 1};
  };
  if (o.model->name != "mlp")
    throw example::usage{fmt::format("--model {}: --device cuda is for mlp only\n", o.model->name),
                         1};
  for (auto const& one : o.trials) {
    if (!is_on_device(one.how->name))
      there_are(fmt::format("--codec {}", one.how->name),
                fmt::format("{}", fmt::join(methods_on_device, ", ")));
    if (one.by_aggregators)
      throw example::usage{
          fmt::format("--codec {}: --device cuda has no aggregators, nothing is late or lost\n",
                      one.name()),
          1};
  }
  if (o.threads > 1) there_are(fmt::format("--threads {}", o.threads), "none");
}

/// Threads have neither a device nor processes' ways to meet.
void require_what_threads_can(options const& o) {
  auto const refuse = [&](std::string const& what) {
    throw example::usage{
        fmt::format("--ranks {}: threads of one process cannot have {}\n", o.ranks, what), 1};
  };
  if (o.device != "host") refuse("--device " + o.device);
  if (o.transport != "mpi") refuse("--transport " + o.transport);
  if (!o.dump.empty()) refuse("--dump");
}

/// Signs move every parameter.
void require_sparse_updates(options const& o) {
  for (auto const& one : o.trials)
    if (o.model->is_sparse && one.how->sign_step > 0)
      throw example::usage{
          fmt::format(
              "--model {}: {} would move all parameters in every step, and most are to stay\n",
              o.model->name, one.how->name),
          1};
}

}  // namespace

options parse(int argc, char const* const* argv) {
  options o;
  std::vector<std::string> codecs;
  std::string model(o.model->name);
  std::optional<std::string> late, lost, data;
  std::optional<double> epochs;
  std::optional<int> batch;
  std::string algorithm;
  CLI::App app("Trains a model with data parallelism, once per codec, and compares what that took.",
               "train");
  app.footer(
      "Models:\n" + known_models() + "\nCodecs:\n" + known_methods() +
      "and hcomp's codecs (hcomp-info), averaged as they are; all with settings after the name, "
      "as\n"
      "thc:bits=2,transform=1024.\n\n"
      "Each codec has a learning rate, momentum and sign step found for it with mlp. With\n"
      "embedding all have one learning rate, found for it, and no momentum. --lr, --momentum and\n"
      "--sign-step replace them for all.\n\n"
      "Late and lost: with :late=SHARE or :lost=SHARE after a codec's name, or with --late or\n"
      "--lost, ranks send indices to aggregators and get sums back. Each rank runs the aggregator\n"
      "of its share of the chunks, in a thread of its own.\n"
      "  late  In this share of its steps, a rank begins only when the sums have gone out without\n"
      "        it, at a deadline. Its contribution stays in its error feedback.\n"
      "  lost  This share of all packets (1024 indices or sums, or 256 norms) never arrives, up "
      "or\n"
      "        down. Lost norms are sent again, lost indices stay in the error feedback, and a "
      "sum\n"
      "        that does not come is 0 in the rotated domain: no update there, on that rank. So\n"
      "        replicas drift apart; after every --resync epochs and at the end they are "
      "averaged.\n"
      "Both are drawn by the seed, for every rank on its own. The time until deadlines is\n"
      "simulated: nobody waits for it, and figures do not depend on how quick the machine is.\n"
      "What the simulation took is in the table; the picture leaves it out.\n"
      "With --aggregator it is hcomp-aggregator that adds, a process elsewhere, and time is real.\n"
      "Packets get lost where the network loses them, and are sent again.");
  app.option_defaults()->always_capture_default()->take_last();  // a script's options come first

  app.add_option("--model", model, "What is trained; see below")
      ->check(CLI::IsMember(model_names()));
  app.add_option(
         "--codec", codecs,
         fmt::format(
             "What is sent; several are trained one after the other. Unless said otherwise,\n"
             "with mlp {}\nand with embedding {}",
             models[0].codecs, models[1].codecs))
      ->take_all();
  app.add_option("--late", late, "Share of each rank's contributions that come too late; see below")
      ->check(readable("SHARE", share_from));
  app.add_option("--lost", lost, "Share of all packets that get lost; see below")
      ->check(readable("SHARE", share_from));
  app.add_option("--aggregator", o.aggregators,
                 "HOST:PORT of hcomp-aggregator, which then adds for the codecs that have one;\n"
                 "several share a vector")
      ->delimiter(',')
      ->take_all();
  app.add_option("--deadline", o.deadline_ms,
                 "Milliseconds after which it adds no more to a sum; ranks may be apart by less")
      ->check(CLI::Range(1, 60'000))
      ->needs("--aggregator");
  app.add_option("--resync", o.resync,
                 "Epochs after which replicas are averaged that lost packets let drift apart;\n"
                 "0: only at the end")
      ->check(example::from_zero());
  app.add_option(
         "--algorithm", algorithm,
         "Which way a sum goes: ring, torus, torus:RxC, direct, recursive_doubling, or sampled,\n"
         "with which marsit sends half the bytes and the others use ring; by itself\n"
         "direct for sparse, sparse_fixed and top_k, ring for the others")
      ->check(example::algorithm_name());
  app.add_option(
         "--device", o.device,
         fmt::format(
             "Where parameters, gradients and sums are. cuda: in a GPU's memory; ranks of a host\n"
             "that has fewer GPUs share them; mlp only, with\n{}",
             fmt::join(methods_on_device, ", ")))
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--transport", o.transport, "What moves the bytes")
      ->check(CLI::IsMember({"mpi", "ucx"}));
  app.add_option(
         "--ranks", o.ranks,
         "So many ranks that are threads of one process, started without mpirun; 0: those of\n"
         "MPI")
      ->check(CLI::Range(0, 1024));
  app.add_option("--link", o.link,
                 "Gbit/s at which each rank may send, to act as a slower network; 0: no limit")
      ->check(example::from_zero());
  app.add_option("--threads", o.threads, "Threads per rank that encode and decode")
      ->check(CLI::Range(1, 1024));

  app.add_option("--data", data,
                 "mlp: folder with the IDX files of (Fashion-)MNIST; embedding: file with text,\n"
                 "plain or compressed by gzip or dictzip; or 'synthetic' for a small set");
  app.add_option("--hidden", o.hidden, "mlp: widths of the hidden layers")
      ->delimiter(',')
      ->take_all()
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--vocabulary", o.words.vocabulary,
                 "embedding: how many words have vectors, at most; the most frequent ones")
      ->check(CLI::Range(2, 1 << 22));
  app.add_option("--dimension", o.vectors.dimension, "embedding: numbers in a vector")
      ->check(CLI::Range(1, 1 << 12));
  app.add_option("--epochs", epochs, "Passes over the training set; fractions are allowed")
      ->check(example::above_zero());
  app.add_option("--batch", batch, "Images or words per rank and step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--lr", o.rate, "Learning rate at the start; it goes linearly to 0")
      ->check(example::above_zero());
  app.add_option("--momentum", o.momentum, "Momentum of each rank's own gradient")
      ->check(CLI::Range(0.0, 0.9999));
  app.add_option("--sign-step", o.sign_step,
                 "What one sign moves a parameter at the start; goes to 0 like the rate")
      ->check(example::above_zero());
  app.add_option("--period", o.period, "marsit: every so many steps one in full precision")
      ->check(example::above_zero());
  app.add_option("--warm-up", o.warm_up, "marsit: so many first steps in full precision")
      ->check(example::from_zero());
  app.add_option("--flush-limit", o.flush_limit,
                 "marsit: a step in full precision moves a parameter at most this far")
      ->check(example::above_zero());
  app.add_option("--seed", o.seed, "Of weights, shuffles and random bits");
  app.add_option("--seeds", o.seeds, "Train with so many seeds from --seed on, report the mean")
      ->check(CLI::Range(1, 1000));

  app.add_option("--json", o.json,
                 "Write all results to this file; to draw them:\n"
                 "examples/support/plot.py results/train.json -o results/train.svg");
  app.add_option(
      "--dump", o.dump,
      "Write the gradients of one step to this .npy file, a row per rank, as hcomp_perf\n"
      "--input reads them; of the first codec and seed");
  app.add_option("--dump-step", o.dump_step, "Which step that is, counted from 1")
      ->check(example::above_zero());
  app.add_flag(
      "--check", o.check,
      "Fail unless every training loss is finite and fell, losses of sparse_fixed are those of\n"
      "fixed, bit for bit, and with embedding those of sparse within 1e-5 those of fp32");
  app.add_option("--within", o.within,
                 "Fail unless marsit ends at most so many percentage points below fp32")
      ->check(example::from_zero());

  example::parse(app, argc, argv);
  o.model = find_model(model);
  codecs = example::codec_list(codecs);
  if (codecs.empty()) {
    codecs = example::codec_list({std::string(o.model->codecs)});
    if (o.device == "cuda")
      std::erase_if(codecs, [](std::string const& codec) { return !is_on_device(codec); });
  }
  o.data = data.value_or(std::string(o.model->data));
  o.epochs = epochs.value_or(o.model->epochs);
  o.batch = batch.value_or(o.model->batch);
  if (!o.rate) o.rate = o.model->rate;
  if (!o.momentum) o.momentum = o.model->momentum;
  try {
    std::ranges::transform(codecs, std::back_inserter(o.trials), trial_from);
  } catch (std::invalid_argument const& why) {
    throw example::usage{fmt::format("--codec: {}\n", why.what()), 1};
  }
  add_mishaps(o.trials, late ? std::optional(share_from(*late)) : std::nullopt,
              lost ? std::optional(share_from(*lost)) : std::nullopt);
  add_addresses(o);
  if (!algorithm.empty()) o.algorithm = hcomp::algorithm::from(algorithm);
  if (o.algorithm && o.algorithm->hierarchical)
    throw CLI::ValidationError("--algorithm", "train's sums are not hierarchical");
  if (o.device == "cuda") require_what_devices_can(o);
  if (o.ranks > 0) require_what_threads_can(o);
  require_sparse_updates(o);
  auto const is_trained = [&](std::string const& name) {
    return std::ranges::find(o.trials, name, &trial::name) != o.trials.end();
  };
  if (o.within && !(is_trained("fp32") && is_trained("marsit")))
    throw example::usage{"--within compares marsit with fp32; both have to be among the --codec\n",
                         1};
  return o;
}

}  // namespace train
