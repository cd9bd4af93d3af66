// ranks: 1
#include <doctest/doctest.h>
#include <mpi.h>

#include <hcomp/mpi/transport.hpp>

namespace {
int questions = 0;
}

// Replaces the library's own function: emulates a CUDA-aware MPI.
#if defined(MPIX_GPU_SUPPORT_CUDA)
extern "C" int MPIX_GPU_query_support(int kind, int* is_supported) {
  questions += kind == MPIX_GPU_SUPPORT_CUDA && hcomp::mpi::is_running();
  *is_supported = 1;
  return MPI_SUCCESS;
}
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
extern "C" int MPIX_Query_cuda_support() {
  questions += hcomp::mpi::is_running();
  return 1;
}
#endif

TEST_CASE("mpi: a CUDA-aware MPI is asked once, and its answer is used") {
#if defined(MPIX_GPU_SUPPORT_CUDA) || defined(MPIX_CUDA_AWARE_SUPPORT)
  int const asked = 1;
#else
  int const asked = 0;
#endif
  for (int i = 0; i < 2; ++i) {
    hcomp::mpi::transport const transport(MPI_COMM_WORLD);
    CHECK(transport.reaches(hcomp::memory_space::host));
    CHECK(questions == (i == 0 ? 0 : asked));
    CHECK(transport.reaches(hcomp::memory_space::device) == (asked == 1));
  }
  CHECK(questions == asked);
}
