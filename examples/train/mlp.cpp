#include "mlp.hpp"

#include <cmath>

#include "random.hpp"

namespace train {

template <class Vector> auto mlp::weights(Vector& all, layer const& l) {
  return all.segment(l.offset, l.outputs * l.inputs).reshaped(l.outputs, l.inputs);
}
template <class Vector> auto mlp::biases(Vector& all, layer const& l) {
  return all.segment(l.offset + l.outputs * l.inputs, l.outputs);
}

mlp::mlp(std::span<int const> widths, std::uint64_t seed) {
  Eigen::Index size = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.push_back({widths[i], widths[i + 1], size, {}, {}});
    size += widths[i + 1] * (widths[i] + 1);
  }
  parameters_.setZero(size);
  gradient_.setZero(size);
  generator random(seed);
  for (auto const& l : layers_) {
    float const bound = std::sqrt(6.0f / static_cast<float>(l.inputs));
    for (float& weight : parameters_.segment(l.offset, l.outputs * l.inputs))
      weight = bound * (2 * uniform(random) - 1);
  }
}

score mlp::learn(batch const& images) {
  auto const result = forward(images);
  backward(images);
  return result;
}

score mlp::evaluate(batch const& images) { return forward(images); }

score mlp::forward(batch const& images) {
  Eigen::MatrixXf const* input = &images.inputs;
  for (auto& l : layers_) {
    l.activation.resize(l.outputs, input->cols());
    l.activation.noalias() = weights(parameters_, l) * *input;
    l.activation.colwise() += biases(parameters_, l);
    if (&l != &layers_.back()) l.activation = l.activation.cwiseMax(0.0f);
    input = &l.activation;
  }

  score result{.count = static_cast<double>(images.labels.size())};
  auto& last = layers_.back();
  last.delta = last.activation;
  for (Eigen::Index i = 0; i < last.delta.cols(); ++i) {
    auto outputs = last.delta.col(i);
    Eigen::Index const label = images.labels[static_cast<std::size_t>(i)];
    Eigen::Index best = 0;
    float const peak = outputs.maxCoeff(&best);
    float const margin = outputs[label] - peak;
    outputs = (outputs.array() - peak).exp();
    float const whole = outputs.sum();
    outputs /= whole;
    outputs[label] -= 1;
    result.loss += std::log(whole) - margin;
    result.correct += best == label;
  }
  return result;
}

void mlp::backward(batch const& images) {
  layers_.back().delta /= static_cast<float>(images.labels.size());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    auto& l = layers_[i];
    auto const& input = i == 0 ? images.inputs : layers_[i - 1].activation;
    weights(gradient_, l).noalias() = l.delta * input.transpose();
    biases(gradient_, l) = l.delta.rowwise().sum();
    if (i == 0) break;
    auto& below = layers_[i - 1];
    below.delta.resize(below.outputs, input.cols());
    below.delta.noalias() = weights(parameters_, l).transpose() * l.delta;
    below.delta = (input.array() > 0).select(below.delta, 0.0f);
  }
}

}  // namespace train
