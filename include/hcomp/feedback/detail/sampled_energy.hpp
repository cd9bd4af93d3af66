#pragma once
/// @file
/// The size of vectors, estimated from few values.

#include <algorithm>
#include <cstddef>
#include <span>

namespace hcomp::detail {

/// Sum of squares of a sample: all of the first 4096 values, or 256 evenly spread runs of 16.
/// Samples of vectors of one size have the same places.
template <class T> double sampled_energy(std::span<T const> x) {
  constexpr std::size_t run = 16, runs = 256;
  double sum = 0;
  for (std::size_t first = 0; first < x.size(); first += std::max(run, x.size() / runs))
    for (std::size_t i = first; i < std::min(first + run, x.size()); ++i) {
      auto const value = static_cast<double>(x[i]);
      sum += value * value;
    }
  return sum;
}

}  // namespace hcomp::detail
