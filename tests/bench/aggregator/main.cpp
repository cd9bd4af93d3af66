/// @file
/// Workers that average through hcomp-aggregator: tests/lab/aggregator.sh runs one on each node.
///
/// bench_aggregator --rank R --workers W --aggregator HOST:PORT: rank 0 prints the seconds of all
/// rounds after the first, and the number of results that did not arrive.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/udp/packets.hpp>
#include <span>
#include <string>
#include <vector>

int main(int count, char** words) {
  using namespace hcomp;
  using namespace std::chrono_literals;
  int rank = 0, workers = 1, rounds = 20, window = 64;
  std::size_t values = 1 << 20;
  std::string aggregator;
  CLI::App app("Averages a vector by way of an aggregator, round after round");
  app.add_option("--rank", rank)->required();
  app.add_option("--workers", workers)->required();
  app.add_option("--aggregator", aggregator, "HOST:PORT")->required();
  app.add_option("--values", values, "of the vector")->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str();
  app.add_option("--window", window, "packets without an answer")->capture_default_str();
  CLI11_PARSE(app, count, words);
  try {
    udp::packets link({.rank = rank,
                       .workers = workers,
                       .aggregators = {aggregator},
                       .job = 1,
                       .window = window});
    aggregated_mean mean(
        values, thc<float>(), link,
        {.share = {workers}, .norm_timeout = 10s, .timeout = 10s, .resend_after = 200ms});
    link.set_terms(mean.layout().aggregator());
    std::vector<float> const x(values, static_cast<float>(rank + 1));
    std::size_t lost = 0;
    auto start = link.now();
    for (int round = 0; round <= rounds; ++round) {
      if (round == 1) start = link.now();
      auto own = x;
      auto const report = mean.average(
          std::span(own), draw_key{.seed = 1, .step = static_cast<std::uint64_t>(round)});
      if (round > 0) lost += report.lost;
    }
    double const seconds = std::chrono::duration<double>(link.now() - start).count();
    mean.leave();
    if (rank == 0) std::printf("%.4f %zu\n", seconds, lost);
  } catch (std::exception const& why) {
    std::fprintf(stderr, "bench_aggregator: rank %d: %s\n", rank, why.what());
    return 1;
  }
}
