#pragma once
/// @file
/// Whether a shared library can be loaded here.

#include <dlfcn.h>

#include <string>

namespace hcomp::info {

struct trial {
  bool loads = false;
  std::string words;  ///< what `describe` says, or why it does not load
};

/// Loads it in a process of its own: libraries of two MPIs in one would disturb each other, and one
/// that crashes ends only that process.
/// @param library   a path, or a name that the loader looks for
/// @param describe  gets what dlopen returned
trial try_library(std::string const& library, std::string (*describe)(void* handle));

/// The function of that name in a library that dlopen has loaded; nullptr: there is none.
template <class F> F* function_in(void* handle, char const* name) {
  return reinterpret_cast<F*>(dlsym(handle, name));
}

}  // namespace hcomp::info
