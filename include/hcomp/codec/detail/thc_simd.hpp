#pragma once
/// @file
/// Fast paths of THC's kernels for simd_group.

#include <hcomp/codec/detail/thc_kernels.hpp>
