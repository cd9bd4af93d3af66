#pragma once
/// @file
/// Coder of chunks of lossless.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/blocks_coder.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/codec/lossless/detail/chunk_forms.hpp>
#include <hcomp/codec/lossless/detail/format.hpp>
#include <hcomp/codec/lossless/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::lossless {

/// Encodes and decodes chunks with any group. CPUs with AVX2 or AVX-512 process full blocks with
/// SIMD kernels.
template <class T> struct chunk_coder : blocks_coder<format<T>> {
  using base = blocks_coder<format<T>>;
  using base::encode_chunk, base::decode_chunk, base::nonfinite_in_chunk, base::is_chunk;
  using typename base::header, typename base::note;

  static constexpr int blocks_at_once(int inputs) { return inputs >= 2 && sizeof(T) == 4 ? 8 : 0; }

#if !defined(__CUDA_ARCH__)  // device code has neither SIMD nor simd_group
  std::size_t encode_chunk(simd_group, encoded_sources<T> const& from, std::size_t i,
                           std::byte* out, std::size_t capacity, note& found) const {
#if defined(__x86_64__)
    if (has_block_kernels()) return encode_chunk_by_vectors(from, i, out, capacity);
#endif
    return encode_chunk(serial_group{}, from, i, out, capacity, found);
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
  bool is_chunk(simd_group, std::byte const* chunk, std::size_t bytes, std::size_t n) const {
#if defined(__x86_64__)
    if (n == header::chunk_values && has_block_kernels()) return is_whole_chunk<T>(chunk, bytes);
#endif
    return is_chunk(serial_group{}, chunk, bytes, n);
  }
#endif

 private:
  using typename base::block, typename base::form, typename base::chunks;

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  using readable = typename chunks::readable;
  static_assert(header::chunk_values == most_blocks * block_values);

  static std::size_t encode_chunk_by_vectors(encoded_sources<T> const& from, std::size_t i,
                                             std::byte* out, std::size_t capacity) {
    auto const kernels = best_block_kernels<T>();
    std::size_t const n = values_of_chunk<header>(i, from.values), whole = n / block_values,
                      rest = n % block_values, blocks = blocks_of<block_values>(n);
    T sums[header::chunk_values];
    T const* x = from.a ? nullptr : from.x + i * header::chunk_values;
    std::byte const* const inputs[] = {from.a, from.b};  // nvcc rejects the list in the loop
    for (std::byte const* const encoded : inputs) {
      if (!encoded) continue;
      get_values(kernels, readable(encoded, i, from.values), n, x, x == sums, sums);
      x = sums;
    }
    return chunks::put_chunk(out, capacity, [&](std::byte* chunk) {
      std::byte* end = kernels.put(x, whole, x == sums, chunk, chunk + blocks * sizeof(form));
      if (rest != 0) {
        block last;
        read_block(x + whole * block_values, rest, last.x);
        auto const front = last.look(rest);
        store(chunk, whole, front.form);
        last.put(front, rest, end);
        end += front.form.payload_bytes(rest);
      }
      return static_cast<std::size_t>(end - chunk);
    });
  }
  /// Decodes n values of a chunk, and adds them to the addends unless these are null.
  static void get_values(block_kernels<T> const& kernels, readable const& from, std::size_t n,
                         T const* addends, bool is_cached, T* out) {
    std::size_t const whole = n / block_values, rest = n % block_values,
                      first = whole * block_values;
    auto const* const in =
        kernels.get(from.modes(), from.payload(), whole, addends, is_cached, out);
    if (rest == 0) return;
    block v, own;
    v.take(load<form>(from.modes(), whole), rest, in);
    if (addends) {
      read_block(addends + first, rest, own.x);
      base::add(v, own);
    }
    write_block(v.x, rest, out + first);
  }
  static void decode_chunk_by_vectors(std::byte const* in, std::size_t i, std::size_t values,
                                      T const* addends, T divided_by, T* out) {
    std::size_t const n = values_of_chunk<header>(i, values), first = i * header::chunk_values;
    get_values(best_block_kernels<T>(), readable(in, i, values), n,
               addends ? addends + first : nullptr, false, out + first);
    if (divided_by != 0)
      for (std::size_t j = first; j < first + n; ++j) out[j] = divided(out[j], divided_by);
  }
  static std::uint64_t nonfinite_in_chunk_by_vectors(std::byte const* in, std::size_t i,
                                                     std::size_t values) {
    std::size_t const n = values_of_chunk<header>(i, values);
    T x[header::chunk_values];
    get_values(best_block_kernels<T>(), readable(in, i, values), n, nullptr, false, x);
    return nonfinite_runs(x, n);
  }
#endif
};

}  // namespace hcomp::detail::lossless
