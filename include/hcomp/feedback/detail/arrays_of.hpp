#pragma once
/// @file
/// Where compensation keeps its values, by the executor of the vectors.

#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/host_array.hpp>

namespace hcomp::detail {

/// Arrays in an executor's memory.
template <class E> struct arrays_of { template <class T> using array = host_array<T>; };
template <DeviceExecutor E> struct arrays_of<E> {
  template <class T> using array = typename E::template array<T>;
};

}  // namespace hcomp::detail
