#pragma once
/// @file
/// Word vectors learnt from text. The gradient is sparse: a step uses a small part of the
/// parameters.

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skip_gram_settings.hpp"
#include "task.hpp"
#include "text.hpp"

namespace train {

/// Skip-gram with negative sampling: a word's vector learns to distinguish the words around it from
/// random words.
///
/// An example is a position in the text. Its word forms a pair with every word up to a random
/// distance from 1 to `window`. With the logistic function s, the loss of word v and neighbour u is
/// -log s(u.v) - negatives * mean of log s(-n.v) over the random words n.
///
/// All examples of a step share their random words, so that a step uses fewer parameters.
/// Parameters: the vectors of words, then the vectors of words as neighbours, by word. Only rows of
/// words in the step have gradients that are not 0.
/// Source: Mikolov et al., NeurIPS 2013; shared draws after Ji et al., arXiv 1604.04661.
class skip_gram : public model {
 public:
  /// Initial vectors of words are uniform in +-0.5 / dimension, those of neighbours are 0.
  /// @param text  kept by reference
  skip_gram(corpus const& text, skip_gram_settings const& how, std::uint64_t seed);

  std::span<float> parameters() override;
  std::span<float const> gradient() const override;

  score learn(std::span<std::uint32_t const> examples) override;
  /// Equal examples use equal random words.
  score evaluate(std::span<std::uint32_t const> examples) override;

  /// Words, neighbours and random words of some examples.
  struct lesson {
    struct word {
      std::uint32_t center;
      std::size_t end;  ///< end of its neighbours
    };
    std::vector<word> words;
    std::vector<std::uint32_t> neighbours;  ///< those of the first word, then of the second, ...
    std::vector<std::uint32_t> negatives;
  };
  lesson const& draw(std::span<std::uint32_t const> text, std::span<std::uint32_t const> places,
                     std::uint64_t seed);

 private:
  auto row(Eigen::VectorXf& all, std::uint32_t word) const;
  auto neighbour_row(Eigen::VectorXf& all, std::uint32_t word) const;
  template <class Learner> score go_through(lesson const& what, Learner const& learn);

  corpus const* text_;
  skip_gram_settings how_;
  std::uint64_t seed_, lessons_ = 0;
  std::vector<std::uint64_t> up_to_;  ///< cumulative shares of words as negatives, times 2^64
  Eigen::VectorXf parameters_, gradient_;
  std::vector<Eigen::Index> touched_;  ///< rows of the gradient that are not 0
  lesson lesson_;
  std::vector<std::uint32_t> places_;
};

/// The task of learning which words occur together.
class embedding : public task {
 public:
  embedding(corpus text, skip_gram_settings const& how) : text_(std::move(text)), how_(how) {}

  std::string text() const override;
  int train_size() const override { return static_cast<int>(text_.train.size()); }
  int test_size() const override { return static_cast<int>(text_.test_places.size()); }
  std::unique_ptr<model> make_model(std::uint64_t seed) const override;

 private:
  corpus text_;
  skip_gram_settings how_;
};

}  // namespace train
