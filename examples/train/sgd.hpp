#pragma once
/// @file
/// The optimiser each rank runs on its own gradient, before anything is sent.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>

namespace train {

/// How the step size goes down: from 1 at the first step linearly to 0 after the last.
inline float schedule(std::uint64_t step, std::uint64_t steps) {
  return 1.0f - static_cast<float>(step) / static_cast<float>(steps);
}

/// Stochastic gradient descent with (heavy-ball) momentum.
class sgd {
 public:
  sgd(std::size_t parameters, float momentum) : momentum_(momentum) {
    velocity_.setZero(static_cast<Eigen::Index>(parameters));
  }

  /// update = rate * velocity, where velocity = momentum * velocity + gradient.
  void operator()(std::span<float const> gradient, float rate, std::span<float> update) {
    Eigen::Map<Eigen::VectorXf const> const g(gradient.data(), velocity_.size());
    Eigen::Map<Eigen::VectorXf> u(update.data(), velocity_.size());
    velocity_ = momentum_ * velocity_ + g;
    u = rate * velocity_;
  }

 private:
  float momentum_;
  Eigen::VectorXf velocity_;
};

}  // namespace train
