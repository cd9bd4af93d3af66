#pragma once
/// @file
/// Numbers from environment variables of a test run, such as HCOMP_FAULT_TRIALS.

#include <cstdlib>

namespace hcomp::testing {

/// `otherwise` if the variable is not set.
inline unsigned number_in(char const* variable, unsigned otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : unsigned(std::atoi(text));
}

}  // namespace hcomp::testing
