#pragma once
/// @file
/// Compiler switches; the only header that asks which compiler is running.

#if defined(__CUDACC__)
#define HCOMP_HD __host__ __device__
#else
#define HCOMP_HD
#endif

namespace hcomp {

/// Where bytes live.
enum class memory_space { host, device };

}  // namespace hcomp
