#pragma once
/// @file
/// Synchronizers that communicate in full precision only, once in several steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <vector>

#include "options.hpp"
#include "paced_transport.hpp"
#include "synchronizer.hpp"

namespace train {

using exact_plan = hcomp::plan<hcomp::identity<float>, paced_transport, hcomp::host_executor>;

/// Marsit without its signs: full-precision steps alone, in the same steps and with the same limit.
/// In all other steps, ranks accumulate their updates, and neither send nor move parameters.
class marsit_full : public synchronizer {
 public:
  marsit_full(std::size_t values, options const& o, hcomp::plan_options const& how,
              paced_transport& transport, hcomp::host_executor& executor)
      : period_(o.period),
        warm_up_(o.warm_up),
        limit_(static_cast<float>(o.flush_limit)),
        accumulated_(values),
        plan_(values, {}, transport, executor, how) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    for (std::size_t i = 0; i < update.size(); ++i) accumulated_[i] += update[i];
    if (step >= warm_up_ && (step + 1) % period_ != 0) {
      std::ranges::fill(update, 0.0f);
      return {};
    }
    auto const stats =
        plan_.all_reduce(std::span(accumulated_), {.step = step, .op = hcomp::reduce_op::mean});
    for (std::size_t i = 0; i < update.size(); ++i) {
      update[i] = std::clamp(accumulated_[i], -limit_, limit_);
      accumulated_[i] -= update[i];
    }
    return stats;
  }

 private:
  std::uint64_t period_, warm_up_;
  float limit_;
  std::vector<float> accumulated_;
  exact_plan plan_;
};

/// Ranks train their own replicas; the trainer calls `settle` every --period steps.
/// Source: Stich, Local SGD converges fast and communicates little, ICLR 2019, with momentum.
class local_sgd : public synchronizer {
 public:
  local_sgd(std::size_t values, hcomp::plan_options const& how, paced_transport& transport,
            hcomp::host_executor& executor)
      : plan_(values, {}, transport, executor, how) {}

  hcomp::report operator()(std::span<float>, std::uint64_t, float) override { return {}; }
  hcomp::report settle(std::span<float> parameters) override {
    return plan_.all_reduce(parameters, {.op = hcomp::reduce_op::mean});
  }

 private:
  exact_plan plan_;
};

}  // namespace train
