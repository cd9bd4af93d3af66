#include <cstdio>
#include <hcomp/core/version.hpp>
#include <vector>
#if defined(WITHOUT_CMAKE) && defined(WITH_MPI)
#include <hcomp/mpi/mpi.hpp>
#elif defined(WITHOUT_CMAKE) && defined(WITH_UCX)
#include <hcomp/ucx/transport.hpp>
#elif defined(WITHOUT_CMAKE) && defined(WITH_GPU)
#include <hcomp/gpu/stream_executor.hpp>
#else
#if !defined(WITHOUT_CMAKE)
#include "component.hpp"
#endif
#include <hcomp/hcomp.hpp>
#endif
#if defined(WITH_MPI)
#include <mpi.h>
#elif defined(WITH_UCX)
#include <ucp/api/ucp.h>
#elif defined(WITH_GPU)
#include <cuda_runtime.h>
#endif

int main() {
#if defined(WITH_MPI)
  int version = 0, subversion = 0;
  MPI_Get_version(&version, &subversion);  // may be called before MPI_Init
  if (version < 3) return 1;
#elif defined(WITH_UCX)
  if (ucp_get_version_string()[0] == '\0') return 1;
#elif defined(WITH_COMPILED)
  // the table and the engine are in the compiled library only
  hcomp::in_process_world world(1);
  hcomp::in_process transport(world, 0);
  hcomp::host_executor executor;
  std::vector<float> x(1000, 0.5f);
  hcomp::make_plan<float>("fp16", x.size(), transport, executor).all_reduce(x);
  if (x != std::vector<float>(1000, 0.5f)) return 1;
#elif defined(WITH_GPU)
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess || runtime == 0) return 1;
#endif
  std::printf("hcomp %d.%d.%d\n", HCOMP_VERSION_MAJOR, HCOMP_VERSION_MINOR, HCOMP_VERSION_PATCH);
}
