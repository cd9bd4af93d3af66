#pragma once
/// @file
/// What is trained: a model, and the examples it learns from.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace train {

/// What a model makes of some examples.
struct score {
  double loss = 0;   ///< cross entropy in nats, summed over
  double count = 0;  ///< so many images, or pairs of words
  int correct = 0;   ///< images whose class got the largest output; of pairs none

  score& operator+=(score const& other) {
    loss += other.loss;
    count += other.count;
    correct += other.correct;
    return *this;
  }
};

/// Parameters in one vector, as a collective likes them.
class model {
 public:
  virtual ~model() = default;

  virtual std::span<float> parameters() = 0;
  virtual std::span<float const> gradient() const = 0;  ///< in the order of the parameters

  /// Sets the gradient to that of the mean loss over these examples of the training set.
  virtual score learn(std::span<std::uint32_t const> examples) = 0;
  /// Of examples of the test set.
  virtual score evaluate(std::span<std::uint32_t const> examples) = 0;
};

/// A training and a test set, and models that know nothing of them yet.
class task {
 public:
  virtual ~task() = default;

  virtual std::string text() const = 0;  ///< for people, such as "60000 images of ..."
  virtual int train_size() const = 0;
  virtual int test_size() const = 0;
  /// @param seed  of the parameters and of all that is drawn later
  virtual std::unique_ptr<model> make_model(std::uint64_t seed) const = 0;
};

}  // namespace train
