#pragma once
/// @file
/// Numbers that whoever runs a test sets by the environment, such as HCOMP_FAULT_TRIALS.

#include <cstdlib>

namespace hcomp::testing {

/// `otherwise` where the variable is not set.
inline unsigned number_in(char const* variable, unsigned otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : unsigned(std::atoi(text));
}

}  // namespace hcomp::testing
