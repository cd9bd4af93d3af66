#pragma once
/// @file
/// Vectors in the memory of an executor.

#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/detail/arrays_of.hpp>

namespace train {

/// A vector in the memory of an executor, initially zero. All calls that do more than return a
/// pointer require that all work has finished.
template <hcomp::Executor E, class T>
using array_in = typename hcomp::detail::arrays_of<E>::template array<T>;

}  // namespace train
