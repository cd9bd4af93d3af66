#include "options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <hcomp/codec/error_bounded_options.hpp>
#include <hcomp/codec/inceptionn_options.hpp>
#include <hcomp/codec/registry.hpp>
#include <map>

#include "../support/command_line.hpp"
#include "device_codecs.hpp"

namespace perf {
namespace {

std::map<std::string, double> const rate_units{
    {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
std::map<std::string, double> const time_units{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

bool is_owner(hcomp::algorithm const& how) { return how.kind == hcomp::algorithm_kind::owner; }

bool is_on_device(std::string const& codec) {
  if (auto const sparse = sparse_name::from(codec))  // there are no sketches of floats
    return sparse->fixed_point || sparse->ways.packed;
  if (auto const stream = stream_name::from(codec))
    return stream->bound_exponent > 0 || stream->bound > 0;
  try {
    device_codecs::with(registry_name(codec), []<class C>() {});
    return true;
  } catch (std::invalid_argument const&) {
    return false;
  }
}

/// Refuses a name that is no codec's of any type of values.
template <class Refuse> void require_codec(std::string const& name, Refuse const& refuse) {
  if (!is_registered(name)) return;
  try {
    hcomp::builtin_codecs<float>::with(registry_name(name), []<class C>() {});
  } catch (std::invalid_argument const& e) {
    refuse(std::string(e.what()) +
           "; hcomp_perf also: fp16, bf16, zfp:BITS, automatic, raw, and sparse_sum, sparse_union, "
           "lhc, each with :u32 after it or not; and inceptionn, inceptionn:1 to "
           "inceptionn:14, error_bounded:1e-30 to error_bounded:1e30");
  }
}

}  // namespace

std::optional<sparse_name> sparse_name::from(std::string_view codec) {
  constexpr std::string_view suffix = ":u32";
  bool const fixed_point = codec.ends_with(suffix);
  if (fixed_point) codec.remove_suffix(suffix.size());
  if (codec == "sparse_sum") return sparse_name{{}, fixed_point};
  if (codec == "sparse_union") return sparse_name{{.dense = false, .sketched = false}, fixed_point};
  if (codec == "lhc") return sparse_name{{.dense = false, .packed = false}, fixed_point};
  return {};
}

std::optional<stream_name> stream_name::from(std::string_view codec) {
  if (codec == "inceptionn") return stream_name{hcomp::inceptionn_options{}.bound_exponent};
  for (int exponent = 1; exponent <= 14; ++exponent)
    if (codec == fmt::format("inceptionn:{}", exponent)) return stream_name{exponent};
  constexpr std::string_view prefix = "error_bounded:";
  if (!codec.starts_with(prefix)) return {};
  codec.remove_prefix(prefix.size());
  double bound = 0;
  auto const [end, error] = std::from_chars(codec.data(), codec.data() + codec.size(), bound);
  if (error != std::errc() || end != codec.data() + codec.size() ||
      !hcomp::detail::is_possible(hcomp::error_bounded_options{.bound = bound}))
    return {};
  return stream_name{.bound = bound};
}

bool sums_streams(hcomp::algorithm const& how) {
  return how.kind != hcomp::algorithm_kind::owner && how.kind != hcomp::algorithm_kind::doubling;
}

bool is_registered(std::string const& codec) {
  return codec != "raw" && codec != "automatic" && !codec.starts_with("zfp:") &&
         !sparse_name::from(codec) && !stream_name::from(codec);
}

std::string registry_name(std::string const& codec) {
  if (codec == "fp16" || codec == "bf16") return "float_cast:" + codec;
  return codec;
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
  for (auto const& how : o.algorithms) algorithms.push_back(how.name());
  CLI::App app(
      "Times all-reduces over the ranks it is started on: hcomp's codecs and algorithms, and the "
      "MPI library's own of the raw vector, in turns.",
      "hcomp_perf");
  app.footer(
      "Example: mpirun -n 4 hcomp_perf -b 8K -e 64M -f 8 --codec identity,fp16,sign --check\n\n"
      "time     seconds of a call: median over the calls, then median, least, most of the ranks\n"
      "algbw    size / time; busbw: that times 2 (P-1)/P, what a perfect ring moves over each "
      "link\n"
      "sent     bytes per rank and call, by the transport's count; wire: by the interface's\n"
      "vs MPI   time of the raw vector's MPI_Allreduce / time, median over the calls\n"
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
         "hcomp's codecs, fp16 and bf16 for short (of such values: identity), zfp:BITS "
         "(decompress, add, recompress on our ring), for floats that are mostly zeros "
         "sparse_sum, sparse_union, lhc (:u32 after it: in fixed point), inceptionn:E (bound "
         "2^-E of the largest value), error_bounded:BOUND (every value of the sum at most BOUND "
         "off), or automatic; "
         "'raw' is always there")
      ->delimiter(',')
      ->take_all();
  how->add_option(
         "--algorithm", algorithms,
         "ring, torus, torus:RxC, direct, doubling, owner (of sign), or aggregator: rank 0 "
         "sums and answers")
      ->delimiter(',')
      ->take_all()
      ->check(example::algorithm_name());
  how->add_option("--transport", o.transports,
                  "What moves hcomp's bytes: mpi, ucx, or op (MPI_Allreduce with hcomp's MPI_Op)")
      ->delimiter(',')
      ->take_all()
      ->check(CLI::IsMember({"mpi", "ucx", "op"}));
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
  output->add_option("--json", o.json, "Write all figures to this file");
  output->add_option("--csv", o.csv, "Write the table to this file");
  output->add_option("--plot", o.plot, "Write a page with charts to this HTML file (gnuplot)");
  output
      ->add_option("--report-from", o.reports_from,
                   "Measure nothing: draw these JSON files, of one or more networks, with --plot")
      ->take_all()
      ->check(CLI::ExistingFile);

  example::parse(app, argc, argv);
  o.algorithms.clear();
  for (auto const& name : algorithms) o.algorithms.push_back(hcomp::algorithm::from(name));
  auto const refuse = [](std::string const& why) { throw example::usage{why + "\n", 1}; };
  for (auto const& [option, figure] : {std::pair{"--rate", o.rate}, {"--latency", o.latency}})
    if (figure && !(*figure > 0 && std::isfinite(*figure)))
      refuse(fmt::format("{} {:g} is no number above 0", option, *figure));
  bool const has_owner = std::ranges::any_of(o.algorithms, is_owner);
  // a cast of values to their own type is identity
  std::string const cast = o.type == "float16" ? "fp16" : o.type == "bfloat16" ? "bf16" : "";
  if (std::ranges::find(o.codecs, "identity") != o.codecs.end())
    std::erase(o.codecs, cast);
  else
    std::ranges::replace(o.codecs, cast, "identity");
  for (auto const& codec : o.codecs) {
    require_codec(codec, refuse);
    if (sparse_name::from(codec) && o.type != "float")
      refuse(fmt::format("--codec {}: sparse sums are of floats, --type is {}", codec, o.type));
    bool const is_stream = stream_name::from(codec).has_value();
    if (is_stream && o.type != "float")
      refuse(fmt::format("--codec {}: streams are of floats, --type is {}", codec, o.type));
    if (is_stream && std::ranges::none_of(o.algorithms, sums_streams))
      refuse(fmt::format("--codec {} has no algorithm: there are ring, torus, direct, aggregator",
                         codec));
    if (is_stream && std::ranges::all_of(o.transports, [](auto const& by) { return by == "op"; }))
      refuse(fmt::format("--codec {} has no MPI_Op: --transport mpi or ucx", codec));
    if (codec != "sign" && has_owner && o.algorithms.size() == 1 && codec != "raw" &&
        codec != "automatic")
      refuse(fmt::format("--codec {} has no algorithm: owner goes with codec sign only", codec));
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
      if (codec != "raw" && !is_on_device(codec))
        there_are("--codec " + codec,
                  "identity, fp16, sign, thc, inceptionn:E, error_bounded:BOUND, sparse_sum, "
                  "sparse_union, sparse_sum:u32, sparse_union:u32, lhc:u32 and raw");
    if (std::ranges::find(o.transports, "op") != o.transports.end())
      there_are("--transport op", "mpi and ucx");
    if (o.threads > 1) there_are(fmt::format("--threads {}", o.threads), "none");
    if (o.advise) refuse("--advise is about vectors in host memory, not about --device cuda");
  }
  if (!o.input.empty() && o.type != "float")
    refuse(fmt::format("--input holds float32 values, --type is {}", o.type));
  if (!o.reports_from.empty() && o.plot.empty())
    refuse("--report-from needs --plot, the page to write");
  return o;
}

}  // namespace perf
