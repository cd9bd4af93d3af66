#pragma once
/// @file
/// Whether MPI accepts device pointers.

#include <mpi.h>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

// Weak, so that a program also runs with other builds of its MPI, or with another library of the
// MPICH ABI, that lack these functions.
#if defined(MPIX_GPU_SUPPORT_CUDA)
#pragma weak MPIX_GPU_query_support
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
#pragma weak MPIX_Query_cuda_support
#endif

namespace hcomp::mpi {

/// Whether message buffers may be in CUDA device memory, as MPI reports it.
///
/// Supported by Open MPI, MPICH and libraries derived from them; false for any other MPI. MPI must
/// be running: MPICH aborts a program that queries earlier. Queried once per process.
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
