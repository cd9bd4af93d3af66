#pragma once
/// @file
/// The optimiser that each rank applies to its gradient before communication.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <span>

#include "array_in.hpp"
#include "for_each_value.hpp"
#include "workplace.hpp"

namespace train {

/// Factor of the step size: decreases linearly from 1 at the first step to 0 after the last one.
inline float schedule(std::uint64_t step, std::uint64_t steps) {
  return 1.0f - static_cast<float>(step) / static_cast<float>(steps);
}

struct momentum_step {
  float const* gradient;
  float* velocity;
  float* update;
  float momentum, rate;

  HCOMP_HD void operator()(std::size_t i) const {
    velocity[i] = momentum * velocity[i] + gradient[i];
    update[i] = rate * velocity[i];
  }
};

struct subtract_update {
  float const* update;
  float* parameters;

  HCOMP_HD void operator()(std::size_t i) const { parameters[i] -= update[i]; }
};

/// Stochastic gradient descent with (heavy-ball) momentum.
template <hcomp::Executor E> class sgd : public optimiser {
 public:
  sgd(std::size_t parameters, float momentum, E& executor)
      : executor_(&executor), momentum_(momentum), velocity_(parameters), update_(parameters) {}

  /// Returns rate * velocity, with velocity = momentum * velocity + gradient.
  std::span<float> operator()(std::span<float const> gradient, float rate) override {
    for_each_value(
        *executor_, update_.size(),
        momentum_step{gradient.data(), velocity_.data(), update_.data(), momentum_, rate});
    return {update_.data(), update_.size()};
  }

  void apply(std::span<float> parameters) override {
    for_each_value(*executor_, update_.size(), subtract_update{update_.data(), parameters.data()});
  }

 private:
  E* executor_;
  float momentum_;
  array_in<E, float> velocity_, update_;
};

}  // namespace train
