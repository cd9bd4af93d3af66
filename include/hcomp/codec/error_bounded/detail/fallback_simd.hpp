#pragma once
/// @file
/// SIMD kernels of error_bounded_fallback for full blocks, and their dispatch.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_avx2.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_avx512.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::error_bounded {

/// Kernels for the full blocks of a chunk. They stop at the first block that they cannot process
/// and return the number of blocks processed. They may read and write up to 64 bytes after the
/// payloads.
template <class T> struct fallback_kernels {
  std::size_t (*sum)(fallback_summands<T> const&, std::size_t blocks, fallback_sums&);
  std::size_t (*get)(fallback_grid<T> const&, fallback_payload const*, std::size_t blocks, T* out);
};
/// Dispatches to AVX-512 or AVX2. Precondition: one of them is available.
template <class T> fallback_kernels<T> best_fallback_kernels() {
  if (puts_bytes_in_order()) return {sum_blocks_avx512<T>, get_blocks_avx512<T>};
  return {sum_blocks_avx2<T>, get_blocks_avx2<T>};
}

}  // namespace hcomp::detail::error_bounded
#endif
