/// @file
/// The functions of NCCL that a preloaded libhcomp_nccl.so replaces. All others stay NCCL's.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <hcomp/nccl/library.hpp>

#include "library.hpp"

using hcomp::drop_in::collective_kind;
using hcomp::drop_in::nccl_library;

extern "C" {

[[gnu::visibility("default")]] int ncclAllReduce(void const* send, void* receive, std::size_t count,
                                                 int type, int op, ncclComm* comm,
                                                 cudaStream_t stream) {
  return nccl_library::get().reduce({__func__, __builtin_return_address(0),
                                     collective_kind::all_reduce, send, receive, count, type, op,
                                     comm, stream});
}
[[gnu::visibility("default")]] int ncclReduceScatter(void const* send, void* receive,
                                                     std::size_t count, int type, int op,
                                                     ncclComm* comm, cudaStream_t stream) {
  return nccl_library::get().reduce({__func__, __builtin_return_address(0),
                                     collective_kind::reduce_scatter, send, receive, count, type,
                                     op, comm, stream});
}
[[gnu::visibility("default")]] int ncclGroupStart() { return nccl_library::get().begin_group(); }
[[gnu::visibility("default")]] int ncclGroupEnd() { return nccl_library::get().end_group(); }
[[gnu::visibility("default")]] int ncclCommDestroy(ncclComm* comm) {
  return nccl_library::get().end(comm, hcomp::nccl::detail::library::get().destroy);
}
[[gnu::visibility("default")]] int ncclCommAbort(ncclComm* comm) {
  return nccl_library::get().end(comm, hcomp::nccl::detail::library::get().abort);
}

}  // extern "C"
