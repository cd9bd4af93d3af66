#pragma once
/// @file
/// Errors of aggregators, which all ranks throw.

#include <hcomp/core/error.hpp>
#include <stdexcept>

namespace example {

/// Returns f(). Converts a transport_error, which all ranks throw: no rank waits, and main_of
/// prints it once.
template <class F> auto known_to_all(F const& f) {
  try {
    return f();
  } catch (hcomp::transport_error const& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace example
