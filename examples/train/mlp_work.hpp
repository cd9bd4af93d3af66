#pragma once
/// @file
/// Kernels of a fully connected network besides matrix products, for host and device.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>

#include "matrix.hpp"

namespace train {

/// Pointers to images in an executor's memory.
struct image_view {
  std::uint8_t const* pixels;  ///< one image after the other
  std::uint8_t const* labels;  ///< one per image
  float mean, deviation;       ///< used to standardise inputs
};

/// Column i becomes image numbers[i]. Below it is a 1, the input of the biases.
struct gather_images {
  image_view from;
  std::uint32_t const* numbers;
  matrix inputs;  ///< without the row of ones

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    int const features = inputs.rows;
    float const mean = from.mean, deviation = from.deviation;
    auto const* const pixels = from.pixels + numbers[i] * static_cast<std::size_t>(features);
    float* const column = inputs.values + i * static_cast<std::size_t>(inputs.stride);
    for (int f = group.worker(); f < features; f += Group::workers)
      column[f] = (static_cast<float>(pixels[f]) - mean) / deviation;
    if (group.worker() == 0) column[features] = 1;
  }
};

/// Applies ReLU to column i. Below it is a 1, the input of the biases.
struct rectify {
  matrix outputs;  ///< without the row of ones

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    int const rows = outputs.rows;
    float* const column = outputs.values + i * static_cast<std::size_t>(outputs.stride);
    for (int r = group.worker(); r < rows; r += Group::workers)
      column[r] = column[r] > 0 ? column[r] : 0;
    if (group.worker() == 0) column[rows] = 1;
  }
};

/// Gradient of ReLU for column i: from the gradient of its outputs to that of its inputs.
struct rectify_gradient {
  matrix outputs;  ///< outputs of ReLU
  matrix delta;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    int const rows = delta.rows;
    float const* const output = outputs.values + i * static_cast<std::size_t>(outputs.stride);
    float* const column = delta.values + i * static_cast<std::size_t>(delta.stride);
    for (int r = group.worker(); r < rows; r += Group::workers)
      column[r] = output[r] > 0 ? column[r] : 0;
  }
};

/// Result of a network for one image.
struct image_score {
  float loss;  ///< cross entropy in nats
  std::uint32_t is_correct;
};

/// Scores of all columns, and the gradient of their mean loss: softmax minus the one-hot label,
/// divided by the number of columns. One block does all work, because the number of classes is
/// small.
struct cross_entropy {
  matrix outputs;
  matrix delta;
  std::uint8_t const* labels;  ///< labels of all images
  std::uint32_t const* numbers;
  image_score* scores;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    for (int i = group.worker(); i < outputs.columns; i += Group::workers) {
      auto const column = static_cast<std::size_t>(i);
      float const* const x = outputs.values + column * static_cast<std::size_t>(outputs.stride);
      float* const d = delta.values + column * static_cast<std::size_t>(delta.stride);
      int const label = labels[numbers[i]];
      int best = 0;
      for (int c = 1; c < outputs.rows; ++c)
        if (x[c] > x[best]) best = c;
      float const peak = x[best], margin = x[label] - peak;
      float whole = 0;
      for (int c = 0; c < outputs.rows; ++c) {
        d[c] = std::exp(x[c] - peak);
        whole += d[c];
      }
      auto const images = static_cast<float>(outputs.columns);
      for (int c = 0; c < outputs.rows; ++c) d[c] = (d[c] / whole - (c == label ? 1 : 0)) / images;
      scores[i] = {std::log(whole) - margin, best == label};
    }
  }
};

}  // namespace train
