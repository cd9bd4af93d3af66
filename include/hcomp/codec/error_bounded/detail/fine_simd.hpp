#pragma once
/// @file
/// What error_bounded_fine does with whole blocks, as fast as a processor can.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/error_bounded/detail/fine_avx2.hpp>
#include <hcomp/codec/error_bounded/detail/fine_avx512.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::error_bounded {

/// Of whole blocks of a chunk, up to the first that vectors cannot have. They return how many these
/// are. Up to 64 bytes behind payloads are read and written, too.
template <class T> struct fine_kernels {
  std::size_t (*sum)(fine_summands<T> const&, std::size_t blocks, fine_sums&);
  std::size_t (*get)(fine_grid<T> const&, fine_payload const*, std::size_t blocks, T* out);
};
/// By AVX-512 or AVX2, one of which there is.
template <class T> fine_kernels<T> best_fine_kernels() {
  if (puts_bytes_in_order()) return {sum_blocks_avx512<T>, get_blocks_avx512<T>};
  return {sum_blocks_avx2<T>, get_blocks_avx2<T>};
}

}  // namespace hcomp::detail::error_bounded
#endif
