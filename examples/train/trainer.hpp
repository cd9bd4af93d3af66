#pragma once
/// @file
/// One training run: the loop that all methods share.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "history.hpp"
#include "options.hpp"
#include "synchronizer.hpp"
#include "task.hpp"
#include "trial.hpp"

namespace train {

using observer = std::function<void(history const&, observation const&)>;
using gradient_observer =
    std::function<void(history const&, std::span<float const> gradient, std::uint64_t step)>;

/// What every run of a program has in common.
struct trainer {
  options const& settings;
  task const& learnt;
  MPI_Comm comm;
  observer observe;            ///< called on every rank at every observation
  gradient_observer gradient;  ///< called on every rank at every step, counted from 1; may be empty

  /// Collective. Trains a new model with `seed`; `make` gives the synchronizer for a number of
  /// parameters.
  /// @throws std::runtime_error  the ranks ended with different parameters
  history operator()(
      trial const& what, std::uint64_t seed,
      std::function<std::unique_ptr<synchronizer>(std::size_t parameters)> const& make) const;
};

}  // namespace train
