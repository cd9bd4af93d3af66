#pragma once
/// @file
/// Errors about aggregators, which all ranks throw alike.

#include <hcomp/core/error.hpp>
#include <stdexcept>

namespace example {

/// What f() gives. Of its transport_errors all ranks know: nobody waits for others, and main_of tells
/// them once.
template <class F> auto known_to_all(F const& f) {
  try {
    return f();
  } catch (hcomp::transport_error const& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace example
