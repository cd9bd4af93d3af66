#include "data.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "random.hpp"

namespace train {
namespace {

std::runtime_error missing(std::filesystem::path const& file) {
  return std::runtime_error(
      fmt::format("{}[.gz] was not found. On Debian, `apt install dataset-fashion-mnist` puts the "
                  "data in {}; `--data FOLDER` reads it from elsewhere, and `--data synthetic` "
                  "needs no files",
                  file.string(), fashion_mnist_folder));
}

/// Reads the values of an IDX file, whose header must have the extents `shape` (0: any).
/// IDX: two zero bytes, type 8 (unsigned bytes), number of extents, big-endian extents, values.
template <std::size_t Extents>
std::vector<std::uint8_t> read_idx(std::filesystem::path file,
                                   std::array<std::uint32_t, Extents>& shape) {
  if (!exists(file)) {
    auto const plain = file;
    file += ".gz";
    if (!exists(file)) throw missing(plain);
  }
  std::unique_ptr<gzFile_s, int (*)(gzFile)> const in(gzopen(file.c_str(), "rb"), gzclose);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be opened for reading", file.string()));
  auto const read = [&](void* bytes, std::size_t count) {
    if (gzfread(bytes, 1, count, in.get()) != count)
      throw std::runtime_error(fmt::format("{} is damaged or too short", file.string()));
  };

  std::array<std::uint8_t, 4> magic;
  read(magic.data(), magic.size());
  if (magic != std::array<std::uint8_t, 4>{0, 0, 8, Extents})
    throw std::runtime_error(
        fmt::format("{} is no IDX file of bytes with {} extents: it starts "
                    "with {}, {}, {}, {}",
                    file.string(), Extents, magic[0], magic[1], magic[2], magic[3]));
  std::size_t count = 1;
  for (auto& extent : shape) {
    std::array<std::uint8_t, 4> b;
    read(b.data(), b.size());
    std::uint32_t const found = std::uint32_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (extent != 0 && found != extent)
      throw std::runtime_error(fmt::format("{} has an extent of {} where {} was expected",
                                           file.string(), found, extent));
    extent = found;
    count *= found;
  }
  std::vector<std::uint8_t> values(count);
  read(values.data(), count);
  return values;
}

dataset read_images(std::filesystem::path const& folder, std::string const& prefix) {
  std::array<std::uint32_t, 3> shape{};
  dataset data;
  data.pixels = read_idx(folder / (prefix + "-images-idx3-ubyte"), shape);
  std::array<std::uint32_t, 1> count{shape[0]};
  data.labels = read_idx(folder / (prefix + "-labels-idx1-ubyte"), count);
  data.features = static_cast<int>(shape[1] * shape[2]);
  data.classes = data.labels.empty() ? 0 : 1 + *std::ranges::max_element(data.labels);
  return data;
}

/// Ten random images as classes; strong noise hides most of an image.
data_split make_synthetic(std::uint64_t seed) {
  constexpr int classes = 10, features = 64;
  generator random(seed);
  std::array<std::array<float, features>, classes> pictures;
  for (auto& picture : pictures) std::ranges::generate(picture, [&] { return uniform(random); });
  auto const draw = [&](int images) {
    dataset data{.features = features, .classes = classes, .pixels = {}, .labels = {}};
    for (int i = 0; i < images; ++i) {
      data.labels.push_back(static_cast<std::uint8_t>(below(random, classes)));
      for (float const value : pictures[data.labels.back()])
        data.pixels.push_back(static_cast<std::uint8_t>(255 * (value + 2 * uniform(random)) / 3));
    }
    return data;
  };
  auto train = draw(4000);
  return {std::move(train), draw(1000)};
}

void standardise(data_split& data) {
  double sum = 0, squares = 0;
  for (double const pixel : data.train.pixels) sum += pixel, squares += pixel * pixel;
  auto const count = static_cast<double>(data.train.pixels.size());
  double const mean = sum / count;
  for (auto* set : {&data.train, &data.test}) {
    set->mean = static_cast<float>(mean);
    set->deviation = static_cast<float>(std::sqrt(std::max(1e-6, squares / count - mean * mean)));
  }
}

}  // namespace

data_split load_data(std::string const& source, std::uint64_t seed) {
  auto data = source == "synthetic"
                  ? make_synthetic(seed)
                  : data_split{read_images(source, "train"), read_images(source, "t10k")};
  if (data.train.size() == 0 || data.test.size() == 0 ||
      data.train.features != data.test.features || data.test.classes > data.train.classes)
    throw std::runtime_error(fmt::format(
        "{}: {} training images of {} pixels in {} classes do not go with {} test images of {} "
        "pixels in {} classes",
        source, data.train.size(), data.train.features, data.train.classes, data.test.size(),
        data.test.features, data.test.classes));
  standardise(data);
  return data;
}

std::string text_of(data_split const& data) {
  return fmt::format("{} training and {} test images of {} pixels in {} classes", data.train.size(),
                     data.test.size(), data.train.features, data.train.classes);
}

sampler::sampler(int images, int batch, int rank, int ranks, std::uint64_t seed,
                 std::span<std::uint8_t const> labels)
    : images_(static_cast<std::size_t>(images)),
      batch_(static_cast<std::size_t>(batch)),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      seed_(seed),
      steps_per_epoch_(images_.size() / (batch_ * ranks_)) {
  if (steps_per_epoch_ == 0)
    throw std::invalid_argument(fmt::format(
        "{} training images are too few for {} ranks with batches of {}", images, ranks, batch));
  std::iota(images_.begin(), images_.end(), 0u);
  if (labels.empty()) return;
  std::ranges::stable_sort(images_, {}, [&](std::uint32_t image) { return labels[image]; });
  auto const part = images_.size() / ranks_;
  images_ = {images_.begin() + static_cast<std::ptrdiff_t>(rank_ * part),
             images_.begin() + static_cast<std::ptrdiff_t>((rank_ + 1) * part)};
  rank_ = 0;
  ranks_ = 1;
}

std::span<std::uint32_t const> sampler::operator()(std::uint64_t step) {
  if (auto const epoch = step / steps_per_epoch_; epoch != epoch_) shuffle(epoch);
  auto const first = (step % steps_per_epoch_ * ranks_ + rank_) * batch_;
  return std::span(order_).subspan(first, batch_);
}

void sampler::shuffle(std::uint64_t epoch) {
  order_ = images_;
  std::seed_seq words{seed_ & 0xffffffffu, seed_ >> 32, epoch};
  generator random(words);
  for (auto left = static_cast<std::uint32_t>(order_.size()); left > 1; --left)
    std::swap(order_[left - 1], order_[below(random, left)]);
  epoch_ = epoch;
}

}  // namespace train
