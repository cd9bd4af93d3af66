#pragma once
/// @file
/// Chunks of lossless_dense by any group.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_chunks.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/lossless_dense/detail/blocks.hpp>
#include <hcomp/codec/lossless_dense/detail/format.hpp>
#include <hcomp/codec/lossless_dense/detail/simd.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::lossless_dense {

/// See VariableRate.
template <class T> struct chunk_coder {
  using value_type = T;
  using header = lossless_dense::header<T>;
  /// Nothing has to be known when chunks are encoded.
  struct note {};
  /// What became of a code.
  struct outcome {
    std::uint64_t bytes;
  };

  /// Workers that share memory have room for chunks there: payloads are at odd addresses.
  static constexpr std::size_t scratch_bytes(int codes) {
    return chunks::rooms_bytes(static_cast<std::size_t>(codes));
  }

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_chunk(Group group, code_sources<T> const& from, std::size_t i,
                                    Out const& out, std::size_t, note&) const {
    std::size_t const n = values_of_chunk<header>(i, from.values),
                      blocks = blocks_of<block_values>(n);
    std::size_t rooms = 0;
    auto const room = [&](bool is_needed) {
      return chunks::room_of(group, is_needed ? rooms++ : rooms);
    };
    reader<Group> of_a(group, from.a, i, from.values, room(from.a)),
        of_b(group, from.b, i, from.values, room(from.b));
    std::byte* const chunk = room_for(group, out, chunks::room_of(group, rooms));
    std::size_t at = blocks * sizeof(form);
    for (std::size_t begin = 0; begin < blocks; begin += Group::workers) {
      auto const now = chunks::blocks_at(group, i, n, begin);
      std::size_t const k = now.block, here = now.n;
      bool const is_here = k < blocks;
      block v, other;
      if (from.a)
        of_a.take(group, k, v);
      else
        bring_values(group, from.x, now.first, now.count, here,
                     chunks::values_room(group, rooms + 1), v.x);
      if (from.b) {
        of_b.take(group, k, other);
        if (is_here) add(v, other.x);
      }
      auto const front = is_here ? v.look(here) : typename block::front{};
      std::size_t const mine = is_here ? front.form.payload_bytes(here) : 0;
      auto const bytes = group.running_sum(mine);
      if (is_here) {
        store(chunk, k, front.form);
        v.put(front, here, chunk + at + bytes.before);
      }
      at += bytes.all;
    }
    if constexpr (SharesMemory<Group>) send_chunk(group, out, chunk, chunk + at);
    return at;
  }

  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             T const* addends, T divided_by, T* out) const {
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      T* const room = chunks::values_room(group, 1);
      block sum = v;
      if (addends) {
        block mine;
        bring_values(group, addends, at.first, at.count, at.n, room, mine.x);
        if (at.n > 0) add(sum, mine.x);
      }
      if (at.n > 0 && divided_by != 0)
        for (auto& value : sum.x) value = divided(value, divided_by);
      take_values(group, sum.x, at.first, at.count, at.n, room, out);
    });
  }

  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group group, std::byte const* in, std::size_t i,
                                            std::size_t values) const {
    std::uint64_t mine = 0;
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      bool finite = true;
      for (std::size_t j = 0; j < at.n; ++j) finite &= is_finite(v.x[j]);
      if (!finite) mine |= std::uint64_t{1} << at.block;
    });
    return group.sum(mine);  // every bit is one worker's alone
  }

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group
  // ---- The same as fast as a CPU can

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

  template <class Group>
  HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes,
                         std::size_t n) const {
    // one block is found behind the other
    return !group.any(group.worker() == 0 && !is_valid(chunk, bytes, n));
  }

  template <class Group>
  HCOMP_HD void finish(Group group, code_sources<T> const&, note const*, std::size_t,
                       std::uint64_t bytes, std::byte*, outcome& made) const {
    if (group.worker() == 0) made = {bytes};
  }

 private:
  using block = value_block<T>;
  using form = block_form<T>;
  using chunks = block_chunks<header, block>;
  template <class Group> using reader = typename chunks::template reader<Group>;

  HCOMP_HD static void add(block& v, T const* addends) {
    for (std::size_t j = 0; j < block_values; ++j) v.x[j] = with_one_nan(v.x[j] + addends[j]);
  }

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
      add(v, own.x);
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

  /// Reads no payload.
  static HCOMP_HD bool is_valid(std::byte const* chunk, std::size_t bytes, std::size_t n) {
    std::size_t const blocks = blocks_of<block_values>(n);
    if (bytes < blocks * sizeof(form)) return false;
    std::size_t all = blocks * sizeof(form);
    bool are_valid = true;
    for (std::size_t k = 0; k < blocks; ++k) {
      auto const one = load<form>(chunk, k);
      are_valid &= one.is_valid();
      all += one.payload_bytes(values_of_block<block_values>(k, n));
    }
    return are_valid && all == bytes;
  }
};

}  // namespace hcomp::detail::lossless_dense
