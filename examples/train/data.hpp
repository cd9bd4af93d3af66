#pragma once
/// @file
/// Images with classes, and which of them a rank sees at which step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace train {

/// Images and their classes. Pixels stay bytes; a batch is converted when it is gathered.
struct dataset {
  int features = 0;                  ///< pixels of one image
  int classes = 0;                   ///< labels are below this
  std::vector<std::uint8_t> pixels;  ///< one image after the other
  std::vector<std::uint8_t> labels;  ///< one per image
  float mean = 0, deviation = 1;     ///< of the training set's pixels; inputs are standardised

  int size() const { return static_cast<int>(labels.size()); }
};

struct data_split {
  dataset train, test;
};

/// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr char const* fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// For people, such as "60000 training and ... images of ...".
std::string text_of(data_split const& data);

/// The two sets found in `source`: a folder with the four IDX files of MNIST or Fashion-MNIST
/// (plain or .gz), or the word "synthetic" for a small set drawn from `seed`.
/// @throws std::runtime_error  a file is missing or is not what its name says
data_split load_data(std::string const& source, std::uint64_t seed);

/// Deals a training set out to ranks: every epoch a new shuffle, the same on all ranks, of which
/// each step takes `ranks` consecutive mini-batches, one per rank. What is left of an epoch is
/// dropped.
class sampler {
 public:
  /// @throws std::invalid_argument  fewer than ranks x batch images
  sampler(int images, int batch, int rank, int ranks, std::uint64_t seed);

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// This rank's images at `step`, counted from 0; valid until the next call.
  std::span<std::uint32_t const> operator()(std::uint64_t step);

 private:
  void shuffle(std::uint64_t epoch);

  std::vector<std::uint32_t> order_;
  std::size_t batch_, rank_, ranks_;
  std::uint64_t seed_, steps_per_epoch_, epoch_ = ~std::uint64_t{0};
};

}  // namespace train
