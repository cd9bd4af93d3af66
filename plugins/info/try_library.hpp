#pragma once
/// @file
/// Whether a shared library can be loaded here, and what a program would load.

#include <dlfcn.h>

#include <functional>
#include <string>
#include <vector>

namespace hcomp::info {

struct trial {
  bool loads = false;
  std::string words;  ///< what `describe` says, or why it does not load
};

/// What a process of its own says and how it ends: well with status 0.
/// @param what  that is loaded there, for the words
/// @param work  what it does there; returns the status. Its standard output and error come back, and
///              what it writes to `output`
trial run_apart(std::string const& what, std::function<int(int output)> const& work);

/// Loads it in a process of its own: libraries of two MPIs in one would disturb each other, and one
/// that crashes ends only that process.
/// @param library   a path, or a name that the loader looks for
/// @param describe  gets what dlopen returned
trial try_library(std::string const& library, std::string (*describe)(void* handle));

/// The libraries that the loader finds for a program or library, and those of these; the nearest
/// come first, by the names they are asked for. Nothing of them is run.
/// @throws std::runtime_error  the loader cannot load it
std::vector<std::string> libraries_of(std::string const& file);

/// The function of that name in a library that dlopen has loaded; nullptr: there is none.
template <class F> F* function_in(void* handle, char const* name) {
  return reinterpret_cast<F*>(dlsym(handle, name));
}

}  // namespace hcomp::info
