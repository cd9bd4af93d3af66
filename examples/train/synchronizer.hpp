#pragma once
/// @file
/// Combines the updates of all ranks. `train` compares synchronizers.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "history.hpp"
#include "options.hpp"
#include "paced_transport.hpp"
#include "task.hpp"
#include "trial.hpp"

namespace train {

/// Turns the updates of all ranks into one common update. If packets get lost, updates of ranks
/// differ.
class synchronizer {
 public:
  virtual ~synchronizer() = default;

  /// Collective. On return, `update` is the common update, which ranks subtract from their
  /// parameters.
  /// @param update    learning rate * direction of this rank, in the memory of the synchronizer
  /// @param step      counted from 0
  /// @param schedule  current learning rate / initial learning rate; scales the sign step, too
  virtual hcomp::report operator()(std::span<float> update, std::uint64_t step, float schedule) = 0;

  /// Collective. Averages the parameters over the ranks if updates of ranks may differ.
  virtual hcomp::report settle(std::span<float>) { return {}; }

  virtual losses lost() const { return {}; }
};

/// Algorithm of a trial: --algorithm, or the only algorithm that the method supports.
std::string algorithm_of(trial const& what, options const& o);

/// Makes the synchronizer of a trial, for vectors of `values` values in host memory.
/// @param sign_step  that of the method or of the command line
/// @param matrices   of the model, for powersgd
/// @throws std::invalid_argument  the method or the number of ranks does not support the algorithm
std::unique_ptr<synchronizer> make_synchronizer(trial const& what, double sign_step,
                                                std::size_t values, options const& o,
                                                std::uint64_t seed, paced_transport& transport,
                                                hcomp::host_executor& executor,
                                                std::vector<matrix_shape> const& matrices = {});

}  // namespace train
