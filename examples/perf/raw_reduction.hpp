#pragma once
/// @file
/// MPI datatype and MPI_Op for the all-reduce of the raw vector, the reference of all results.

#include <mpi.h>

#include <cstdint>
#include <hcomp/core/half.hpp>
#include <type_traits>

namespace perf {

/// Datatype and sum for values of type T. MPI has no 16-bit floats: an MPI_Op adds them in float.
template <class T> class raw_reduction {
 public:
  raw_reduction() {
    if constexpr (is_half) MPI_Op_create(&add, 1, &op_);
  }
  raw_reduction(raw_reduction const&) = delete;
  raw_reduction& operator=(raw_reduction const&) = delete;
  ~raw_reduction() {
    if constexpr (is_half) MPI_Op_free(&op_);
  }

  MPI_Datatype type() const {
    if constexpr (is_half)
      return MPI_UINT16_T;
    else
      return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
  }
  MPI_Op op() const { return op_; }

 private:
  static constexpr bool is_half = sizeof(T) == sizeof(std::uint16_t);

  static void add(void* in, void* inout, int* count, MPI_Datatype*) {
    auto const* const x = static_cast<T const*>(in);
    auto* const sum = static_cast<T*>(inout);
    for (int i = 0; i < *count; ++i)
      sum[i] = static_cast<T>(static_cast<float>(sum[i]) + static_cast<float>(x[i]));
  }

  MPI_Op op_ = MPI_SUM;
};

}  // namespace perf
