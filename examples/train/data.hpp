#pragma once
/// @file
/// Labelled images, and their distribution over ranks and steps.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace train {

/// Images and their classes. Pixels are bytes; gathering a batch converts them to float.
struct dataset {
  int features = 0;                  ///< pixels of one image
  int classes = 0;                   ///< number of classes; labels are smaller
  std::vector<std::uint8_t> pixels;  ///< one image after the other
  std::vector<std::uint8_t> labels;  ///< one per image
  float mean = 0, deviation = 1;     ///< of the training set's pixels; used to standardise inputs

  int size() const { return static_cast<int>(labels.size()); }
};

struct data_split {
  dataset train, test;
};

/// Folder of Debian's package dataset-fashion-mnist.
inline constexpr char const* fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// Description, e.g. "60000 training and ... images of ...".
std::string text_of(data_split const& data);

/// Loads a training and a test set.
/// @param source  a folder with the four IDX files of MNIST or Fashion-MNIST (plain or .gz), or the
///                word "synthetic" for a small set drawn from `seed`
/// @throws std::runtime_error  a file is missing or has other content than its name says
data_split load_data(std::string const& source, std::uint64_t seed);

/// Distributes a training set over ranks. Every epoch has a new shuffle, equal on all ranks. Every
/// step takes `ranks` consecutive mini-batches of it, one per rank. The remainder of an epoch is
/// dropped.
///
/// With labels, a rank only has its own part of the images: they are sorted by label and split into
/// `ranks` consecutive parts of equal size. Every epoch shuffles each part.
class sampler {
 public:
  /// @param labels  one per image, or none
  /// @throws std::invalid_argument  fewer than ranks x batch images
  sampler(int images, int batch, int rank, int ranks, std::uint64_t seed,
          std::span<std::uint8_t const> labels = {});

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// Numbers of this rank's images in `step`, counted from 0; valid until the next call.
  std::span<std::uint32_t const> operator()(std::uint64_t step);

 private:
  void shuffle(std::uint64_t epoch);

  std::vector<std::uint32_t> images_, order_;  ///< those to draw from, and their current order
  std::size_t batch_, rank_, ranks_;           ///< rank 0 of 1 if the images are this rank's part
  std::uint64_t seed_, steps_per_epoch_, epoch_ = ~std::uint64_t{0};
};

}  // namespace train
