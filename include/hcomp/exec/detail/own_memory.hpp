#pragma once
/// @file
/// Whether values are in a memory space that an executor can access.

#include <cstddef>
#include <hcomp/exec/executor.hpp>
#include <span>

namespace hcomp::detail {

/// False if `x` is outside the memory of a device executor. Always true for executors of host
/// memory, which cannot check.
/// @param executor  may be null if it is not a device executor
template <class E, class T> bool can_work_on(E* executor, std::span<T> x) {
  if constexpr (DeviceExecutor<E>)
    return x.empty() ||
           executor->space_of(reinterpret_cast<std::byte const*>(x.data())) == E::space;
  return true;
}

}  // namespace hcomp::detail
