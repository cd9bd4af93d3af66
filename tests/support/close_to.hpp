#pragma once
/// @file
/// Comparing numbers of any size.

#include <doctest/doctest.h>

namespace hcomp::testing {

/// Equals numbers that differ from `expected` by less than a share `tolerance` of the larger one.
/// doctest::Approx by itself allows that share of 1 as well: to errors of 0.01, anything.
inline doctest::Approx close_to(double expected, double tolerance = 1e-9) {
  return doctest::Approx(expected).epsilon(tolerance).scale(1e-15);
}

}  // namespace hcomp::testing
