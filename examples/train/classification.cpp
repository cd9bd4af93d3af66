#include "classification.hpp"

#include <fmt/core.h>

#include <utility>

#include "mlp.hpp"

namespace train {
namespace {

class classifier : public model {
 public:
  classifier(data_split const& data, std::span<int const> widths, std::uint64_t seed)
      : data_(&data), network_(widths, seed) {}

  std::span<float> parameters() override { return network_.parameters(); }
  std::span<float const> gradient() const override { return network_.gradient(); }

  score learn(std::span<std::uint32_t const> examples) override {
    gather(data_->train, examples, images_);
    return network_.learn(images_);
  }
  score evaluate(std::span<std::uint32_t const> examples) override {
    gather(data_->test, examples, images_);
    return network_.evaluate(images_);
  }

 private:
  data_split const* data_;
  mlp network_;
  batch images_;
};

}  // namespace

classification::classification(data_split data, std::vector<int> hidden) : data_(std::move(data)) {
  widths_.push_back(data_.train.features);
  widths_.insert(widths_.end(), hidden.begin(), hidden.end());
  widths_.push_back(data_.train.classes);
}

std::string classification::text() const {
  return fmt::format("{} training and {} test images of {} pixels in {} classes",
                     data_.train.size(), data_.test.size(), data_.train.features,
                     data_.train.classes);
}

std::unique_ptr<model> classification::make_model(std::uint64_t seed) const {
  return std::make_unique<classifier>(data_, widths_, seed);
}

}  // namespace train
