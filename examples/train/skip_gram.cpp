#include "skip_gram.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "random.hpp"

namespace train {
namespace {

/// -log s(z) without overflow, with the logistic function s.
float loss_of(float z) { return std::max(-z, 0.0f) + std::log1p(std::exp(-std::abs(z))); }
float logistic(float z) { return 1 / (1 + std::exp(-z)); }

}  // namespace

auto skip_gram::row(Eigen::VectorXf& all, std::uint32_t word) const {
  return all.segment(Eigen::Index{word} * how_.dimension, how_.dimension);
}
auto skip_gram::neighbour_row(Eigen::VectorXf& all, std::uint32_t word) const {
  return row(all, word + static_cast<std::uint32_t>(text_->words.size()));
}

skip_gram::skip_gram(corpus const& text, skip_gram_settings const& how, std::uint64_t seed)
    : text_(&text), how_(how), seed_(seed) {
  auto const words = static_cast<Eigen::Index>(text.words.size());
  parameters_.setZero(2 * words * how.dimension);
  gradient_.setZero(parameters_.size());
  generator random(seed);
  for (float& x : parameters_.head(words * how.dimension))
    x = (uniform(random) - 0.5f) / static_cast<float>(how.dimension);

  double all = 0, sum = 0;
  auto const share = [](std::uint64_t count) {
    return std::pow(static_cast<double>(count), 0.75);  // as in word2vec.c
  };
  for (auto const count : text.counts) all += share(count);
  for (auto const count : text.counts) {
    sum += share(count);
    up_to_.push_back(static_cast<std::uint64_t>(std::min(sum / all, 1 - 0x1p-53) * 0x1p64));
  }
  up_to_.back() = std::numeric_limits<std::uint64_t>::max();
}

std::span<float> skip_gram::parameters() {
  return {parameters_.data(), static_cast<std::size_t>(parameters_.size())};
}
std::span<float const> skip_gram::gradient() const {
  return {gradient_.data(), static_cast<std::size_t>(gradient_.size())};
}

skip_gram::lesson const& skip_gram::draw(std::span<std::uint32_t const> text,
                                         std::span<std::uint32_t const> places,
                                         std::uint64_t seed) {
  lesson_.words.clear();
  lesson_.neighbours.clear();
  lesson_.negatives.clear();
  fast_generator random(seed + (places.empty() ? 0 : places[0]));
  for (auto const place : places) {
    std::uint32_t const reach = 1 + below(random, how_.window);
    auto const size = static_cast<std::uint32_t>(text.size());
    for (auto i = place - std::min(place, reach); i < size && i <= place + reach; ++i)
      if (i != place) lesson_.neighbours.push_back(text[i]);
    lesson_.words.push_back({text[place], lesson_.neighbours.size()});
  }
  for (std::uint32_t i = 0; i < how_.drawn; ++i) {
    auto const found = std::ranges::upper_bound(up_to_, random());
    lesson_.negatives.push_back(
        static_cast<std::uint32_t>(std::min(found - up_to_.begin(), std::ssize(up_to_) - 1)));
  }
  return lesson_;
}

/// Calls learn(center, neighbour, d loss / d product) for all pairs of a lesson.
template <class Learner> score skip_gram::go_through(lesson const& what, Learner const& learn) {
  score total;
  std::size_t first = 0;
  for (auto const& [center, end] : what.words) {
    auto const v = row(parameters_, center);
    auto const pairs = static_cast<float>(end - first);
    for (; first < end; ++first) {
      auto const u = what.neighbours[first];
      float const product = neighbour_row(parameters_, u).dot(v);
      total.loss += loss_of(product);
      learn(center, u, -logistic(-product));
    }
    float const weight =
        pairs * static_cast<float>(how_.negatives) / static_cast<float>(how_.drawn);
    for (auto const n : what.negatives) {
      float const product = neighbour_row(parameters_, n).dot(v);
      total.loss += weight * loss_of(-product);
      learn(center, n, weight * logistic(product));
    }
    total.count += pairs;
  }
  return total;
}

score skip_gram::learn(std::span<std::uint32_t const> examples) {
  for (auto const first : touched_) gradient_.segment(first, how_.dimension).setZero();
  touched_.clear();
  auto const& what = draw(text_->train, examples, hcomp::mix(seed_) + (++lessons_ << 32));
  auto const touch = [&](auto row) { touched_.push_back(row.data() - gradient_.data()); };
  for (auto const& word : what.words) touch(row(gradient_, word.center));
  for (auto const u : what.neighbours) touch(neighbour_row(gradient_, u));
  for (auto const n : what.negatives) touch(neighbour_row(gradient_, n));
  float const share = 1 / static_cast<float>(what.neighbours.size());  // of the mean
  return go_through(what, [&](std::uint32_t center, std::uint32_t u, float slope) {
    row(gradient_, center) += share * slope * neighbour_row(parameters_, u);
    neighbour_row(gradient_, u) += share * slope * row(parameters_, center);
  });
}

score skip_gram::evaluate(std::span<std::uint32_t const> examples) {
  places_.clear();
  for (auto const example : examples) places_.push_back(text_->test_places[example]);
  return go_through(draw(text_->test, places_, 0), [](auto...) {});
}

std::string embedding::text() const {
  return fmt::format("{} words of text to learn from, {} of them different, {} places to test at",
                     text_.train.size(), text_.words.size(), text_.test_places.size());
}

std::unique_ptr<model> embedding::make_model(std::uint64_t seed) const {
  return std::make_unique<skip_gram>(text_, how_, seed);
}

}  // namespace train
