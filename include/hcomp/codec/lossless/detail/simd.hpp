#pragma once
/// @file
/// SIMD kernels of lossless for full blocks, and their dispatch.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/lossless/detail/avx2.hpp>
#include <hcomp/codec/lossless/detail/avx512.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::lossless {

/// Kernels for the full blocks of a chunk. They may read and write up to 64 bytes after the
/// payloads.
template <class T> struct block_kernels {
  /// Encodes; returns the end of the payloads.
  /// @param is_cached  x is in cache, so the kernel does not prefetch it
  std::byte* (*put)(T const* x, std::size_t blocks, bool is_cached, std::byte* forms,
                    std::byte* payload);
  /// Decodes; returns the end of the payloads.
  /// @param addends    null, or values added to the decoded ones
  /// @param is_cached  the addends are in cache
  std::byte const* (*get)(std::byte const* forms, std::byte const* payload, std::size_t blocks,
                          T const* addends, bool is_cached, T* out);
};
/// True if AVX2 or AVX-512 is available.
inline bool has_block_kernels() { return best_simd_level() != simd_level::baseline; }
/// Dispatches to AVX-512 or AVX2. Precondition: has_block_kernels().
template <class T> block_kernels<T> best_block_kernels() {
  if (puts_bytes_in_order()) return {put_blocks_avx512<T>, get_blocks_avx512<T>};
  return {put_blocks_avx2<T>, get_blocks_avx2<T>};
}

}  // namespace hcomp::detail::lossless
#endif
