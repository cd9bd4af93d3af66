#pragma once
/// @file
/// The models of `train`, each with its default settings.

#include <array>
#include <optional>
#include <string_view>

#include "data.hpp"
#include "text.hpp"

namespace train {

/// A name for --model, and its default settings.
struct model_kind {
  std::string_view name;
  std::string_view what;
  std::string_view codecs;     ///< default of --codec, separated by commas
  std::string_view data;       ///< default of --data
  std::string_view data_name;  ///< name of the data in texts
  std::string_view examples;   ///< name of the examples in texts
  double epochs;
  int batch;  ///< examples per rank and step
  /// Replace the methods' values, which were tuned for another model.
  std::optional<double> rate, momentum;
  bool has_accuracy;  ///< classifies examples
  bool is_sparse;     ///< most values of its gradients are 0; their parameters must not move
};

inline constexpr std::array models{
    model_kind{.name = "mlp",
               .what = "a fully connected network that classifies images",
               .codecs = "fp32,signum,ef_sign,thc,thc:late=0.1:lost=0.01,marsit",
               .data = fashion_mnist_folder,
               .data_name = "Fashion-MNIST",
               .examples = "images",
               .epochs = 5,
               .batch = 25,
               .rate = {},
               .momentum = {},
               .has_accuracy = true,
               .is_sparse = false},
    model_kind{.name = "embedding",
               .what = "word vectors by skip-gram with negative sampling",
               .codecs = "fp32,sparse,fixed,sparse_fixed",
               .data = gcide_file,
               .data_name = "the dictionary GCIDE",
               .examples = "words",
               .epochs = 0.25,
               .batch = 100,
               .rate = 100,
               .momentum = 0,
               .has_accuracy = false,
               .is_sparse = true},
};

/// The model called `name`, or nothing.
constexpr model_kind const* find_model(std::string_view name) {
  for (auto const& m : models)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace train
