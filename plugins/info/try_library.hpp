#pragma once
/// @file
/// Checks whether a shared library loads, and lists the libraries that a program loads.

#include <dlfcn.h>

#include <functional>
#include <string>
#include <vector>

namespace hcomp::info {

struct trial {
  bool loads = false;
  std::string words;  ///< result of `describe`, or why the library does not load
};

/// Runs `work` in a child process and returns its output. Success means exit status 0.
/// @param what  name of the subject, for messages
/// @param work  writes its result to `output` and returns the exit status; its standard output and
///              error are captured, too
trial run_apart(std::string const& what, std::function<int(int output)> const& work);

/// Loads a library in a child process. Libraries of two MPIs in one process would conflict, and a
/// crash ends only the child.
/// @param library   a path, or a name for the loader's search
/// @param describe  receives the handle from dlopen
trial try_library(std::string const& library, std::string (*describe)(void* handle));

/// Names of the libraries that the loader finds for a program or library, including indirect
/// dependencies; direct dependencies first. Runs none of their code.
/// @throws std::runtime_error  the loader cannot load `file`
std::vector<std::string> libraries_of(std::string const& file);

/// The function `name` in a library loaded with dlopen; nullptr if it does not exist.
template <class F> F* function_in(void* handle, char const* name) {
  return reinterpret_cast<F*>(dlsym(handle, name));
}

}  // namespace hcomp::info
