#pragma once
/// @file
/// A fully connected classifier whose parameters are one vector, as a collective likes them.

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "data.hpp"
#include "task.hpp"

namespace train {

/// Dense layers with ReLU between them, softmax cross entropy at the end.
///
/// All weights and biases lie in one vector, all gradients in another of the same order: layer by
/// layer, weights (outputs x inputs, by columns), then biases.
class mlp {
 public:
  /// @param widths  inputs, hidden layers, classes
  /// Weights start uniform with variance 2 / inputs (He et al., 2015), biases at 0.
  mlp(std::span<int const> widths, std::uint64_t seed);

  std::span<float> parameters() { return {parameters_.data(), count(parameters_)}; }
  std::span<float const> gradient() const { return {gradient_.data(), count(gradient_)}; }

  /// Sets the gradient to that of the mean loss over `images`.
  score learn(batch const& images);
  score evaluate(batch const& images);

 private:
  struct layer {
    Eigen::Index inputs, outputs, offset;  ///< `offset` of its first weight
    Eigen::MatrixXf activation;            ///< outputs x images
    Eigen::MatrixXf delta;                 ///< d loss / d activation before ReLU
  };
  template <class Vector> static auto weights(Vector& all, layer const& l);
  template <class Vector> static auto biases(Vector& all, layer const& l);
  static std::size_t count(Eigen::VectorXf const& v) { return static_cast<std::size_t>(v.size()); }

  /// Leaves the softmax minus the one-hot labels in the last layer's delta.
  score forward(batch const& images);
  void backward(batch const& images);

  std::vector<layer> layers_;
  Eigen::VectorXf parameters_, gradient_;
};

}  // namespace train
