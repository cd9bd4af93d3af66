#pragma once
/// @file
/// In-place division of a vector.

#include <cstddef>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// x[i] /= by, `run` values per block; work for an executor. Same bits on CPUs and GPUs.
template <class T> struct divide_values {
  static constexpr std::size_t run = 1024;

  std::size_t values;
  T by;
  T* x;

  constexpr std::size_t runs() const { return (values + run - 1) / run; }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const end = (i + 1) * run < values ? (i + 1) * run : values;
    for (auto k = i * run + static_cast<std::size_t>(group.worker()); k < end; k += Group::workers)
      x[k] = divided(x[k], by);
  }
};

}  // namespace hcomp::detail
