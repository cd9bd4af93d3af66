#pragma once
/// @file
/// The task of classifying images.

#include <cstdint>
#include <hcomp/exec/executor.hpp>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array_in.hpp"
#include "data.hpp"
#include "mlp.hpp"
#include "mlp_work.hpp"
#include "task.hpp"

namespace train {

/// Images in an executor's memory.
template <hcomp::Executor E> class images_in {
 public:
  /// @param data  kept by reference if the executor can read host memory
  explicit images_in(dataset const& data) : data_(&data) {}

  image_view view() const {
    return {data_->pixels.data(), data_->labels.data(), data_->mean, data_->deviation};
  }

 private:
  dataset const* data_;
};

template <hcomp::DeviceExecutor E> class images_in<E> {
 public:
  explicit images_in(dataset const& data)
      : mean_(data.mean),
        deviation_(data.deviation),
        pixels_(data.pixels.size()),
        labels_(data.labels.size()) {
    pixels_.from_host(data.pixels);
    labels_.from_host(data.labels);
  }

  image_view view() const { return {pixels_.data(), labels_.data(), mean_, deviation_}; }

 private:
  float mean_, deviation_;
  array_in<E, std::uint8_t> pixels_, labels_;
};

/// An mlp that learns the classes of images.
template <hcomp::Executor E, class Products> class classification : public task {
 public:
  /// @param hidden              widths of the hidden layers
  /// @param executor, multiply  see mlp
  classification(data_split data, std::span<int const> hidden, E& executor, Products& multiply)
      : data_(std::move(data)),
        train_(data_.train),
        test_(data_.test),
        executor_(&executor),
        multiply_(&multiply) {
    widths_.push_back(data_.train.features);
    widths_.insert(widths_.end(), hidden.begin(), hidden.end());
    widths_.push_back(data_.train.classes);
  }
  classification(classification const&) = delete;
  classification& operator=(classification const&) = delete;

  std::string text() const override { return text_of(data_); }
  int train_size() const override { return data_.train.size(); }
  int test_size() const override { return data_.test.size(); }
  std::span<std::uint8_t const> labels() const override { return data_.train.labels; }
  std::unique_ptr<model> make_model(std::uint64_t seed) const override {
    return std::make_unique<classifier>(*this, seed);
  }

 private:
  class classifier : public model {
   public:
    classifier(classification const& what, std::uint64_t seed)
        : what_(&what), network_(what.widths_, seed, *what.executor_, *what.multiply_) {}

    std::span<float> parameters() override { return network_.parameters(); }
    std::span<float const> gradient() const override { return network_.gradient(); }
    std::vector<matrix_shape> matrices() const override { return network_.matrices(); }

    score learn(std::span<std::uint32_t const> examples) override {
      return network_.learn(what_->train_.view(), examples);
    }
    score evaluate(std::span<std::uint32_t const> examples) override {
      return network_.evaluate(what_->test_.view(), examples);
    }

   private:
    classification const* what_;
    mlp<E, Products> network_;
  };

  data_split data_;
  images_in<E> train_, test_;
  std::vector<int> widths_;
  E* executor_;
  Products* multiply_;
};

}  // namespace train
