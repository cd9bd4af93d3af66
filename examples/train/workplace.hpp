#pragma once
/// @file
/// Where a rank trains: whose memory the models, gradients, updates and sums are in.

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

/// Makes updates of gradients.
class optimiser {
 public:
  virtual ~optimiser() = default;

  /// What this rank would subtract from its parameters; may be changed, until the next call.
  virtual std::span<float> operator()(std::span<float const> gradient, float rate) = 0;
  /// Subtracts what the last update has become.
  virtual void apply(std::span<float> parameters) = 0;
};

/// Makes what a rank trains with. All vectors are in its memory, which only those that were made
/// here, and `on_host`, look into; their work may go on after they have returned.
class workplace {
 public:
  virtual ~workplace() = default;

  virtual std::unique_ptr<task> classify(data_split data, std::vector<int> const& hidden) = 0;
  virtual std::unique_ptr<optimiser> make_optimiser(std::size_t parameters, float momentum) = 0;
  /// See train::make_synchronizer.
  virtual std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                          std::size_t values,
                                                          std::uint64_t seed) = 0;
  /// Returns when all work is done.
  virtual void finish() = 0;
  /// The values, or a copy that is valid until the next call. Waits for all work.
  virtual std::span<float const> on_host(std::span<float const> values) = 0;
};

/// The processor.
/// @param o, transport  are kept by reference
std::unique_ptr<workplace> make_host_workplace(options const& o, paced_transport& transport);

}  // namespace train
