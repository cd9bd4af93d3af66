#pragma once
/// @file
/// What lossless does with whole blocks, as fast as a processor can.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/lossless/detail/avx2.hpp>
#include <hcomp/codec/lossless/detail/avx512.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::lossless {

/// Of whole blocks of a chunk. Up to 64 bytes behind payloads are read and written, too.
template <class T> struct block_kernels {
  /// Returns the end of the payloads.
  /// @param is_cached  x is not from memory, which then is not asked for what is behind it
  std::byte* (*put)(T const* x, std::size_t blocks, bool is_cached, std::byte* forms,
                    std::byte* payload);
  /// The same.
  /// @param addends  null, or what is added; `is_cached` is of these
  std::byte const* (*get)(std::byte const* forms, std::byte const* payload, std::size_t blocks,
                          T const* addends, bool is_cached, T* out);
};
/// There are some.
inline bool has_block_kernels() { return best_simd_level() != simd_level::baseline; }
/// By AVX-512 or AVX2, one of which there is.
template <class T> block_kernels<T> best_block_kernels() {
  if (puts_bytes_in_order()) return {put_blocks_avx512<T>, get_blocks_avx512<T>};
  return {put_blocks_avx2<T>, get_blocks_avx2<T>};
}

}  // namespace hcomp::detail::lossless
#endif
