#pragma once
/// @file
/// What can be trained, each with the settings that suit it.

#include <array>
#include <optional>
#include <string_view>

#include "data.hpp"
#include "text.hpp"

namespace train {

/// A name for --model and what goes with it unless the command line says otherwise.
struct model_kind {
  std::string_view name;
  std::string_view what;
  std::string_view codecs;     ///< with commas
  std::string_view data;       ///< --data
  std::string_view data_name;  ///< for people
  std::string_view examples;   ///< what batches consist of
  double epochs;
  int batch;  ///< examples per rank and step
  /// In place of the methods' own, which were found for another model.
  std::optional<double> rate, momentum;
  bool has_accuracy;  ///< it gives answers that are right or wrong
  bool is_sparse;     ///< most of its gradients' values are 0, and their parameters are to stay
};

inline constexpr std::array models{
    model_kind{.name = "mlp",
               .what = "a fully connected network that tells images apart",
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
               .what = "vectors of words, by skip-gram with negative sampling",
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
