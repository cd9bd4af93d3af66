#pragma once
/// @file
/// What error_bounded_fallback does with whole blocks, as fast as a processor can.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_avx2.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_avx512.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::error_bounded {

/// Of whole blocks of a chunk, up to the first that vectors cannot have. They return how many these
/// are. Up to 64 bytes behind payloads are read and written, too.
template <class T> struct fallback_kernels {
  std::size_t (*sum)(fallback_summands<T> const&, std::size_t blocks, fallback_sums&);
  std::size_t (*get)(fallback_grid<T> const&, fallback_payload const*, std::size_t blocks, T* out);
};
/// By AVX-512 or AVX2, one of which there is.
template <class T> fallback_kernels<T> best_fallback_kernels() {
  if (puts_bytes_in_order()) return {sum_blocks_avx512<T>, get_blocks_avx512<T>};
  return {sum_blocks_avx2<T>, get_blocks_avx2<T>};
}

}  // namespace hcomp::detail::error_bounded
#endif
