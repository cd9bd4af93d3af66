// scale: hcomp's all-reduces over MPI on a cluster of any size, simulated in one process.

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costs.hpp"
#include "experiment.hpp"
#include "options.hpp"

namespace {

nlohmann::json to_json(scale::options const& o, std::vector<scale::outcome> const& outcomes) {
  auto all = nlohmann::json::array();
  for (auto const& one : outcomes)
    all.push_back({{"ranks", o.ranks},
                   {"values", o.values},
                   {"latency_us", o.latency},
                   {"rendezvous", o.rendezvous},
                   {"bandwidth_gbit_s", o.bandwidth},
                   {"algorithm", one.algorithm},
                   {"codec", one.codec},
                   {"hop_bits", one.codec == "thc" ? o.hop_bits : 0},
                   {"hops", one.hops},
                   {"bytes_sent", one.bytes_sent},
                   {"seconds", one.seconds},
                   {"predicted", one.predicted}});
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  auto const o = scale::parse(argc, argv);
  if (!o.measure.empty()) {
    scale::write_costs(o.measure, scale::measured_costs(o.ranks));
    return 0;
  }
  auto const outcomes = scale::run(o);
  bool fallback = true;
  for (auto const& one : outcomes) {
    fmt::print(
        "{:>5} ranks  {:<8}  {:<6}  {:>4} hops  {:>9} bytes  {:.6f} s, predicted {:.6f} s: "
        "{:+.1f} %\n",
        o.ranks, one.codec, one.algorithm, one.hops, one.bytes_sent, one.seconds, one.predicted,
        one.deviation());
    for (auto const& fault : one.faults) fmt::print(stderr, "scale: wrong: {}\n", fault);
    bool const in_time = o.within == 0 || std::abs(one.deviation()) <= o.within;
    if (!in_time)
      fmt::print(stderr, "scale: wrong: {:+.1f} % off, {} % are allowed\n", one.deviation(),
                 o.within);
    fallback = fallback && one.faults.empty() && in_time;
  }
  if (!o.json.empty()) std::ofstream(o.json) << to_json(o, outcomes).dump(1) << "\n";
  return fallback ? 0 : 1;
} catch (scale::usage const& e) {
  fmt::print(e.status == 0 ? stdout : stderr, "{}", e.text);
  return e.status;
} catch (std::exception const& e) {
  fmt::print(stderr, "scale: {}\n", e.what());
  return 1;
}
