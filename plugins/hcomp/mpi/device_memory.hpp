#pragma once
/// @file
/// Whether this MPI takes pointers to a device's memory.

#include <mpi.h>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

// Weak: programs also run with other builds of their MPI, and MPICH's with other libraries of its
// ABI, which may have no such function.
#if defined(MPIX_GPU_SUPPORT_CUDA)
#pragma weak MPIX_GPU_query_support
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
#pragma weak MPIX_Query_cuda_support
#endif

namespace hcomp::mpi {

/// Whether the buffers of messages may be in the memory of a CUDA device: the MPI's own word.
///
/// Open MPI and MPICH can say so, and those made from them; false for all others.
/// MPI must be running, since MPICH ends a program that asks before. Asked once per process.
inline bool reaches_device() {
  static bool const answer = [] {
#if defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH
    int supported = 0;
    return MPIX_GPU_query_support != nullptr &&
           MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) == MPI_SUCCESS &&
           supported != 0;
#elif defined(MPIX_CUDA_AWARE_SUPPORT)  // Open MPI
    return MPIX_Query_cuda_support != nullptr && MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
  }();
  return answer;
}

}  // namespace hcomp::mpi
