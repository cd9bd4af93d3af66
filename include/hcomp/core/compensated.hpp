#pragma once
/// @file
/// A vector and what compensation adds to it, read as one.

#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/half.hpp>

namespace hcomp {

/// x[i] + compensation[i], never stored. Both in one memory space, of equal length.
template <class T> struct compensated {
  T const* x;
  accumulator_t<T> const* compensation;

  HCOMP_HD accumulator_t<T> operator[](std::size_t i) const {
    return static_cast<accumulator_t<T>>(x[i]) + compensation[i];
  }
  HCOMP_HD friend compensated operator+(compensated source, std::size_t values) {
    return {source.x + values, source.compensation + values};
  }
};

}  // namespace hcomp
