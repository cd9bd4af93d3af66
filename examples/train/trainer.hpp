#pragma once
/// @file
/// The training loop, shared by all methods.

#include <cstdint>
#include <functional>
#include <span>

#include "history.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
#include "task.hpp"
#include "trial.hpp"
#include "workplace.hpp"

namespace train {

using observer = std::function<void(history const&, observation const&)>;
using gradient_observer =
    std::function<void(history const&, std::span<float const> gradient, std::uint64_t step)>;

/// Settings and functions shared by all runs of a program.
struct trainer {
  options const& settings;
  workplace& place;
  task const& learnt;          ///< made by `place`
  paced_transport& transport;  ///< used by `place`
  observer observe;            ///< called on every rank at every observation
  gradient_observer gradient;  ///< called on every rank at every step, counted from 1; may be empty

  /// Whether to end the run. Called on every rank before every step; returns the same on all ranks.
  /// May be empty.
  std::function<bool()> stops;

  /// Collective. Trains a new model with `seed`.
  /// @throws std::runtime_error  the ranks ended with different parameters
  history operator()(trial const& what, std::uint64_t seed) const;
};

}  // namespace train
