#pragma once
/// @file
/// The version of the library, and apart from it the version of the bytes it puts on the wire.

#if __cplusplus < 202002L
// A missing header ends a compilation at once; after #error thousands of lines would follow.
#include <hcomp needs C++20: compile with -std=c++20>
#endif

#define HCOMP_VERSION_MAJOR 0
#define HCOMP_VERSION_MINOR 1
#define HCOMP_VERSION_PATCH 0

namespace hcomp {

/// Written into every encoded block. Changes only when old and new blocks cannot be merged any
/// more.
inline constexpr int wire_version = 1;

}  // namespace hcomp
