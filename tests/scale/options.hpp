#pragma once
/// @file
/// Command line of `scale`.

#include <cstddef>
#include <hcomp/collective/cost/costs.hpp>
#include <string>
#include <vector>

namespace scale {

struct options {
  int ranks = 64;
  std::size_t values = 1'000'000;
  std::vector<std::string> algorithms{"ring", "torus", "direct"};
  std::vector<std::string> codecs{"identity", "sign"};
  int hop_bits = 0;       ///< of thc
  double latency = 10;    ///< microseconds
  double bandwidth = 10;  ///< Gbit/s
  bool rendezvous = false;
  std::string costs;    ///< file to read
  std::string measure;  ///< file to write instead of simulating
  std::string json;     ///< file to write
  double within = 0;    ///< per cent; 0: no limit

  hcomp::link_cost link() const { return {latency * 1e-6, 8e-9 / bandwidth, 0}; }
};

/// Text to print instead of a simulation, and the exit status.
struct usage {
  std::string text;
  int status;
};

/// @throws usage
options parse(int argc, char const* const* argv);

}  // namespace scale
