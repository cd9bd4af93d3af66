#pragma once
/// @file
/// Products and norms of vectors, in double.

#include <cstddef>

namespace hcomp::testing {

/// @param x,y  vectors of any type, of equal length
template <class Vector> double product(Vector const& x, Vector const& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

/// ||x||^2
template <class Vector> double energy(Vector const& x) { return product(x, x); }

/// ||x - y||^2
template <class Vector> double distance(Vector const& x, Vector const& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace hcomp::testing
