#pragma once
/// @file
/// The array type of compensation state, by the executor of the vectors.

#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/host_array.hpp>

namespace hcomp::detail {

/// Arrays in an executor's memory space.
template <class E> struct arrays_of { template <class T> using array = host_array<T>; };
template <DeviceExecutor E> struct arrays_of<E> {
  template <class T> using array = typename E::template array<T>;
};

}  // namespace hcomp::detail
