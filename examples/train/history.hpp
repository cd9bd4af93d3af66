#pragma once
/// @file
/// Measurements of a training run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <string>
#include <vector>

namespace train {

/// The state of a run at one moment.
struct observation {
  std::uint64_t step = 0;  ///< steps done
  double epoch = 0;
  double bytes = 0;    ///< sent by one rank so far
  double seconds = 0;  ///< training time so far, without evaluations
  /// Mean over the mini-batches since the last observation, in nats. Before the first step: the
  /// loss on the test set.
  double train_loss = 0;
  double test_loss = 0;  ///< mean over the test set, in nats
  double accuracy = 0;   ///< on the test set, in percent; only for classifiers
};

/// Shares of all results of aggregators. `left_out`: received without this rank's contribution,
/// which was late or got lost. `missed`: not received.
struct losses {
  double left_out = 0, missed = 0;

  static losses of(std::uint64_t sums, std::uint64_t left_out, std::uint64_t missed) {
    auto const all = std::max(1.0, static_cast<double>(sums));
    return {static_cast<double>(left_out) / all, static_cast<double>(missed) / all};
  }
};

/// Results of one run. Times and bytes are means over the ranks.
struct history {
  std::string codec;  ///< name of the trial
  std::string algorithm;
  std::uint64_t seed = 0;
  double rate = 0, momentum = 0, sign_step = 0;
  std::uint64_t steps = 0;       ///< planned
  std::uint64_t steps_made = 0;  ///< done; fewer if the run was interrupted
  std::size_t parameters = 0;
  double bytes_per_step = 0;       ///< sent by one rank
  double seconds_compute = 0;      ///< gradients, optimiser, parameters
  double seconds_encode = 0;       ///< encode, merge, decode
  double seconds_communicate = 0;  ///< waiting for messages
  hcomp::message_memory messages = hcomp::message_memory::host;  ///< memory of messages
  losses lost = {};
  std::vector<observation> curve = {};  ///< from before the first step to after the last

  bool is_complete() const { return steps_made == steps; }
  observation const& end() const { return curve.back(); }
  /// Compression ratio: bytes of an uncompressed ring all-reduce over the bytes sent.
  double ratio(int ranks) const {
    return 2.0 * (ranks - 1) / ranks * 4 * static_cast<double>(parameters) / bytes_per_step;
  }
};

}  // namespace train
