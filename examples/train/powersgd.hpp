#pragma once
/// @file
/// PowerSGD: updates of weight matrices as products of two thin matrices.

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/hcomp.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "paced_transport.hpp"
#include "random.hpp"
#include "rounds.hpp"
#include "synchronizer.hpp"
#include "task.hpp"

namespace train {

/// With M = residual + update of a weight matrix (m x n): P = mean of M Q over the ranks,
/// orthonormalized; Q = mean of M^T P. The common update is P Q^T, the new residual M - P Q^T. The
/// next step starts from this Q.
///
/// Sends 2 (ranks - 1) / ranks times 4 (m + n) bytes per matrix and per rank of the product.
/// Source: Vogels, Karimireddy, Jaggi, PowerSGD, NeurIPS 2019, Algorithms 1 and 2. Unlike there,
/// momentum comes before the compression, as for all methods of `train`.
class powersgd : public synchronizer {
 public:
  /// @param shapes  the matrices, which together have all values
  /// @param rank    of the products; matrices with fewer rows or columns have products of full rank
  /// @throws std::invalid_argument  no matrices
  powersgd(std::span<matrix_shape const> shapes, int rank, std::uint64_t seed,
           hcomp::plan_options const& how, paced_transport& transport,
           hcomp::host_executor& executor)
      : factors_(factors_of(shapes, rank)),
        left_(factors_.back().left.first + factors_.back().left.size()),
        right_(factors_.back().right.first + factors_.back().right.size()),
        residual_(factors_.back().whole.first + factors_.back().whole.size()),
        common_(residual_.size()),
        left_plan_(size(left_), {}, transport, executor, how),
        right_plan_(size(right_), {}, transport, executor, how) {
    residual_.setZero();
    generator random(seed);
    for (float& x : right_) x = 2 * uniform(random) - 1;
  }

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    hcomp::call_options const call{.step = step, .op = hcomp::reduce_op::mean};
    residual_ += Eigen::Map<Eigen::VectorXf>(update.data(), residual_.size());
    for (auto const& f : factors_)
      f.left.in(left_).noalias() = f.whole.in(residual_)*f.right.in(right_);
    auto stats = left_plan_.all_reduce({left_.data(), size(left_)}, call);
    for (auto const& f : factors_) {
      orthonormalize(f.left.in(left_));
      f.right.in(right_).noalias() = f.whole.in(residual_).transpose() * f.left.in(left_);
    }
    stats += right_plan_.all_reduce({right_.data(), size(right_)}, call);
    for (auto const& f : factors_)
      f.whole.in(common_).noalias() = f.left.in(left_)*f.right.in(right_).transpose();
    residual_ -= common_;
    std::ranges::copy(common_, update.begin());
    return stats;
  }

 private:
  /// A matrix in a vector. All ranks use vectors of Eigen's alignment, so that their products have
  /// the same bits.
  struct place {
    Eigen::Index first, rows, columns;

    Eigen::Index size() const { return rows * columns; }
    Eigen::Map<Eigen::MatrixXf> in(Eigen::VectorXf& all) const {
      return {all.data() + first, rows, columns};
    }
  };
  struct factor {
    place whole, left, right;
  };

  static std::vector<factor> factors_of(std::span<matrix_shape const> shapes, int rank) {
    if (shapes.empty())
      throw std::invalid_argument("powersgd compresses matrices, and the model has none");
    std::vector<factor> all;
    place whole{}, left{}, right{};
    for (auto const& shape : shapes) {
      auto const width =
          std::min({Eigen::Index{rank}, Eigen::Index{shape.rows}, Eigen::Index{shape.columns}});
      whole = {whole.first + whole.size(), shape.rows, shape.columns};
      left = {left.first + left.size(), shape.rows, width};
      right = {right.first + right.size(), shape.columns, width};
      all.push_back({whole, left, right});
    }
    return all;
  }
  static std::size_t size(Eigen::VectorXf const& x) { return static_cast<std::size_t>(x.size()); }

  /// By Gram and Schmidt. Columns that depend on earlier ones become noise of rounding, or stay 0.
  static void orthonormalize(Eigen::Map<Eigen::MatrixXf> p) {
    for (Eigen::Index c = 0; c < p.cols(); ++c) {
      for (Eigen::Index before = 0; before < c; ++before)
        p.col(c) -= p.col(before).dot(p.col(c)) * p.col(before);
      if (float const norm = p.col(c).norm(); norm > 0) p.col(c) /= norm;
    }
  }

  std::vector<factor> factors_;
  Eigen::VectorXf left_, right_, residual_, common_;
  exact_plan left_plan_, right_plan_;
};

}  // namespace train
