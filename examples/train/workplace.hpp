#pragma once
/// @file
/// Memory and executor of a rank's training: models, gradients, updates and all-reduces.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
#include "synchronizer.hpp"
#include "task.hpp"
#include "trial.hpp"

namespace train {

/// Turns gradients into updates.
class optimiser {
 public:
  virtual ~optimiser() = default;

  /// The update of this rank; valid until the next call. Callers may change it.
  virtual std::span<float> operator()(std::span<float const> gradient, float rate) = 0;
  /// Subtracts the last update, as callers have changed it.
  virtual void apply(std::span<float> parameters) = 0;
};

/// Makes the objects of a rank's training. All vectors are in the memory of the workplace. Only its
/// objects and `on_host` access this memory. Work of its objects may continue after their calls
/// return.
class workplace {
 public:
  virtual ~workplace() = default;

  virtual std::unique_ptr<task> classify(data_split data, std::vector<int> const& hidden) = 0;
  virtual std::unique_ptr<optimiser> make_optimiser(std::size_t parameters, float momentum) = 0;
  /// See train::make_synchronizer.
  virtual std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                          model& trained, std::uint64_t seed) = 0;
  /// Waits for all work.
  virtual void finish() = 0;
  /// The values in host memory, or a copy that is valid until the next call. Waits for all work.
  virtual std::span<float const> on_host(std::span<float const> values) = 0;
};

/// A workplace on the CPU.
/// @param o, transport  kept by reference
std::unique_ptr<workplace> make_host_workplace(options const& o, paced_transport& transport);

}  // namespace train
