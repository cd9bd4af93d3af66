#include "options.hpp"

#include <CLI/CLI.hpp>
#include <sstream>

namespace scale {

options parse(int argc, char const* const* argv) {
  options o;
  CLI::App app(
      "Sums vectors with hcomp on a cluster simulated by SimGrid, and compares bytes, hops and\n"
      "seconds with what they should be.",
      "scale");
  app.option_defaults()->always_capture_default();
  app.add_option("--ranks", o.ranks, "Hosts of the cluster, with one rank each")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--values", o.values, "Values of every rank's vector")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32));
  app.add_option("--algorithm", o.algorithms, "One after the other; sampled is for codec sign")
      ->delimiter(',')
      ->check(CLI::IsMember({"ring", "torus", "direct", "recursive_doubling", "sampled"}));
  app.add_option("--codec", o.codecs, "Each with each algorithm")
      ->delimiter(',')
      ->check(CLI::IsMember({"identity", "sign", "thc"}));
  app.add_option(
         "--hop-bits", o.hop_bits,
         "Codec thc: most bits of a sum's value on its way, 4 to 14; 0: as many as it needs")
      ->check(CLI::Range(0, 14));
  app.add_option("--latency", o.latency, "Microseconds from host to host")
      ->check(CLI::PositiveNumber);
  app.add_option("--bandwidth", o.bandwidth, "Gbit/s of a host's cable, each way")
      ->check(CLI::PositiveNumber);
  app.add_flag("--rendezvous", o.rendezvous,
               "Messages leave when their receive is posted, instead of at once");
  auto* const costs =
      app.add_option("--costs", o.costs, "JSON file with the seconds per value that codecs take")
          ->check(CLI::ExistingFile);
  app.add_option("--measure", o.measure,
                 "Do not simulate, but measure what codecs take here and write such a file")
      ->excludes(costs);
  app.add_option("--json", o.json, "Write all results to this file");
  app.add_option("--within", o.within,
                 "Fail if a time is more per cent off the formula; 0: never fail for that")
      ->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
    if (o.costs.empty() && o.measure.empty())
      throw CLI::RequiredError("one of --costs and --measure");
  } catch (CLI::ParseError const& e) {
    std::ostringstream out, err;
    int const status = app.exit(e, out, err);
    throw usage{out.str() + err.str(), status};
  }
  return o;
}

}  // namespace scale
