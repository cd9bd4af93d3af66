#pragma once

#include <cstdlib>
#include <utility>

namespace hcomp::testing {

/// Whether a test of tests/gpu runs all its cases. On the PTX machine of tests/ptx kernels take a
/// thousand times as long. There a test runs only enough cases to reach every kernel and every kind
/// of block, unless HCOMP_PTX_LONG is set.
inline bool takes_all_cases() {
  return std::getenv("HCOMP_PTX_MACHINE") == nullptr || std::getenv("HCOMP_PTX_LONG") != nullptr;
}

/// Chooses between the full and the reduced cases.
template <class T> T all_or_few(T all, T few) {
  return takes_all_cases() ? std::move(all) : std::move(few);
}

}  // namespace hcomp::testing
