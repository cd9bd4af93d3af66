#pragma once
/// @file
/// A call of ncclAllReduce or ncclReduceScatter.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <hcomp/nccl/library.hpp>
#include <optional>

#include <c/device_plan.hpp>
#include <c/settings.hpp>

namespace hcomp::drop_in {

/// The call's arguments, as NCCL has them.
struct reduction_call {
  char const* function;
  void const* caller;  ///< the address that the call returns to
  collective_kind kind;
  void const* send;
  void* receive;
  std::size_t count;  ///< of the result
  int type;           ///< ncclDataType_t
  int op;             ///< ncclRedOp_t
  nccl::communicator comm;
  cudaStream_t stream;
};

/// The value type of an ncclDataType_t; none for those that rules cannot name.
inline std::optional<value_type> type_of(int type) {
  switch (type) {
    case nccl::detail::as_float32: return value_type::float32;
    case nccl::detail::as_float64: return value_type::float64;
    case nccl::detail::as_float16: return value_type::float16;
    case nccl::detail::as_bfloat16: return value_type::bfloat16;
    default: return std::nullopt;
  }
}

}  // namespace hcomp::drop_in
