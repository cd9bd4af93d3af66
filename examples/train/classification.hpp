#pragma once
/// @file
/// The task of telling images apart.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data.hpp"
#include "task.hpp"

namespace train {

/// An mlp that learns the classes of images.
class classification : public task {
 public:
  /// @param hidden  widths of the hidden layers
  classification(data_split data, std::vector<int> hidden);

  std::string text() const override;
  int train_size() const override { return data_.train.size(); }
  int test_size() const override { return data_.test.size(); }
  std::unique_ptr<model> make_model(std::uint64_t seed) const override;

 private:
  data_split data_;
  std::vector<int> widths_;
};

}  // namespace train
