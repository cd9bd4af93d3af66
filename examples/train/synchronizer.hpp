#pragma once
/// @file
/// Between a rank's own update and the one that all ranks make: what is compared here.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>
#include <span>
#include <string>

#include "history.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
#include "trial.hpp"

namespace train {

/// Turns each rank's update into one that is the same on all ranks; where sums get lost, nearly.
class synchronizer {
 public:
  virtual ~synchronizer() = default;

  /// Collective. On return `update` holds what every rank subtracts from its parameters.
  /// @param update    learning rate * direction of this rank; like parameters in the memory that
  ///                  the synchronizer was made for
  /// @param step      counted from 0
  /// @param schedule  learning rate now, over that at the start; sign steps follow it
  virtual hcomp::report operator()(std::span<float> update, std::uint64_t step, float schedule) = 0;

  /// Collective. Makes the parameters the same on all ranks, if updates were not.
  virtual hcomp::report settle(std::span<float>) { return {}; }

  virtual losses lost() const { return {}; }
};

/// Which way the sums of a trial go: --algorithm, except where a method knows only one.
std::string algorithm_of(trial const& what, options const& o);

/// What `what` says, for vectors of `values` values in host memory.
/// @param sign_step  that of the method, or of the command line
/// @throws std::invalid_argument  the algorithm does not go with the method or the ranks
std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                std::size_t values, options const& o,
                                                std::uint64_t seed, paced_transport& transport,
                                                hcomp::host_executor& executor);

}  // namespace train
