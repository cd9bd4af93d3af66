#pragma once
/// @file
/// A vector plus its compensation, read as one vector.

#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/half.hpp>

namespace hcomp {

/// The sum x[i] + compensation[i], computed on each read. Both arrays have equal length and are in
/// the same memory space.
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
