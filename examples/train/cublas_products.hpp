#pragma once
/// @file
/// Matrix products on a CUDA device.

#include <cublas_v2.h>

#include <stdexcept>
#include <string>

#include "matrix.hpp"

namespace train {

/// A call of cuBLAS failed.
class cublas_error : public std::runtime_error {
 public:
  cublas_error(cublasStatus_t status, char const* call)
      : std::runtime_error(std::string("cuBLAS: ") + call + ": " + cublasGetStatusString(status)) {}
};

/// Multiplies in full precision, on the default stream of the device that is current at
/// construction.
class cublas_products {
 public:
  /// @throws cublas_error  cuBLAS has no memory, or does not support this device
  cublas_products() { require(cublasCreate(&handle_), "cublasCreate"); }
  cublas_products(cublas_products const&) = delete;
  cublas_products& operator=(cublas_products const&) = delete;
  ~cublas_products() { cublasDestroy(handle_); }

  /// Enqueues out = a b on the stream.
  void operator()(matrix const& a, matrix const& b, matrix const& out) {
    float const one = 1, zero = 0;
    int const inner = a.is_flipped ? a.rows : a.columns;
    require(cublasSgemm(handle_, operation(a), operation(b), out.rows, out.columns, inner, &one,
                        a.values, a.stride, b.values, b.stride, &zero, out.values, out.stride),
            "cublasSgemm");
  }

 private:
  static cublasOperation_t operation(matrix const& m) {
    return m.is_flipped ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
  static void require(cublasStatus_t status, char const* call) {
    if (status != CUBLAS_STATUS_SUCCESS) throw cublas_error(status, call);
  }

  cublasHandle_t handle_ = nullptr;
};

}  // namespace train
