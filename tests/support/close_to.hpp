#pragma once
/// @file
/// Relative comparison of numbers of any size.

#include <doctest/doctest.h>

namespace hcomp::testing {

/// Equals numbers whose difference to `expected` is less than the share `tolerance` of the larger
/// one. By default doctest::Approx also allows that share of 1: too much for errors of 0.01.
inline doctest::Approx close_to(double expected, double tolerance = 1e-9) {
  return doctest::Approx(expected).epsilon(tolerance).scale(1e-15);
}

}  // namespace hcomp::testing
