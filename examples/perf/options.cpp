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

std::map<std::string, double> const rate_units{
    {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
std::map<std::string, double> const time_units{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

/// A codec as it is asked for.
struct asked_codec {
  hcomp::codec_info const* facts;
  hcomp::codec_settings settings;
};
template <class T> asked_codec asked(std::string const& codec) {
  auto const named = hcomp::codec_from(codecs<T>(), codec);
  return {named.row, named.settings};
}
asked_codec asked(std::string const& type, std::string const& codec) {
  if (type == "double") return asked<double>(codec);
  if (type == "float16") return asked<hcomp::float16>(codec);
  if (type == "bfloat16") return asked<hcomp::bfloat16>(codec);
  return asked<float>(codec);
}

bool is_on_device(asked_codec const& codec) {
  if (auto const sparse = sparse_codec::from(*codec.facts, codec.settings))
    return sparse->fixed == 32 || (sparse->fixed == 0 && sparse->ways.packed);
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
  std::vector<std::string> algorithms;
  std::string libraries;
  for (auto const& how : o.algorithms) algorithms.push_back(how.name());
  CLI::App app(
      "Times all-reduces over the ranks it is started on: hcomp's codecs and algorithms, and the "
      "MPI library's own of the raw vector, in turns.",
      "hcomp_perf");
  app.footer(
      "Example: mpirun -n 4 hcomp_perf -b 8K -e 64M -f 8 --codec identity,fp16,sign --check\n\n"
      "time     of a call: median over the calls, then median over the ranks, and the slowest "
      "rank's\n"
      "busbw    size / time times 2 (P-1)/P: what a perfect ring moves over each link\n"
      "sent     by the rank that sends most, per call, by its transport's count; wire: by its "
      "interface's\n"
      "vs MPI   time of the raw vector's MPI_Allreduce / time\n"
      "bound    bytes that must leave a rank / rate of its link, as a share of the time\n"
      "error    |result - exact sum| / |exact sum|, Euclidean norms over the whole vector");
  app.option_defaults()->always_capture_default()->take_last();  // a script's options come first

  auto const bytes = CLI::AsSizeValue(false);  // K is 1024
  auto const rate = CLI::AsNumberWithUnit(
      rate_units,
      static_cast<CLI::AsNumberWithUnit::Options>(CLI::AsNumberWithUnit::CASE_INSENSITIVE |
                                                  CLI::AsNumberWithUnit::UNIT_REQUIRED),
      "RATE");
  auto const time = CLI::AsNumberWithUnit(
      time_units,
      static_cast<CLI::AsNumberWithUnit::Options>(CLI::AsNumberWithUnit::CASE_INSENSITIVE |
                                                  CLI::AsNumberWithUnit::UNIT_REQUIRED),
      "TIME");

  auto* const what = app.add_option_group("What is summed");
  what->add_option("-b,--min-bytes", o.min_bytes, "Smallest size of the raw vector, as 8K or 64M")
      ->transform(bytes);
  what->add_option("-e,--max-bytes", o.max_bytes, "Largest size")->transform(bytes);
  what->add_option("-f,--factor", o.factor, "From one size to the next")
      ->check(CLI::Range(1.01, 1e6));
  what->add_option("-d,--type", o.type, "Type of the values")
      ->check(CLI::IsMember({"float", "double", "float16", "bfloat16"}));
  what->add_option("--input", o.input,
                   "Real vectors: a .npy file of float32 with a row per rank (train --dump)");
  what->add_option("--density", o.density, "Share of the generated values that are not 0")
      ->check(CLI::Range(0.0, 1.0));
  what->add_option("--seed", o.seed, "Of the generated values and of random codecs");
  what->add_flag("--mean", o.mean, "The mean over the ranks, not the sum");
  what->add_option("--device", o.device,
                   "Where the vectors lie; cuda: of float, and not by all codecs")
      ->check(CLI::IsMember({"host", "cuda"}));

  auto* const how = app.add_option_group("How");
  how->add_option(
         "--codec", o.codecs,
         "hcomp's codecs with their settings, as thc:bits=2,transform=1024; to compare with "
         "zfp:BITS (decompresses, adds, recompresses), automatic (the fastest of the others, "
         "expected); 'raw' is always there. hcomp-info lists codecs and settings")
      ->take_all();
  how->add_option("--codecs", libraries,
                  "Shared objects with more codecs for --codec, with ':' between them");
  auto* const algorithm = how->add_option(
      "--algorithm", algorithms,
      "ring, torus, torus:RxC, direct, recursive_doubling, sampled (of sign), or aggregator: rank "
      "0 "
      "sums and answers; hierarchical, hierarchical:direct, ...: exact inside nodes, by that "
      "between them; --advise is about all of them if none is said");
  algorithm->delimiter(',')->take_all()->check(example::algorithm_name());
  how->add_option("--transport", o.transports,
                  "What moves hcomp's bytes: mpi, ucx, or op (MPI_Allreduce with hcomp's MPI_Op)")
      ->delimiter(',')
      ->take_all()
      ->check(CLI::IsMember({"mpi", "ucx", "op"}));
  how->add_option("--aggregator", o.aggregators,
                  "HOST:PORT of hcomp-aggregator: sums of thc and uniform_thc by it as well, over "
                  "UDP; several addresses share a vector")
      ->delimiter(',')
      ->take_all();
  how->add_option("--mpi-algorithm", o.mpi_algorithms,
                  "More ways of the MPI library to sum the raw vector, or all")
      ->delimiter(',')
      ->take_all();
  how->add_option("--threads", o.threads, "Threads per rank that encode, merge and decode")
      ->check(CLI::Range(1, 1024));

  auto* const measure = app.add_option_group("Measuring");
  measure->add_option("-n,--iters", o.calls, "Timed calls per size")->check(CLI::Range(1, 1000000));
  measure->add_option("-w,--warm-up", o.warm_up, "Calls before them")
      ->check(CLI::Range(1, 1000000));
  measure
      ->add_option("--seconds", o.seconds,
                   "Stop a size's calls after this time, but not before 3 of each")
      ->check(example::above_zero());
  measure->add_flag("-c,--check", o.check,
                    "Fail if ranks differ in a bit, or the error exceeds what the codec states");

  auto* const network = app.add_option_group("Network");
  network->add_option("--rate", o.rate, "Rate of a rank's link, as 1gbit; if not said, measured")
      ->transform(rate);
  network->add_option("--latency", o.latency, "One way, as 50us; if not said, measured")
      ->transform(time);
  network->add_option("--interface", o.interface,
                      "Network interface whose counters tell the bytes on the wire, as eth0");
  network->add_option("--label", o.label, "A name for this network in the report");

  auto* const model = app.add_option_group("Model");
  model->add_flag("--advise", o.advise,
                  "Say what is fastest from which size on, by the cost model; measures only links "
                  "and codecs");
  model->add_option("--ranks", o.ranks, "Advise for so many ranks, not those that run")
      ->check(CLI::Range(2, 1 << 20));

  auto* const output = app.add_option_group("Output");
  output->add_option("--json", o.json,
                     "Write all results to this file; examples/support/plot.py draws them");
  output->add_option("--csv", o.csv, "Write the table to this file");

  example::parse(app, argc, argv);
  o.algorithms.clear();
  for (auto const& name : algorithms) o.algorithms.push_back(hcomp::algorithm::from(name));
  if (o.advise && algorithm->empty()) {
    o.algorithms = hcomp::all_algorithms();
    for (auto const* const name : {"hierarchical", "hierarchical:direct"})
      o.algorithms.push_back(hcomp::algorithm::from(name));
  }
  auto const refuse = [](std::string const& why) { throw example::usage{why + "\n", 1}; };
  for (auto const& [option, figure] : {std::pair{"--rate", o.rate}, {"--latency", o.latency}})
    if (figure && !(*figure > 0 && std::isfinite(*figure)))
      refuse(fmt::format("{} {:g} is no number above 0", option, *figure));
  o.codecs = example::codec_list(o.codecs);
  try {
    hcomp::codec_library::from(libraries).add_to(
        codecs<float>(), codecs<double>(), codecs<hcomp::float16>(), codecs<hcomp::bfloat16>());
  } catch (std::invalid_argument const& why) {
    refuse(fmt::format("--codecs {}: {}", libraries, why.what()));
  }
  // a cast of values to their own type is identity
  std::string const cast = o.type == "float16" ? "fp16" : o.type == "bfloat16" ? "bf16" : "";
  if (std::ranges::find(o.codecs, "identity") != o.codecs.end())
    std::erase(o.codecs, cast);
  else
    std::ranges::replace(o.codecs, cast, "identity");
  bool some_have_indices = false;
  for (auto const& codec : o.codecs) {
    if (is_own(codec)) continue;
    auto const [facts, settings] = [&] {
      try {
        return asked(o.type, codec);
      } catch (std::invalid_argument const& why) {
        throw example::usage{fmt::format("--codec {}, --type {}: {}\n", codec, o.type, why.what()),
                             1};
      }
    }();
    some_have_indices |= has_indices(*facts);
    if (std::ranges::none_of(o.algorithms, [facts = facts](auto const& one) {
          return std::ranges::find(facts->algorithms, one.kind) != facts->algorithms.end();
        }))
      refuse(
          fmt::format("--codec {} has no algorithm: there are {}", codec, algorithms_of(*facts)));
    if (std::ranges::all_of(o.transports, [](auto const& by) { return by == "op"; }) &&
        !has_op(*facts, settings))
      refuse(fmt::format("--codec {} has no MPI_Op: --transport mpi or ucx", codec));
  }
  if (!o.aggregators.empty()) {
    if (!some_have_indices)
      refuse("--aggregator: it adds the indices of thc and uniform_thc; --codec has neither");
    if (o.type != "float") refuse("--aggregator: --type " + o.type + ", it can be float");
    if (o.advise)
      refuse(
          "--aggregator: --advise makes no sums; what it expects of hcomp-aggregator needs no "
          "address");
  }
  if (o.min_bytes > o.max_bytes)
    refuse(fmt::format("--min-bytes {} is more than --max-bytes {}", o.min_bytes, o.max_bytes));
  if (o.min_bytes < 8) refuse(fmt::format("--min-bytes {} is less than one value", o.min_bytes));
  if (o.device == "cuda") {
    auto const there_are = [&](std::string const& option, std::string const& names) {
      refuse(fmt::format("{}: with --device cuda there are {}", option, names));
    };
    if (o.type != "float") there_are("--type " + o.type, "vectors of float only");
    for (auto const& codec : o.codecs)
      if (codec != "raw" && (is_own(codec) || !is_on_device(asked<float>(codec))))
        there_are(
            "--codec " + codec,
            "identity, fp16, sign, thc, inceptionn:E, error_bounded:BOUND, lossless_sparse (but no "
            "sketches of floats, and fixed=32) and raw");
    if (std::ranges::find(o.transports, "op") != o.transports.end())
      there_are("--transport op", "mpi and ucx");
    if (!o.aggregators.empty()) there_are("--aggregator", "none");
    if (o.threads > 1) there_are(fmt::format("--threads {}", o.threads), "none");
    if (o.advise) refuse("--advise is about vectors in host memory, not about --device cuda");
  }
  if (!o.input.empty() && o.type != "float")
    refuse(fmt::format("--input holds float32 values, --type is {}", o.type));
  return o;
}

}  // namespace perf
