#pragma once
/// @file
/// Input vectors of the all-reduces: generated, or from a file.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/random.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../support/npy.hpp"

namespace perf {

/// Vectors of all ranks. Every rank can read all of them, so the exact sum needs no network.
class input {
 public:
  virtual ~input() = default;
  /// Reads the values [first, first + out.size()) of rank `rank`.
  virtual void read(int rank, std::size_t first, std::span<float> out) const = 0;
  /// Length of the longest available vector.
  virtual std::size_t values() const = 0;

  /// Mean |x| of the first values of rank 0: the magnitude of a sign codec.
  double typical() const;
};

/// A share `density` of the values has a normal distribution of mean 0 and variance 1. All other
/// values are 0.
class generated : public input {
 public:
  generated(std::uint64_t seed, double density) : seed_(seed), density_(density) {}
  void read(int rank, std::size_t first, std::span<float> out) const override;
  std::size_t values() const override { return ~std::size_t{0}; }

 private:
  std::uint64_t seed_;
  double density_;
};

/// A matrix of float32 in NumPy's format, one row per rank.
class npy_file : public input {
 public:
  /// @throws std::runtime_error  as example::npy_matrix, or the file has fewer rows than ranks
  npy_file(std::string const& file, int ranks);
  void read(int rank, std::size_t first, std::span<float> out) const override {
    matrix_.read(static_cast<std::size_t>(rank), first, out);
  }
  std::size_t values() const override { return matrix_.columns(); }

 private:
  example::npy_matrix matrix_;
};

}  // namespace perf
