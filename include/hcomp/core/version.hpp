#pragma once
/// @file
/// The version of the library and, separately, the version of the wire format.

#if __cplusplus < 202002L
// A missing header stops compilation at once; after #error thousands of error lines would follow.
#include <hcomp needs C++20: compile with -std=c++20>
#endif

#define HCOMP_VERSION_MAJOR 0
#define HCOMP_VERSION_MINOR 1
#define HCOMP_VERSION_PATCH 0

namespace hcomp {

/// The wire format version in every encoded block. Changes only if old and new blocks can no longer
/// be merged.
inline constexpr int wire_version = 1;

}  // namespace hcomp
