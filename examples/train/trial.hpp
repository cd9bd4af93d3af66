#pragma once
/// @file
/// What `train` trains once per seed: a method, and what goes wrong on the way of its sums.

#include <cstdint>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <optional>
#include <string>

#include "methods.hpp"

namespace train {

/// What happens to contributions that go by way of aggregators; drawn by the seed.
struct mishaps {
  double late = 0;  ///< share of the steps in which what a rank sends comes too late; below 1
  double lost = 0;  ///< share of all packets that never arrive; below 1
};

/// Whether a rank is late in a step.
bool is_late(mishaps const& shares, std::uint64_t step, int rank, std::uint64_t seed);

struct trial {
  method const* how;
  std::optional<mishaps> by_aggregators = {};          ///< none: ranks sum among themselves
  std::optional<hcomp::codec_settings> settings = {};  ///< of the method's codec, if it has one

  /// For tables and pictures, such as "thc, 10 % late, 1 % lost", "top_k, share=0.05", "inceptionn, E=10"
  /// or "error_bounded, bound=1e-05".
  std::string name() const;
};

/// From a name of --codec: that of a method, after which :late=SHARE, :lost=SHARE and
/// settings of its codec may follow, as in "thc:bits=2,transform=1024:late=0.1".
/// @throws std::invalid_argument  no such method, or it does not have what follows, or no such
///                                value
trial trial_from(std::string const& text);

/// @throws std::invalid_argument  no number from 0 to below 1
double share_from(std::string const& text);

/// The methods that have aggregators, with commas.
std::string names_of_aggregated();

}  // namespace train
