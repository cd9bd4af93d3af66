#pragma once
/// @file
/// What `train` trains once per seed: a method, its settings, late ranks and packet loss.

#include <cstdint>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <optional>
#include <string>

#include "methods.hpp"

namespace train {

/// Late ranks and packet loss for methods with aggregators. Drawn from the seed.
struct mishaps {
  double late = 0;  ///< share of steps in which a rank's contribution is late; below 1
  double lost = 0;  ///< share of all packets that get lost; below 1
};

/// Whether a rank is late in a step.
bool is_late(mishaps const& shares, std::uint64_t step, int rank, std::uint64_t seed);

struct trial {
  method const* how;
  std::optional<mishaps> by_aggregators = {};          ///< none: without aggregators
  std::optional<hcomp::codec_settings> settings = {};  ///< of the method's codec, if any

  /// Name in tables and plots, e.g. "thc, 10 % late, 1 % lost", "top_k, share=0.05",
  /// "inceptionn, E=10" or "error_bounded, bound=1e-05".
  std::string name() const;
};

/// Parses a name of --codec: a method, then optionally :late=SHARE, :lost=SHARE and settings of its
/// codec, e.g. "thc:bits=2,transform=1024:late=0.1".
/// @throws std::invalid_argument  an unknown method, setting or value
trial trial_from(std::string const& text);

/// @throws std::invalid_argument  `text` is not a number from 0 to below 1
double share_from(std::string const& text);

/// Names of the methods with aggregators, separated by commas.
std::string names_of_aggregated();

}  // namespace train
