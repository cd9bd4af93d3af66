#include "options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec_library.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <map>
#include <stdexcept>

#include "../support/command_line.hpp"
#include "device_codecs.hpp"
#include "plans.hpp"

namespace perf {
namespace {

constexpr char const* footer =
    "Example: mpirun -n 4 hcomp_perf -b 8K -e 64M -f 8 --codec identity,fp16,sign --check\n\n"
    "time     of a call: median over calls, then median over ranks; and that of the slowest rank\n"
    "busbw    size / time times 2 (P-1)/P: rate at which an ideal ring uses each link\n"
    "sent     bytes per call of the rank that sends most, by its transport; wire: by its "
    "interface\n"
    "vs MPI   speed-up: time of MPI_Allreduce of the raw vector / time\n"
    "bound    lower bound / time; lower bound: bytes that must leave a rank / rate of its link\n"
    "error    |result - exact sum| / |exact sum|, Euclidean norms over the whole vector";

/// Values of options that become members of `options` after all checks of the command line.
struct unconverted {
  std::vector<std::string> algorithms;
  std::string libraries;  ///< separated by ':'
};

CLI::AsNumberWithUnit with_unit(std::map<std::string, double> const& units, char const* name) {
  using number = CLI::AsNumberWithUnit;
  return number(
      units, static_cast<number::Options>(number::CASE_INSENSITIVE | number::UNIT_REQUIRED), name);
}

void add_vector_options(CLI::App& group, options& o) {
  auto const bytes = CLI::AsSizeValue(false);  // K is 1024
  group
      .add_option("-b,--min-bytes", o.min_bytes, "Smallest size of the raw vector, e.g. 8K or 64M")
      ->transform(bytes);
  group.add_option("-e,--max-bytes", o.max_bytes, "Largest size")->transform(bytes);
  group.add_option("-f,--factor", o.factor, "Ratio of consecutive sizes")
      ->check(CLI::Range(1.01, 1e6));
  group.add_option("-d,--type", o.type, "Type of the values")
      ->check(CLI::IsMember({"float", "double", "float16", "bfloat16"}));
  group.add_option("--input", o.input,
                   "Real vectors: a .npy file of float32 with one row per rank (train --dump)");
  group.add_option("--density", o.density, "Share of the generated values that are not 0")
      ->check(CLI::Range(0.0, 1.0));
  group.add_option("--seed", o.seed, "Seed of the generated values and of random codecs");
  group.add_flag("--mean", o.mean, "Compute the mean over the ranks, not the sum");
  group
      .add_option("--device", o.device,
                  "Memory of the vectors; cuda: values of type float, and not all codecs")
      ->check(CLI::IsMember({"host", "cuda"}));
}

void add_codec_options(CLI::App& group, options& o, unconverted& text) {
  group
      .add_option("--codec", o.codecs,
                  "Codecs of hcomp with settings, e.g. thc:bits=2,transform=1024; for comparison "
                  "also zfp:BITS (decompresses, adds, compresses again) and automatic (the fastest "
                  "of these codecs by the cost model); raw is always measured. hcomp-info lists "
                  "codecs and settings")
      ->take_all();
  group.add_option("--codecs", text.libraries,
                   "Shared objects with further codecs for --codec, separated by ':'");
}

void add_algorithm_options(CLI::App& group, options& o, unconverted& text) {
  group
      .add_option("--algorithm", text.algorithms,
                  "ring, torus, torus:RxC, direct, recursive_doubling, sampled (codec sign), or "
                  "aggregator: rank 0 reduces and replies; hierarchical, hierarchical:direct, ...: "
                  "exact inside nodes, this algorithm between nodes; without it, --advise covers "
                  "all algorithms")
      ->delimiter(',')
      ->take_all()
      ->check(example::algorithm_name());
  group
      .add_option("--transport", o.transports,
                  "Transports of hcomp's messages: mpi, ucx, or op (MPI_Allreduce with hcomp's "
                  "MPI_Op)")
      ->delimiter(',')
      ->take_all()
      ->check(CLI::IsMember({"mpi", "ucx", "op"}));
  group
      .add_option("--aggregator", o.aggregators,
                  "HOST:PORT of hcomp-aggregator: also measures thc and uniform_thc with it, over "
                  "UDP; several addresses share a vector")
      ->delimiter(',')
      ->take_all();
  group
      .add_option("--mpi-algorithm", o.mpi_algorithms,
                  "Further all-reduce algorithms of the MPI library for the raw vector, or all")
      ->delimiter(',')
      ->take_all();
  group.add_option("--threads", o.threads, "Threads per rank that encode, merge and decode")
      ->check(CLI::Range(1, 1024));
}

void add_measurement_options(CLI::App& group, options& o) {
  group.add_option("-n,--iters", o.calls, "Timed calls per size")->check(CLI::Range(1, 1000000));
  group.add_option("-w,--warm-up", o.warm_up, "Untimed calls before the timed ones")
      ->check(CLI::Range(1, 1000000));
  group
      .add_option("--seconds", o.seconds,
                  "Stop the calls of a size after this time, but not before 3 of each")
      ->check(example::above_zero());
  group.add_flag("-c,--check", o.check,
                 "Fail if results differ between ranks in a bit, or if an error exceeds the "
                 "codec's bound");
}

void add_network_options(CLI::App& group, options& o) {
  std::map<std::string, double> const rates{
      {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  std::map<std::string, double> const times{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  group.add_option("--rate", o.rate, "Rate of a rank's link, e.g. 1gbit; default: measured")
      ->transform(with_unit(rates, "RATE"));
  group.add_option("--latency", o.latency, "One-way latency, e.g. 50us; default: measured")
      ->transform(with_unit(times, "TIME"));
  group.add_option("--interface", o.interface,
                   "Network interface that counts the bytes on the wire, e.g. eth0");
  group.add_option("--label", o.label, "Name of this network in the report");
}

void add_model_options(CLI::App& group, options& o) {
  group.add_flag("--advise", o.advise,
                 "Print the fastest codec and algorithm by size, from the cost model; measures "
                 "only links and codecs");
  group.add_option("--ranks", o.ranks, "Advise for this number of ranks; default: those that run")
      ->check(CLI::Range(2, 1 << 20));
}

void add_output_options(CLI::App& group, options& o) {
  group.add_option("--json", o.json,
                   "Write all results to this file; examples/support/plot.py draws them");
  group.add_option("--csv", o.csv, "Write the table to this file");
}

/// A codec of the command line.
struct asked_codec {
  hcomp::codec_info const* facts;
  hcomp::codec_settings settings;
};
template <class T> asked_codec asked(std::string const& codec) {
  auto const named = hcomp::codec_from(codecs<T>(), codec);
  return {named.entry, named.settings};
}
asked_codec asked(std::string const& type, std::string const& codec) {
  if (type == "double") return asked<double>(codec);
  if (type == "float16") return asked<hcomp::float16>(codec);
  if (type == "bfloat16") return asked<hcomp::bfloat16>(codec);
  return asked<float>(codec);
}

bool is_on_device(asked_codec const& codec) {
  if (auto const sparse = sparse_codec::from(*codec.facts, codec.settings))
    return sparse->fixed == 32 || (sparse->fixed == 0 && sparse->strategies.packed);
  for (auto const* const name : variable_rate_on_device)
    if (codec.facts->is_called(name)) return true;
  bool found = false;
  device_codecs::for_each([&]<class C>() { found |= codec.facts->is_called(C::name); });
  return found && codec.settings.text().empty();
}

std::string algorithms_of(hcomp::codec_info const& codec) {
  std::string names;
  for (auto const kind : codec.algorithms)
    names += (names.empty() ? "" : ", ") + hcomp::algorithm{kind}.name();
  return names;
}

void require_positive(options const& o) {
  for (auto const& [option, value] : {std::pair{"--rate", o.rate}, {"--latency", o.latency}})
    if (value && !(*value > 0 && std::isfinite(*value)))
      example::refuse("{} {:g} is not a number above 0", option, *value);
}

std::vector<hcomp::algorithm> algorithms_from(std::vector<std::string> const& names) {
  std::vector<hcomp::algorithm> algorithms;
  for (auto const& name : names) algorithms.push_back(hcomp::algorithm::from(name));
  return algorithms;
}

std::vector<hcomp::algorithm> algorithms_to_advise_on() {
  auto algorithms = hcomp::all_algorithms();
  for (auto const* const name : {"hierarchical", "hierarchical:direct"})
    algorithms.push_back(hcomp::algorithm::from(name));
  return algorithms;
}

/// Registers the codecs of shared objects, separated by ':', for all types of values.
void add_codec_libraries(std::string const& libraries) {
  try {
    hcomp::codec_library::from(libraries).add_to(
        codecs<float>(), codecs<double>(), codecs<hcomp::float16>(), codecs<hcomp::bfloat16>());
  } catch (std::invalid_argument const& why) {
    example::refuse("--codecs {}: {}", libraries, why.what());
  }
}

/// A cast of values to their own type is identity, which is measured once.
void replace_cast_to_own_type(std::vector<std::string>& codecs, std::string const& type) {
  std::string const cast = type == "float16" ? "fp16" : type == "bfloat16" ? "bf16" : "";
  if (cast.empty()) return;
  if (std::ranges::find(codecs, "identity") != codecs.end())
    std::erase(codecs, cast);
  else
    std::ranges::replace(codecs, cast, "identity");
}

void check_codec(options const& o, std::string const& codec) {
  auto const [facts, settings] = [&] {
    try {
      return asked(o.type, codec);
    } catch (std::invalid_argument const& why) {
      example::refuse("--codec {}, --type {}: {}", codec, o.type, why.what());
    }
  }();
  auto const supported = [facts = facts](hcomp::algorithm const& one) {
    return std::ranges::find(facts->algorithms, one.kind) != facts->algorithms.end();
  };
  if (std::ranges::none_of(o.algorithms, supported))
    example::refuse("--codec {} has no algorithm of --algorithm; it has: {}", codec,
                    algorithms_of(*facts));
  if (std::ranges::count(o.transports, "op") == std::ssize(o.transports) &&
      !has_op(*facts, settings))
    example::refuse("--codec {} has no MPI_Op: --transport mpi or ucx", codec);
}

void check_aggregators(options const& o) {
  if (o.aggregators.empty()) return;
  if (std::ranges::none_of(o.codecs, [&](std::string const& codec) {
        return !is_own(codec) && has_indices(*asked(o.type, codec).facts);
      }))
    example::refuse(
        "--aggregator: it adds the indices of thc and uniform_thc; --codec has neither");
  if (o.type != "float") example::refuse("--aggregator: --type {}, it can be float", o.type);
  if (o.advise)
    example::refuse(
        "--aggregator: --advise runs no all-reduce; its prediction for hcomp-aggregator needs no "
        "address");
}

void check_sizes(options const& o) {
  if (o.min_bytes > o.max_bytes)
    example::refuse("--min-bytes {} is more than --max-bytes {}", o.min_bytes, o.max_bytes);
  if (o.min_bytes < 8) example::refuse("--min-bytes {} is less than one value", o.min_bytes);
}

void check_input(options const& o) {
  if (!o.input.empty() && o.type != "float")
    example::refuse("--input holds float32 values, --type is {}", o.type);
}

void check_device(options const& o) {
  if (o.device != "cuda") return;
  auto const refuse = [](std::string const& option, std::string const& supported) {
    example::refuse("{}: --device cuda supports {}", option, supported);
  };
  if (o.type != "float") refuse("--type " + o.type, "float only");
  for (auto const& codec : o.codecs)
    if (codec != "raw" && (is_own(codec) || !is_on_device(asked<float>(codec))))
      refuse("--codec " + codec,
             "identity, fp16, sign, thc, inceptionn:E, error_bounded:BOUND, lossless_sparse "
             "(packed floats or fixed=32) and raw");
  if (std::ranges::find(o.transports, "op") != o.transports.end())
    refuse("--transport op", "mpi and ucx");
  if (!o.aggregators.empty()) refuse("--aggregator", "no aggregators");
  if (o.threads > 1) refuse(fmt::format("--threads {}", o.threads), "--threads 1 only");
  if (o.advise)
    example::refuse("--advise: the cost model covers vectors in host memory, not --device cuda");
}

}  // namespace

bool is_own(std::string_view codec) { return codec == "raw" || codec == "automatic"; }

std::optional<sparse_codec> sparse_codec::from(hcomp::codec_info const& codec,
                                               hcomp::codec_settings const& settings) {
  if (!codec.is_called("lossless_sparse")) return {};
  return sparse_codec{{.dense = settings.yes("dense"),
                       .packed = settings.yes("packed"),
                       .sketched = settings.yes("sketched")},
                      settings.whole("fixed")};
}

bool has_op(hcomp::codec_info const& codec, hcomp::codec_settings const& settings) {
  if (codec.is_called("lossless_sparse") || codec.is_called("zfp")) return true;
  bool found = false;
  hcomp::builtin_codecs<float>::for_each([&]<class C>() { found |= codec.is_called(C::name); });
  return found && settings.text().empty();
}

bool has_indices(hcomp::codec_info const& codec) {
  return codec.is_called("thc") || codec.is_called("uniform_thc");
}

std::vector<std::size_t> sizes(options const& o, std::size_t value_bytes) {
  std::vector<std::size_t> counts;
  for (double bytes = static_cast<double>(o.min_bytes); bytes <= static_cast<double>(o.max_bytes);
       bytes *= o.factor) {
    auto const count = static_cast<std::size_t>(bytes) / value_bytes;
    if (counts.empty() || counts.back() != count) counts.push_back(count);
  }
  return counts;
}

options parse(int argc, char const* const* argv) {
  options o;
  unconverted text;
  for (auto const& algorithm : o.algorithms) text.algorithms.push_back(algorithm.name());
  CLI::App app(
      "Benchmarks all-reduces on the ranks that run it: hcomp's codecs and algorithms, in turns "
      "with the MPI library's all-reduce of the raw vector.",
      "hcomp_perf");
  app.footer(footer);
  app.option_defaults()->always_capture_default()->take_last();  // a script's options come first
  add_vector_options(*app.add_option_group("Vectors"), o);
  add_codec_options(*app.add_option_group("Codecs"), o, text);
  add_algorithm_options(*app.add_option_group("Algorithms"), o, text);
  add_measurement_options(*app.add_option_group("Measurement"), o);
  add_network_options(*app.add_option_group("Network"), o);
  add_model_options(*app.add_option_group("Cost model"), o);
  add_output_options(*app.add_option_group("Output"), o);
  example::parse(app, argc, argv);

  o.algorithms = o.advise && app.count("--algorithm") == 0 ? algorithms_to_advise_on()
                                                           : algorithms_from(text.algorithms);
  require_positive(o);
  o.codecs = example::codec_list(o.codecs);
  add_codec_libraries(text.libraries);
  replace_cast_to_own_type(o.codecs, o.type);
  for (auto const& codec : o.codecs)
    if (!is_own(codec)) check_codec(o, codec);
  check_aggregators(o);
  check_sizes(o);
  check_device(o);
  check_input(o);
  return o;
}

}  // namespace perf
