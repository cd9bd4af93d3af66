#pragma once
/// @file
/// Whether values are where an executor can work on them.

#include <cstddef>
#include <hcomp/exec/executor.hpp>
#include <span>

namespace hcomp::detail {

/// False if they are not in a device executor's memory; an executor of host memory cannot tell.
/// @param executor  may be null if it is none for a device
template <class E, class T> bool can_work_on(E* executor, std::span<T> x) {
  if constexpr (DeviceExecutor<E>)
    return x.empty() ||
           executor->space_of(reinterpret_cast<std::byte const*>(x.data())) == E::space;
  return true;
}

}  // namespace hcomp::detail
