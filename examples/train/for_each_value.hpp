#pragma once
/// @file
/// Elementwise work on vectors.

#include <cstddef>
#include <hcomp/core/config.hpp>

namespace train {

/// Calls f(i) for all i < values, in blocks.
template <class F> struct each_value {
  static constexpr std::size_t per_block = 1024;

  std::size_t values;
  F f;

  std::size_t blocks() const { return (values + per_block - 1) / per_block; }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    F const each = f;  // a copy that stores to floats cannot alias
    std::size_t const first = block * per_block;
    std::size_t const end = values - first < per_block ? values : first + per_block;
    for (auto i = first + static_cast<std::size_t>(group.worker()); i < end; i += Group::workers)
      each(i);
  }
};

/// Gives f(i) for all i < values to the executor.
/// @param f  a functor of a named type, for host and device
template <class E, class F> void for_each_value(E& executor, std::size_t values, F const& f) {
  each_value<F> const work{values, f};
  executor.for_each_block(work.blocks(), work);
}

}  // namespace train
