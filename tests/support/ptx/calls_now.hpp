#pragma once
/// @file
/// The counters of the PTX machine, for programs that also run without it.

#include <dlfcn.h>

#include <support/ptx/stats.hpp>

namespace hcomp::testing {

inline bool on_machine() { return dlsym(RTLD_DEFAULT, HCOMP_PTX_COUNT_CALLS) != nullptr; }
/// Calls of the CUDA runtime so far; zeros where nothing counts them.
inline ptx::calls calls_now() {
  static auto const count = reinterpret_cast<decltype(&hcomp_ptx_count_calls)>(
      dlsym(RTLD_DEFAULT, HCOMP_PTX_COUNT_CALLS));
  ptx::calls found;
  if (count) count(&found);
  return found;
}

}  // namespace hcomp::testing
