#pragma once
/// @file
/// Chunks of lossless_dense.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/blocks_coder.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/lossless_dense/detail/blocks.hpp>
#include <hcomp/codec/lossless_dense/detail/format.hpp>
#include <hcomp/codec/lossless_dense/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::lossless_dense {

/// Chunks by any group, and whole blocks by vectors where a CPU has them.
template <class T> struct chunk_coder : blocks_coder<format<T>> {
  using base = blocks_coder<format<T>>;
  using base::encode_chunk, base::decode_chunk, base::nonfinite_in_chunk;
  using typename base::header, typename base::note;

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group
  std::size_t encode_chunk(simd_group, code_sources<T> const& from, std::size_t i, std::byte* out,
                           std::size_t room, note& found) const {
#if defined(__x86_64__)
    if (has_block_kernels()) return encode_chunk_by_vectors(from, i, out, room);
#endif
    return encode_chunk(serial_group{}, from, i, out, room, found);
  }
  void decode_chunk(simd_group, std::byte const* in, std::size_t i, std::size_t values,
                    T const* addends, T divided_by, T* out) const {
#if defined(__x86_64__)
    if (has_block_kernels())
      return decode_chunk_by_vectors(in, i, values, addends, divided_by, out);
#endif
    decode_chunk(serial_group{}, in, i, values, addends, divided_by, out);
  }
  std::uint64_t nonfinite_in_chunk(simd_group, std::byte const* in, std::size_t i,
                                   std::size_t values) const {
#if defined(__x86_64__)
    if (has_block_kernels()) return nonfinite_in_chunk_by_vectors(in, i, values);
#endif
    return nonfinite_in_chunk(serial_group{}, in, i, values);
  }
#endif

 private:
  using typename base::block, typename base::form, typename base::chunks;

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  using payload = block_payload<T>;
  using walk = typename chunks::walk;

  static std::size_t encode_chunk_by_vectors(code_sources<T> const& from, std::size_t i,
                                             std::byte* out, std::size_t room) {
    auto const kernels = best_block_kernels<T>();
    std::size_t const n = values_of_chunk<header>(i, from.values),
                      blocks = blocks_of<block_values>(n);
    walk of_a(from.a, i, from.values), of_b(from.b, i, from.values);
    T sums[header::chunk_values];
    T const* x = from.a ? sums : from.x + i * header::chunk_values;
    for (std::size_t k = 0; k < blocks && from.a; ++k)
      get_values(kernels, of_a.template take<payload>(k), values_of_block<block_values>(k, n),
                 nullptr, sums + k * block_values);
    for (std::size_t k = 0; k < blocks && from.b; ++k)
      get_values(kernels, of_b.template take<payload>(k), values_of_block<block_values>(k, n),
                 x + k * block_values, sums + k * block_values);
    if (from.b) x = sums;
    // all forms before the first payload: of several ways this was the fastest, by g++ 12
    typename block::front fronts[header::chunk_values / block_values];
    block last;
    for (std::size_t k = 0; k < blocks; ++k) {
      std::size_t const here = values_of_block<block_values>(k, n);
      if (here == block_values) {
        kernels.look(x + k * block_values, fronts[k]);
      } else {
        read_block(x + k * block_values, here, last.x);
        fronts[k] = last.look(here);
      }
    }
    std::size_t at = blocks * sizeof(form);
    for (std::size_t k = 0; k < blocks; ++k) {
      std::size_t const here = values_of_block<block_values>(k, n);
      auto const& front = fronts[k];
      store(out, k, front.form);
      at += chunks::put_block(out + at, room - at, here, [&](std::byte* to) {
              if (here == block_values)
                kernels.put(x + k * block_values, front, to);
              else
                last.put(front, here, to);
              return front.form;
            }).payload_bytes(here);
    }
    return at;
  }
  /// n values of a block, added to addends if there are some.
  static void get_values(block_kernels<T> const& kernels, payload from, std::size_t n,
                         T const* addends, T* out) {
    if (n == block_values) return kernels.get(from, addends, out);
    block v, own;
    v.take(from.form, n, from.in);
    if (addends) {
      read_block(addends, n, own.x);
      base::add(v, own);
    }
    write_block(v.x, n, out);
  }
  static void decode_chunk_by_vectors(std::byte const* in, std::size_t i, std::size_t values,
                                      T const* addends, T divided_by, T* out) {
    auto const kernels = best_block_kernels<T>();
    std::size_t const n = values_of_chunk<header>(i, values);
    walk of(in, i, values);
    for (std::size_t k = 0; k < blocks_of<block_values>(n); ++k) {
      std::size_t const here = values_of_block<block_values>(k, n),
                        first = i * header::chunk_values + k * block_values;
      auto const from = of.template take<payload>(k);
      T* const to = out + first;
      get_values(kernels, from, here, addends ? addends + first : nullptr, to);
      if (divided_by != 0)
        for (std::size_t j = 0; j < here; ++j) to[j] = divided(to[j], divided_by);
    }
  }
  static std::uint64_t nonfinite_in_chunk_by_vectors(std::byte const* in, std::size_t i,
                                                     std::size_t values) {
    auto const kernels = best_block_kernels<T>();
    std::size_t const n = values_of_chunk<header>(i, values);
    walk of(in, i, values);
    std::uint64_t found = 0;
    for (std::size_t k = 0; k < blocks_of<block_values>(n); ++k) {
      std::size_t const here = values_of_block<block_values>(k, n);
      auto const from = of.template take<payload>(k);
      T values_here[block_values];
      if (here < block_values) get_values(kernels, from, here, nullptr, values_here);
      bool const is_finite =
          here == block_values ? kernels.is_finite(from) : nonfinite_runs(values_here, here) == 0;
      found |= std::uint64_t{!is_finite} << k;
    }
    return found;
  }
#endif
};

}  // namespace hcomp::detail::lossless_dense
