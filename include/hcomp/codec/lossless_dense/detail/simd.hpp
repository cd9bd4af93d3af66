#pragma once
/// @file
/// What lossless_dense does with whole blocks, as fast as a processor can.

#include <cstddef>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/lossless_dense/detail/avx512.hpp>
#include <hcomp/codec/lossless_dense/detail/blocks.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::lossless_dense {

/// Up to 64 bytes behind a payload are read and written, too.
template <class T> struct block_kernels {
  using front = typename value_block<T>::front;

  void (*look)(T const* x, front& found);
  void (*put)(T const* x, front const& found, std::byte* out);
  /// @param addends  null, or what is added
  void (*get)(block_payload<T>, T const* addends, T* out);
  bool (*is_finite)(block_payload<T>);
};
/// There are some.
inline bool has_block_kernels() { return puts_bytes_in_order(); }
template <class T> block_kernels<T> best_block_kernels() {
  return {look_at_block_avx512<T>, put_block_avx512<T>, get_block_avx512<T>,
          is_finite_block_avx512<T>};
}

}  // namespace hcomp::detail::lossless_dense
#endif
