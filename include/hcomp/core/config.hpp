#pragma once
/// @file
/// Compiler switches. No other header tests for a compiler.

#include <hcomp/core/version.hpp>

/// HCOMP_HD marks a function for host and device. HCOMP_UNROLL precedes a loop of at most 16
/// iterations that must be unrolled, so that its arrays can be registers. HCOMP_UNROLL_ON_DEVICE
/// does so for any number of iterations, only in device code.
#if defined(__CUDACC__)
#define HCOMP_HD __host__ __device__
#else
#define HCOMP_HD
#endif
#if defined(__CUDA_ARCH__)
#define HCOMP_UNROLL _Pragma("unroll")
#define HCOMP_UNROLL_ON_DEVICE _Pragma("unroll")
#elif defined(__CUDACC__)
#define HCOMP_UNROLL  // host code of a .cu file: nvcc and g++ have no common pragma
#else
#define HCOMP_UNROLL _Pragma("GCC unroll 16")
#endif

#if !defined(HCOMP_UNROLL_ON_DEVICE)
#define HCOMP_UNROLL_ON_DEVICE
#endif

namespace hcomp {

/// The memory space of a buffer.
enum class memory_space { host, device };

}  // namespace hcomp
