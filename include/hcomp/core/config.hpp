#pragma once
/// @file
/// Compiler switches; the only header that asks which compiler is running.

#include <hcomp/core/version.hpp>

/// HCOMP_HD: a function for host and device. HCOMP_UNROLL: before a loop of at most 16 turns, whose
/// body is to be written out so that its arrays can be registers. HCOMP_UNROLL_ON_DEVICE: the same of
/// any number of turns, and only there.
#if defined(__CUDACC__)
#define HCOMP_HD __host__ __device__
#else
#define HCOMP_HD
#endif
#if defined(__CUDA_ARCH__)
#define HCOMP_UNROLL _Pragma("unroll")
#define HCOMP_UNROLL_ON_DEVICE _Pragma("unroll")
#elif defined(__CUDACC__)
#define HCOMP_UNROLL  // host code of a .cu file: nvcc and g++ understand no common pragma
#else
#define HCOMP_UNROLL _Pragma("GCC unroll 16")
#endif

#if !defined(HCOMP_UNROLL_ON_DEVICE)
#define HCOMP_UNROLL_ON_DEVICE
#endif

namespace hcomp {

/// Where bytes live.
enum class memory_space { host, device };

}  // namespace hcomp
