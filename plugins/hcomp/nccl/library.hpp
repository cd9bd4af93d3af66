#pragma once
/// @file
/// The functions of libnccl.so.2 that hcomp uses, found at run time.

#include <dlfcn.h>
#include <cstddef>
#include <stdexcept>
#include <string>

#include <cuda_runtime.h>

struct ncclComm;  // nccl.h has: typedef struct ncclComm* ncclComm_t

namespace hcomp::nccl {

/// NCCL's communicator, as in nccl.h, which this header does not need.
using communicator = ncclComm*;

namespace detail {

/// Numbers of ncclResult_t, ncclDataType_t and ncclRedOp_t, which are part of NCCL's binary
/// interface.
enum : int {
  success = 0,
  system_error = 2,
  internal_error = 3,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};
enum : int {
  as_bytes = 1,
  as_uint32 = 3,
  as_float16 = 6,
  as_float32 = 7,
  as_float64 = 8,
  as_bfloat16 = 9
};
enum : int { op_sum = 0, op_max = 2, op_avg = 4 };

/// The library that the program has loaded, for example PyTorch's, or else the system's.
class library {
 public:
  int (*send)(void const*, std::size_t, int, int, communicator, cudaStream_t);
  int (*receive)(void*, std::size_t, int, int, communicator, cudaStream_t);
  int (*all_reduce)(void const*, void*, std::size_t, int, int, communicator, cudaStream_t);
  int (*reduce_scatter)(void const*, void*, std::size_t, int, int, communicator, cudaStream_t);
  int (*all_gather)(void const*, void*, std::size_t, int, communicator, cudaStream_t);
  int (*group_start)();
  int (*group_end)();
  int (*count)(communicator, int*);
  int (*user_rank)(communicator, int*);
  int (*device)(communicator, int*);
  /// Null before NCCL 2.18.
  int (*split)(communicator, int, int, communicator*, void*);
  int (*async_error)(communicator, int*);
  int (*abort)(communicator);
  int (*destroy)(communicator);
  char const* (*error_string)(int);
  char const* (*last_error)(communicator);

  /// @throws std::runtime_error  no library, or one without these functions
  static library const& get() {
    static library const one;
    return one;
  }

 private:
  library() {
    void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    // NCCL may be linked into the program or into another library.
    if (!handle && dlsym(RTLD_DEFAULT, "ncclSend")) handle = dlopen(nullptr, RTLD_NOW);
    if (!handle) handle = dlopen(name, RTLD_NOW);
    if (!handle) {
      char const* const why = dlerror();
      throw std::runtime_error(std::string("nccl: ") + (why ? why : name) +
                               "; load NCCL, or set LD_LIBRARY_PATH");
    }
    find(handle, "ncclSend", send);
    find(handle, "ncclRecv", receive);
    find(handle, "ncclAllReduce", all_reduce);
    find(handle, "ncclReduceScatter", reduce_scatter);
    find(handle, "ncclAllGather", all_gather);
    find(handle, "ncclGroupStart", group_start);
    find(handle, "ncclGroupEnd", group_end);
    find(handle, "ncclCommCount", count);
    find(handle, "ncclCommUserRank", user_rank);
    find(handle, "ncclCommCuDevice", device);
    split = reinterpret_cast<decltype(split)>(dlsym(handle, "ncclCommSplit"));
    find(handle, "ncclCommGetAsyncError", async_error);
    find(handle, "ncclCommAbort", abort);
    find(handle, "ncclCommDestroy", destroy);
    find(handle, "ncclGetErrorString", error_string);
    find(handle, "ncclGetLastError", last_error);
  }

  template <class F> static void find(void* handle, char const* symbol, F& f) {
    f = reinterpret_cast<F>(dlsym(handle, symbol));
    if (!f)
      throw std::runtime_error(std::string("nccl: this ") + name + " has no " + symbol +
                               "; hcomp needs NCCL 2.14 or newer");
  }

  static constexpr char const* name = "libnccl.so.2";
};

}  // namespace detail
}  // namespace hcomp::nccl
