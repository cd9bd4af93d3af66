#pragma once
/// @file
/// Word vectors learnt from text: every step touches few of very many parameters.

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

/// Skip-gram with negative sampling: a word's vector is to tell the words around it from random
/// ones.
///
/// An example is a place in the text. Its word makes a pair with every word up to a random distance
/// from 1 to `window`. The loss of a pair of word v and neighbour u is
/// -log s(u.v) - negatives * mean of log s(-n.v) over the words n drawn, s the logistic function.
/// Drawing for all examples together leaves more parameters alone than drawing for each.
/// Parameters: vectors of words, then vectors of words as neighbours, by word. Only rows of words
/// that occur have gradients that are not 0.
/// Source: Mikolov et al., NeurIPS 2013; shared draws after Ji et al., arXiv 1604.04661.
class skip_gram : public model {
 public:
  /// @param text  is kept by reference
  /// Vectors start uniform in +-0.5 / dimension, those of neighbours at 0.
  skip_gram(corpus const& text, skip_gram_settings const& how, std::uint64_t seed);

  std::span<float> parameters() override;
  std::span<float const> gradient() const override;

  score learn(std::span<std::uint32_t const> examples) override;
  /// Draws are the same whenever the examples are the same.
  score evaluate(std::span<std::uint32_t const> examples) override;

  /// What is drawn for some examples.
  struct lesson {
    struct word {
      std::uint32_t center;
      std::size_t end;  ///< of its neighbours
    };
    std::vector<word> words;
    std::vector<std::uint32_t> neighbours;  ///< of the first word, of the second, ...
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
  std::vector<std::uint64_t> up_to_;  ///< shares of words as negatives, summed, of 2^64
  Eigen::VectorXf parameters_, gradient_;
  std::vector<Eigen::Index> touched_;  ///< rows of the gradient that are not 0
  lesson lesson_;
  std::vector<std::uint32_t> places_;
};

/// The task of telling which words stand together.
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
