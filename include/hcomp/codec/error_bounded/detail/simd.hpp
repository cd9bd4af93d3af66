#pragma once
/// @file
/// Dispatch of the block kernels of error_bounded.

#include <hcomp/codec/error_bounded/detail/avx2.hpp>
#include <hcomp/codec/error_bounded/detail/avx512.hpp>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::error_bounded {

/// Block kernels of a SIMD level.
/// @param level  at most best_simd_level()
inline block_kernels kernels_at([[maybe_unused]] simd_level level) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (level == simd_level::avx512)
    return {quantize_avx512, dequantize_avx512, pack_avx512, unpack_avx512};
  if (level == simd_level::avx2) return {quantize_avx2, dequantize_avx2, pack_avx2, unpack_avx2};
#endif
  return {quantize_block, dequantize_block, pack_block, unpack_block};
}

}  // namespace hcomp::detail::error_bounded
