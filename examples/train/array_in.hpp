#pragma once
/// @file
/// Vectors where an executor works on them.

#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/arrays_of.hpp>

namespace train {

/// Values in an executor's memory, zero at first. What is not merely a pointer needs all work done.
template <hcomp::Executor E, class T>
using array_in = typename hcomp::detail::arrays_of<E>::template array<T>;

}  // namespace train
