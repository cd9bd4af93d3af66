/// @file
/// The functions of NCCL that a preloaded libhcomp_nccl.so replaces. All others stay NCCL's.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <hcomp/nccl/library.hpp>

#include "library.hpp"

using hcomp::drop_in::collective_kind;
using hcomp::drop_in::nccl_library;

extern "C" int ncclAllReduce(void const*, void*, std::size_t, int, int, ncclComm*, cudaStream_t);

namespace {

/// Ends the process if there is no NCCL that calls can be passed on to: these functions would find
/// themselves.
nccl_library& library() {
  static bool const has_nccl = [] {
    auto* const nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    return nccl && dlsym(nccl, "ncclAllReduce") != reinterpret_cast<void*>(&ncclAllReduce);
  }();
  if (has_nccl) return nccl_library::get();
  std::fputs(
      "hcomp: the program calls NCCL without libnccl.so.2: NCCL is linked into it or into one of "
      "its libraries, and libhcomp_nccl.so cannot pass calls on; do not preload it\n",
      stderr);
  std::abort();
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int ncclAllReduce(void const* send, void* receive, std::size_t count,
                                                 int type, int op, ncclComm* comm,
                                                 cudaStream_t stream) {
  return library().reduce({__func__, __builtin_return_address(0), collective_kind::all_reduce, send,
                           receive, count, type, op, comm, stream});
}
[[gnu::visibility("default")]] int ncclReduceScatter(void const* send, void* receive,
                                                     std::size_t count, int type, int op,
                                                     ncclComm* comm, cudaStream_t stream) {
  return library().reduce({__func__, __builtin_return_address(0), collective_kind::reduce_scatter,
                           send, receive, count, type, op, comm, stream});
}
[[gnu::visibility("default")]] int ncclGroupStart() { return library().begin_group(); }
[[gnu::visibility("default")]] int ncclGroupEnd() { return library().end_group(); }
/// From NCCL 2.22 on.
[[gnu::visibility("default")]] int ncclGroupSimulateEnd(void* estimate) {
  auto* const nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  auto* const simulate =
      reinterpret_cast<int (*)(void*)>(nccl ? dlsym(nccl, "ncclGroupSimulateEnd") : nullptr);
  if (!simulate) return hcomp::nccl::detail::invalid_usage;
  return library().simulate_group([&] { return simulate(estimate); });
}
[[gnu::visibility("default")]] int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  return library().async_error(comm, error);
}
[[gnu::visibility("default")]] int ncclCommDestroy(ncclComm* comm) {
  return library().end(__func__, comm);
}
[[gnu::visibility("default")]] int ncclCommAbort(ncclComm* comm) {
  return library().end(__func__, comm);
}

}  // extern "C"
