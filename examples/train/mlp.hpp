#pragma once
/// @file
/// A fully connected classifier. Its parameters are one vector, ready for an all-reduce.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "array_in.hpp"
#include "matrix.hpp"
#include "mlp_work.hpp"
#include "random.hpp"
#include "task.hpp"

namespace train {

/// Dense layers with ReLU between them, softmax cross entropy at the end.
///
/// One vector has all weights and biases, another one all gradients in the same order: layer by
/// layer, weights (outputs x inputs, column-major), then biases. Biases are weights of an
/// additional input, which is 1.
/// @tparam Products  multiply(a, b, out) enqueues out = a b for matrices in the executor's memory
template <hcomp::Executor E, class Products> class mlp {
 public:
  /// Initial weights are uniform with variance 2 / inputs (He et al., 2015), initial biases 0.
  /// @param widths              inputs, hidden layers, classes
  /// @param executor, multiply  kept by reference
  mlp(std::span<int const> widths, std::uint64_t seed, E& executor, Products& multiply)
      : mlp(widths, first_parameters(widths, seed), executor, multiply) {}

  std::span<float> parameters() { return {parameters_.data(), parameters_.size()}; }
  std::span<float const> gradient() const { return {gradient_.data(), gradient_.size()}; }

  /// The layers' weights, each with its biases as the last column.
  std::vector<matrix_shape> matrices() const {
    std::vector<matrix_shape> all;
    for (std::size_t l = 0; l < layers(); ++l) all.push_back({widths_[l + 1], widths_[l] + 1});
    return all;
  }

  /// Sets the gradient to that of the mean loss over the images with these numbers.
  score learn(image_view const& from, std::span<std::uint32_t const> numbers) {
    forward(from, numbers);
    backward(static_cast<int>(numbers.size()));
    return fetch_score(numbers.size());
  }
  score evaluate(image_view const& from, std::span<std::uint32_t const> numbers) {
    forward(from, numbers);
    return fetch_score(numbers.size());
  }

 private:
  /// Buffers for `images` images.
  struct workspace {
    workspace(std::size_t per_image, std::size_t images)
        : images(images),
          values(per_image * images),
          deltas(per_image * images),
          numbers(images),
          scores(images) {}

    std::size_t images;
    array_in<E, float> values;  ///< inputs of every layer, then the outputs
    array_in<E, float> deltas;  ///< d loss / d value, before ReLU
    hcomp::mirror<std::uint32_t, E> numbers;
    hcomp::mirror<image_score, E> scores;
  };

  mlp(std::span<int const> widths, std::vector<float>&& first, E& executor, Products& multiply)
      : executor_(&executor),
        multiply_(&multiply),
        widths_(widths.begin(), widths.end()),
        parameters_(first.size()),
        gradient_(first.size()) {
    std::size_t per_image = 0, parameters = 0;
    for (std::size_t l = 0; l < widths.size(); ++l) {
      values_begin_.push_back(per_image);
      per_image += number(widths[l] + 1);
      if (l == layers()) break;
      weights_begin_.push_back(parameters);
      parameters += number(widths[l] + 1) * number(widths[l + 1]);
    }
    values_begin_.push_back(per_image);
    parameters_.from_host(std::move(first));
  }

  static std::vector<float> first_parameters(std::span<int const> widths, std::uint64_t seed) {
    std::vector<float> first;
    generator random(seed);
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      float const bound = std::sqrt(6.0f / static_cast<float>(widths[l]));
      for (std::size_t i = 0; i < number(widths[l]) * number(widths[l + 1]); ++i)
        first.push_back(bound * (2 * uniform(random) - 1));
      first.resize(first.size() + number(widths[l + 1]));
    }
    return first;
  }

  static std::size_t number(int n) { return static_cast<std::size_t>(n); }
  std::size_t layers() const { return widths_.size() - 1; }

  /// Inputs of layer l, or outputs of the last layer. Below every column is a 1.
  matrix values(std::size_t l, int images) const {
    return {workspace_->values.data() + values_begin_[l] * workspace_->images, widths_[l], images,
            widths_[l] + 1};
  }
  matrix deltas(std::size_t l, int images) const {
    return {workspace_->deltas.data() + values_begin_[l] * workspace_->images, widths_[l], images,
            widths_[l]};
  }
  matrix weights(array_in<E, float>& all, std::size_t l) {
    return {all.data() + weights_begin_[l], widths_[l + 1], widths_[l], widths_[l + 1]};
  }
  static matrix with_ones(matrix values) {
    ++values.rows;
    return values;
  }
  static matrix with_biases(matrix weights) {
    ++weights.columns;
    return weights;
  }

  /// Computes the scores of the images and the gradient of the outputs.
  void forward(image_view const& from, std::span<std::uint32_t const> numbers) {
    if (!workspace_ || workspace_->images < numbers.size()) {
      executor_->synchronize();
      workspace_ = std::make_unique<workspace>(values_begin_.back(), numbers.size());
    }
    std::copy(numbers.begin(), numbers.end(), workspace_->numbers.for_host());
    workspace_->numbers.send(*executor_, numbers.size());

    auto const images = static_cast<int>(numbers.size());
    executor_->for_each_block(
        numbers.size(), gather_images{from, workspace_->numbers.for_work(), values(0, images)});
    for (std::size_t l = 0; l < layers(); ++l) {
      auto const outputs = values(l + 1, images);
      (*multiply_)(with_biases(weights(parameters_, l)), with_ones(values(l, images)), outputs);
      if (l + 1 < layers()) executor_->for_each_block(numbers.size(), rectify{outputs});
    }
    executor_->for_each_block(
        1, cross_entropy{values(layers(), images), deltas(layers(), images), from.labels,
                         workspace_->numbers.for_work(), workspace_->scores.for_work()});
  }

  void backward(int images) {
    for (std::size_t l = layers(); l-- > 0;) {
      auto const delta = deltas(l + 1, images);
      (*multiply_)(delta, transposed(with_ones(values(l, images))),
                   with_biases(weights(gradient_, l)));
      if (l == 0) break;
      (*multiply_)(transposed(weights(parameters_, l)), delta, deltas(l, images));
      executor_->for_each_block(number(images),
                                rectify_gradient{values(l, images), deltas(l, images)});
    }
  }

  score fetch_score(std::size_t images) {
    workspace_->scores.fetch(*executor_, images);
    score sum{.count = static_cast<double>(images)};
    for (auto const& one : std::span<image_score const>(workspace_->scores.for_host(), images)) {
      sum.loss += double{one.loss};
      sum.correct += static_cast<int>(one.is_correct);
    }
    return sum;
  }

  E* executor_;
  Products* multiply_;
  std::vector<int> widths_;
  std::vector<std::size_t> weights_begin_;  ///< first weight of each layer
  std::vector<std::size_t> values_begin_;   ///< first value of each layer, then their number
  array_in<E, float> parameters_, gradient_;
  std::unique_ptr<workspace> workspace_;
};

}  // namespace train
