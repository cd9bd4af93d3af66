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

/// Applies --late and --lost to every codec that has none of its own.
void add_mishaps(std::vector<trial>& trials, std::optional<double> late,
                 std::optional<double> lost) {
  if (!late && !lost) return;
  for (auto& one : trials) {
    if (!one.how->aggregated)
      example::refuse("--{} {}: {} has no aggregator; these have: {}", late ? "late" : "lost",
                      late ? *late : *lost, one.how->name, names_of_aggregated());
    if (!one.by_aggregators) one.by_aggregators = mishaps{late.value_or(0), lost.value_or(0)};
  }
}

/// Applies --aggregator to every codec that has an aggregator.
void add_addresses(options& o) {
  if (o.aggregators.empty()) return;
  bool found = false;
  for (auto& one : o.trials) {
    if (!one.how->aggregated) continue;
    found = true;
    if (!one.by_aggregators) one.by_aggregators.emplace();
    if (one.by_aggregators->lost > 0)
      example::refuse("--codec {}: with --aggregator packets get lost where the network loses them",
                      one.name());
  }
  if (!found)
    example::refuse("--aggregator {}: it adds for {}; --codec has none of these",
                    fmt::join(o.aggregators, ","), names_of_aggregated());
}

bool is_on_device(std::string_view codec) {
  return std::ranges::find(methods_on_device, codec) != methods_on_device.end();
}

void require_device_support(options const& o) {
  if (o.model->name != "mlp")
    example::refuse("--model {}: --device cuda is for mlp only", o.model->name);
  for (auto const& one : o.trials) {
    if (!is_on_device(one.how->name))
      example::refuse("--codec {}: --device cuda supports {}", one.how->name,
                      fmt::join(methods_on_device, ", "));
    if (one.by_aggregators)
      example::refuse("--codec {}: --device cuda has no aggregators, nothing is late or lost",
                      one.name());
  }
  if (o.threads > 1)
    example::refuse("--threads {}: --device cuda supports --threads 1 only", o.threads);
}

/// Ranks that are threads of one process have no device and no transport between processes.
void require_thread_support(options const& o) {
  auto const refuse = [&](std::string const& what) {
    example::refuse("--ranks {}: threads of one process cannot have {}", o.ranks, what);
  };
  if (o.device != "host") refuse("--device " + o.device);
  if (o.transport != "mpi") refuse("--transport " + o.transport);
  if (!o.dump.empty()) refuse("--dump");
}

/// Methods that send signs move every parameter in every step.
void require_sparse_updates(options const& o) {
  for (auto const& one : o.trials)
    if (o.model->is_sparse && one.how->sign_step > 0)
      example::refuse(
          "--model {}: {} would move all parameters in every step, and most are to stay",
          o.model->name, one.how->name);
}

/// Values of options that become members of `options` later, with the defaults of the model.
struct unconverted {
  std::vector<std::string> codecs;
  std::string model{models.front().name};
  std::optional<std::string> late, lost, data;
  std::optional<double> epochs;
  std::optional<int> batch;
  std::string algorithm;
};

constexpr char const* late_and_lost =
    "Late ranks and packet loss: with :late=SHARE or :lost=SHARE after a codec's name, or with\n"
    "--late or --lost, ranks send indices to aggregators and receive sums. Each rank runs the\n"
    "aggregator of its share of the chunks, in a thread.\n"
    "  late  In this share of its steps, a rank begins only after the deadline, when aggregators\n"
    "        have sent the sums without it. Its contribution stays in its error feedback.\n"
    "  lost  This share of all packets (1024 indices or sums, or 256 norms) never arrives, in\n"
    "        either direction. Lost norms are sent again, lost indices stay in the error\n"
    "        feedback. A lost sum is 0 in the rotated domain: no update there, on that rank.\n"
    "        Replicas therefore drift apart; after every --resync epochs and at the end they are\n"
    "        averaged.\n"
    "Both are drawn from the seed, independently on every rank. The time until deadlines is\n"
    "simulated: no rank waits for it, and results do not depend on the speed of the machine.\n"
    "The table includes the time of the simulation, the plot does not.\n"
    "With --aggregator, hcomp-aggregator adds, a separate process, in real time. Packets are lost\n"
    "where the network loses them, and are sent again.";

std::string footer() {
  return "Models:\n" + known_models() + "\nCodecs:\n" + known_methods() +
         "and all codecs of hcomp (hcomp-info), for a plain mean. Settings follow the name, e.g.\n"
         "thc:bits=2,transform=1024.\n\n"
         "With mlp, each codec has its own tuned learning rate, momentum and sign step. With\n"
         "embedding, all codecs have one tuned learning rate and no momentum. --lr, --momentum "
         "and\n"
         "--sign-step replace them for all codecs.\n\n" +
         late_and_lost;
}

void add_model_options(CLI::App& group, options& o, unconverted& text) {
  group.add_option("--model", text.model, "Model to train; see below")
      ->check(CLI::IsMember(model_names()));
  group.add_option("--data", text.data,
                   "mlp: folder with the IDX files of (Fashion-)MNIST; embedding: file with text,\n"
                   "plain or compressed by gzip or dictzip; or 'synthetic' for a small set");
  group.add_option("--hidden", o.hidden, "mlp: widths of the hidden layers")
      ->delimiter(',')
      ->take_all()
      ->check(CLI::Range(1, 1 << 16));
  group
      .add_option("--vocabulary", o.words.vocabulary,
                  "embedding: largest number of words that have vectors, the most frequent ones")
      ->check(CLI::Range(2, 1 << 22));
  group.add_option("--dimension", o.vectors.dimension, "embedding: numbers in a vector")
      ->check(CLI::Range(1, 1 << 12));
}

void add_codec_options(CLI::App& group, options& o, unconverted& text) {
  group
      .add_option("--codec", text.codecs,
                  fmt::format("Codecs, each trained in a run of its own. Default:\n"
                              "with mlp {}\nand with embedding {}",
                              models[0].codecs, models[1].codecs))
      ->take_all();
  group
      .add_option("--algorithm", text.algorithm,
                  "All-reduce algorithm: ring, torus, torus:RxC, direct, recursive_doubling, or\n"
                  "sampled: marsit sends half the bytes, all other codecs use ring. Default:\n"
                  "direct for sparse, sparse_fixed and top_k, ring for all other codecs")
      ->check(example::algorithm_name());
  group
      .add_option(
          "--period", o.period,
          "marsit, marsit_full: steps from one in full precision to the next; local_sgd: from\n"
          "one averaging of the parameters to the next")
      ->check(example::above_zero());
  group.add_option("--warm-up", o.warm_up, "marsit: number of first steps in full precision")
      ->check(example::from_zero());
  group.add_option("--powersgd-rank", o.powersgd_rank, "powersgd: rank of a matrix's update")
      ->check(CLI::Range(1, 1 << 16));
  group
      .add_option("--flush-limit", o.flush_limit,
                  "marsit: largest move of a parameter in a step in full precision")
      ->check(example::above_zero());
}

void add_aggregator_options(CLI::App& group, options& o, unconverted& text) {
  group
      .add_option("--late", text.late,
                  "Share of each rank's contributions that come too late; see below")
      ->check(readable("SHARE", share_from));
  group.add_option("--lost", text.lost, "Share of all packets that get lost; see below")
      ->check(readable("SHARE", share_from));
  group
      .add_option("--aggregator", o.aggregators,
                  "HOST:PORT of hcomp-aggregator, which adds for codecs that have an aggregator;\n"
                  "several share a vector")
      ->delimiter(',')
      ->take_all();
  group
      .add_option("--deadline", o.deadline_ms,
                  "Milliseconds after which hcomp-aggregator adds no more to a sum; must exceed\n"
                  "the delay between ranks")
      ->check(CLI::Range(1, 60'000))
      ->needs("--aggregator");
  group
      .add_option("--resync", o.resync,
                  "Epochs between averagings of replicas that drift apart by packet loss;\n"
                  "0: only at the end")
      ->check(example::from_zero());
}

void add_execution_options(CLI::App& group, options& o) {
  group
      .add_option("--device", o.device,
                  fmt::format("Memory of parameters, gradients and all-reduces. cuda: GPU memory;\n"
                              "ranks of a node that has fewer GPUs share them; mlp only, with\n{}",
                              fmt::join(methods_on_device, ", ")))
      ->check(CLI::IsMember({"host", "cuda"}));
  group.add_option("--transport", o.transport, "Transport of the messages")
      ->check(CLI::IsMember({"mpi", "ucx"}));
  group
      .add_option("--ranks", o.ranks,
                  "Number of ranks that are threads of one process, started without mpirun;\n"
                  "0: the ranks are those of MPI")
      ->check(CLI::Range(0, 1024));
  group
      .add_option("--link", o.link,
                  "Gbit/s at which each rank may send, to emulate a slower network; 0: no limit")
      ->check(example::from_zero());
  group.add_option("--threads", o.threads, "Threads per rank that encode and decode")
      ->check(CLI::Range(1, 1024));
}

void add_training_options(CLI::App& group, options& o, unconverted& text) {
  group.add_option("--epochs", text.epochs, "Passes over the training set; fractions are allowed")
      ->check(example::above_zero());
  group.add_option("--batch", text.batch, "Images or words per rank and step")
      ->check(CLI::Range(1, 1 << 20));
  group
      .add_option("--partition", o.partition,
                  "Images of a rank. shuffled: a share of each epoch's shuffle of all images;\n"
                  "by_label: a fixed part of the images sorted by label, shuffled in each epoch")
      ->check(CLI::IsMember({"shuffled", "by_label"}));
  group.add_option("--lr", o.rate, "Initial learning rate; it decreases linearly to 0")
      ->check(example::above_zero());
  group.add_option("--momentum", o.momentum, "Momentum of each rank's own gradient")
      ->check(CLI::Range(0.0, 0.9999));
  group
      .add_option("--sign-step", o.sign_step,
                  "Initial move of a parameter by one sign; decreases to 0 like the rate")
      ->check(example::above_zero());
  group.add_option("--seed", o.seed, "Seed of weights, shuffles and random bits");
  group
      .add_option("--seeds", o.seeds,
                  "Number of seeds to train with, from --seed on; reports the mean")
      ->check(CLI::Range(1, 1000));
}

void add_output_options(CLI::App& group, options& o) {
  group.add_option("--json", o.json,
                   "Write all results to this file; to draw them:\n"
                   "examples/support/plot.py results/train.json -o results/train.svg");
  group.add_option("--dump", o.dump,
                   "Write the gradients of one step to this .npy file, one row per rank, which\n"
                   "hcomp_perf --input reads; of the first codec and seed");
  group.add_option("--dump-step", o.dump_step, "Step of --dump, counted from 1")
      ->check(example::above_zero());
  group.add_flag("--check", o.check,
                 "Fail unless every training loss is finite and fell, losses of sparse_fixed are\n"
                 "bit-identical to those of fixed, and with embedding those of sparse are within\n"
                 "1e-5 of those of fp32");
  group
      .add_option("--within", o.within,
                  "Fail unless marsit ends at most this many percentage points below fp32")
      ->check(example::from_zero());
}

void read(int argc, char const* const* argv, options& o, unconverted& text) {
  CLI::App app("Trains a model with data parallelism, once per codec, and compares the results.",
               "train");
  app.footer(footer());
  app.option_defaults()->always_capture_default()->take_last();  // a script's options come first
  add_model_options(*app.add_option_group("Model"), o, text);
  add_codec_options(*app.add_option_group("Codecs"), o, text);
  add_aggregator_options(*app.add_option_group("Aggregators"), o, text);
  add_execution_options(*app.add_option_group("Execution"), o);
  add_training_options(*app.add_option_group("Training"), o, text);
  add_output_options(*app.add_option_group("Output"), o);
  example::parse(app, argc, argv);
}

std::vector<std::string> codecs_from(unconverted const& text, options const& o) {
  auto codecs = example::codec_list(text.codecs);
  if (!codecs.empty()) return codecs;
  codecs = example::codec_list({std::string(o.model->codecs)});
  if (o.device == "cuda")
    std::erase_if(codecs, [](std::string const& codec) { return !is_on_device(codec); });
  return codecs;
}

std::vector<trial> trials_from(std::vector<std::string> const& codecs, unconverted const& text) {
  std::vector<trial> trials;
  try {
    std::ranges::transform(codecs, std::back_inserter(trials), trial_from);
  } catch (std::invalid_argument const& why) {
    example::refuse("--codec: {}", why.what());
  }
  auto const share = [](std::optional<std::string> const& of) {
    return of ? std::optional(share_from(*of)) : std::nullopt;
  };
  add_mishaps(trials, share(text.late), share(text.lost));
  return trials;
}

/// --within compares two trials.
void require_both_of_within(options const& o) {
  auto const is_trained = [&](std::string const& name) {
    return std::ranges::find(o.trials, name, &trial::name) != o.trials.end();
  };
  if (o.within && !(is_trained("fp32") && is_trained("marsit")))
    example::refuse("--within compares marsit with fp32; --codec must name both");
}

}  // namespace

options parse(int argc, char const* const* argv) {
  options o;
  unconverted text;
  read(argc, argv, o, text);
  o.model = find_model(text.model);
  o.data = text.data.value_or(std::string(o.model->data));
  o.epochs = text.epochs.value_or(o.model->epochs);
  o.batch = text.batch.value_or(o.model->batch);
  if (!o.rate) o.rate = o.model->rate;
  if (!o.momentum) o.momentum = o.model->momentum;
  o.trials = trials_from(codecs_from(text, o), text);
  add_addresses(o);
  if (!text.algorithm.empty()) o.algorithm = hcomp::algorithm::from(text.algorithm);
  if (o.algorithm && o.algorithm->hierarchical)
    example::refuse("--algorithm: train's all-reduces are not hierarchical");
  if (o.partition == "by_label" && !o.model->has_accuracy)
    example::refuse("--model {}: its examples have no labels for --partition by_label",
                    o.model->name);
  if (o.device == "cuda") require_device_support(o);
  if (o.ranks > 0) require_thread_support(o);
  require_sparse_updates(o);
  require_both_of_within(o);
  return o;
}

}  // namespace train
