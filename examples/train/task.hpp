#pragma once
/// @file
/// Interfaces of models and of their training examples.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace train {

/// Result of a model for some examples.
struct score {
  double loss = 0;   ///< sum of the cross entropies, in nats
  double count = 0;  ///< number of images or pairs of words
  int correct = 0;   ///< images whose class has the largest output; 0 for pairs of words

  score& operator+=(score const& other) {
    loss += other.loss;
    count += other.count;
    correct += other.correct;
    return *this;
  }
};

/// A weight matrix in the vector of parameters, column by column.
struct matrix_shape {
  int rows, columns;
};

/// A model with its parameters in one vector, ready for an all-reduce.
class model {
 public:
  virtual ~model() = default;

  virtual std::span<float> parameters() = 0;
  virtual std::span<float const> gradient() const = 0;  ///< in the order of the parameters

  /// Matrices that together are all parameters, in their order; empty: the model has none.
  virtual std::vector<matrix_shape> matrices() const { return {}; }

  /// Sets the gradient to that of the mean loss over examples of the training set.
  virtual score learn(std::span<std::uint32_t const> examples) = 0;
  /// The score for examples of the test set.
  virtual score evaluate(std::span<std::uint32_t const> examples) = 0;
};

/// A training set, a test set, and a factory of untrained models.
class task {
 public:
  virtual ~task() = default;

  virtual std::string text() const = 0;  ///< description, e.g. "60000 images of ..."
  virtual int train_size() const = 0;
  virtual int test_size() const = 0;
  /// Labels of the training examples; empty: they have none.
  virtual std::span<std::uint8_t const> labels() const { return {}; }
  /// @param seed  of the initial parameters and of all later draws
  virtual std::unique_ptr<model> make_model(std::uint64_t seed) const = 0;
};

}  // namespace train
