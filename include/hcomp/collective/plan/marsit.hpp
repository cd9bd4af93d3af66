#pragma once
/// @file
/// Marsit: one bit per value in most rounds, full precision in every K-th.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/arrays_of.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Options of Marsit; equal on all ranks.
struct marsit_options {
  /// How far one sign moves a parameter, the paper's global step size; > 0. This is the largest
  /// move of a parameter per round. Recommended: 1 to 3 times the typical |mean update|, in step
  /// with the learning rate.
  double sign_step = 1e-3;
  std::uint64_t period = 100;  ///< distance of rounds in full precision; 0: none
  std::uint64_t warm_up = 0;   ///< number of first rounds in full precision
  /// Largest move of a parameter in a full-precision round. The rest stays in the compensation.
  double flush_limit = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;  ///< number of the vector, if one round has several
  plan_options plan = {};    ///< may have algorithm `sampled`
};

/// Keeps a model equal on all ranks: replaces every rank's update by the common update.
///
///     marsit<float, T, E> synchronize(values, options, transport, executor);
///     for (;;) { update = rate * gradient(model); synchronize(update); model -= update; }
///
/// Let c be the compensation and u the update. A sign round computes g = sign_step * (bit of one
/// rank's u + c, drawn per value) and c' = u + c - g. A full-precision round computes g = mean of u
/// + c and c' = 0. At every moment model - mean(c) = first model - sum of mean(u): updates are
/// delayed, not dropped.
///
/// Memory: 4 bytes per value of compensation (8 for double), one encoded vector of signs, one in
/// full precision.
/// Source: Wu et al., Marsit, DAC 2022, Algorithms 1 and 2; warm-up, flush limit and algorithm
/// `sampled` are ours.
/// @tparam E  a DeviceExecutor needs array<T>, as for error_feedback: the compensation uses it
template <class V, Transport T, Executor E> class marsit {
 public:
  /// @throws std::invalid_argument  sign_step or flush_limit is not > 0; otherwise as plan
  marsit(std::size_t values, marsit_options const& options, T& transport, E& executor)
      : options_(options),
        compensation_(values),
        exact_(values, {}, transport, executor, exact_options(options.plan)),
        signs_(values, sign<V>{checked("sign_step", options.sign_step)}, transport, executor,
               options.plan) {
    checked("flush_limit", options.flush_limit);
  }

  /// One round: on return `update` holds the common update g, the same bits on all ranks.
  /// @param update  this rank's step, e.g. learning rate * gradient, in the executor's memory space
  /// @param weight  weight of this rank's update in the mean
  ///
  /// Errors as for plan::all_reduce; after an error, update and compensation are unchanged.
  report operator()(std::span<V> update, std::uint32_t weight = 1) {
    call_options const call{options_.seed, compensation_.rounds(), options_.tensor, weight,
                            reduce_op::mean};
    if (next_is_full()) {
      auto flush = compensation_.flushed(static_cast<number>(options_.flush_limit));
      return exact_.all_reduce(update, flush, call);
    }
    return signs_.all_reduce(update, compensation_, call);
  }

  /// Whether the next round has full precision.
  bool next_is_full() const {
    std::uint64_t const round = compensation_.rounds() + 1;
    return round <= options_.warm_up || (options_.period > 0 && round % options_.period == 0);
  }

  /// Changes the sign step from the next round on, for example with the learning rate.
  void set_sign_step(double sign_step) {
    signs_.set_codec(sign<V>{checked("sign_step", sign_step)});
    options_.sign_step = sign_step;
  }

  /// max |c| / sign_step on this rank: the number of rounds by which the signs lag. If it grows
  /// beyond the period, sign_step is too small or the period is too long.
  double lag() const {
    number largest = 0;
    for (number const c : compensation_.on_host()) largest = std::max(largest, std::abs(c));
    return static_cast<double>(largest) / options_.sign_step;
  }

  auto const& state() const { return compensation_; }
  /// The state for a checkpoint. Each rank saves and restores its own. See global_compensation.
  std::vector<std::byte> save() const { return compensation_.save(); }
  void restore(std::span<std::byte const> saved) { compensation_.restore(saved); }

 private:
  using number = accumulator_t<V>;

  static number checked(char const* what, double value) {
    detail::float_environment const environment;
    auto const rounded = static_cast<number>(value);
    if (!(rounded > 0))  // NaN neither
      throw std::invalid_argument(detail::error_text(
          {"marsit: ", what, " is ", value, ", as a parameter ", rounded, "; it must be above 0"}));
    return rounded;
  }
  static plan_options exact_options(plan_options options) {
    if (!options.algorithm.merges()) options.algorithm = {};
    return options;
  }

  marsit_options options_;
  global_compensation<V, detail::arrays_of<E>::template array> compensation_;
  plan<identity<V>, T, E> exact_;
  plan<sign<V>, T, E> signs_;
};

}  // namespace hcomp
