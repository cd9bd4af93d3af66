#pragma once
/// @file
/// Matrix products on the CPU.

#include <Eigen/Core>
#include <cstddef>

#include "matrix.hpp"

namespace train {

/// out = a b
struct eigen_product {
  matrix a, b, out;

  template <class Group> void operator()(Group, std::size_t) const {
    using map = Eigen::Map<Eigen::MatrixXf, 0, Eigen::OuterStride<>>;
    auto const mapped = [](matrix const& m) {
      return map(m.values, m.rows, m.columns, Eigen::OuterStride<>(m.stride));
    };
    auto const x = mapped(a), y = mapped(b);
    auto to = mapped(out);
    if (a.is_flipped && b.is_flipped)
      to.noalias() = x.transpose() * y.transpose();
    else if (a.is_flipped)
      to.noalias() = x.transpose() * y;
    else if (b.is_flipped)
      to.noalias() = x * y.transpose();
    else
      to.noalias() = x * y;
  }
};

/// Multiplies for executors that work on the CPU.
template <class E> class eigen_products {
 public:
  explicit eigen_products(E& executor) : executor_(&executor) {}

  /// Gives out = a b to the executor.
  void operator()(matrix const& a, matrix const& b, matrix const& out) {
    executor_->for_each_block(1, eigen_product{a, b, out});
  }

 private:
  E* executor_;
};

}  // namespace train
