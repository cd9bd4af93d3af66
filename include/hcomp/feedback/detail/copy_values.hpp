#pragma once
/// @file
/// Work that copies values within an executor's memory.

#include <cstddef>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// to = from, `run` values per block.
template <class T> struct copy_values {
  static constexpr std::size_t run = 4096;

  T* to;
  T const* from;
  std::size_t count;

  std::size_t runs() const { return (count + run - 1) / run; }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const end = (i + 1) * run < count ? (i + 1) * run : count;
    for (auto v = i * run + static_cast<std::size_t>(group.worker()); v < end; v += Group::workers)
      to[v] = from[v];
  }
};

}  // namespace hcomp::detail
