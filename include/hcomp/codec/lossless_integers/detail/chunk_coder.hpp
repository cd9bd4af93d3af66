#pragma once
/// @file
/// Chunks of lossless_integers by any group.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_chunks.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/lossless_integers/detail/blocks.hpp>
#include <hcomp/codec/lossless_integers/detail/header.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::lossless_integers {

/// See VariableRate.
template <class T> struct chunk_coder {
  using value_type = T;
  using header = lossless_integers::header<T>;
  /// Nothing has to be known when chunks are encoded.
  struct note {};
  /// What became of a code.
  struct outcome {
    std::uint64_t bytes;
  };

  /// Workers that share memory have room for chunks there: payloads are at odd addresses.
  static constexpr std::size_t scratch_bytes(int codes) {
    return static_cast<std::size_t>(codes) * chunks::room_bytes;
  }

  template <class Group>
  HCOMP_HD std::size_t encode_chunk(Group group, code_sources<T> const& from, std::size_t i,
                                    std::byte* out, std::size_t, note&) const {
    std::size_t const n = values_of_chunk<header>(i, from.values),
                      blocks = blocks_of<block_values>(n);
    std::size_t rooms = 0;
    auto const room = [&](bool is_needed) {
      return chunks::room_of(group, is_needed ? rooms++ : rooms);
    };
    reader<Group> of_a(group, from.a, i, from.values, room(from.a)),
        of_b(group, from.b, i, from.values, room(from.b));
    std::byte* const chunk = SharesMemory<Group> ? chunks::room_of(group, rooms) : out;
    std::size_t at = blocks * sizeof(form);
    for (std::size_t begin = 0; begin < blocks; begin += Group::workers) {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      bool const is_here = k < blocks;
      std::size_t const here = is_here ? values_of_block<block_values>(k, n) : 0;
      block v, other;
      if (from.a)
        of_a.take(group, k, v);
      else
        read(from.x + (is_here ? i * header::chunk_values + k * block_values : 0), here, v);
      if (from.b) {
        of_b.take(group, k, other);
        add(v, other);
      }
      auto const front = v.look(here);
      std::size_t const mine = is_here ? front.form.payload_bytes(here) : 0;
      auto const bytes = group.running_sum(mine);
      if (is_here) {
        store(chunk, k, front.form);
        v.put(front, here, chunk + at + bytes.before);
      }
      at += bytes.all;
    }
    if constexpr (SharesMemory<Group>) {
      group.sync();
      copy_words(static_cast<std::size_t>(group.worker()), Group::workers, out, chunk, at);
    }
    return at;
  }

  /// Integers are not divided: plans refuse means.
  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             T const* addends, T, T* out) const {
    chunks::for_blocks(group, in, i, values, [&](std::size_t first, std::size_t n, block const& v) {
      block sum = v;
      if (addends) {
        block mine;
        read(addends + first, n, mine);
        add(sum, mine);
      }
      write_block(sum.x, n, reinterpret_cast<word*>(out + first));
    });
  }

  /// Integers are finite.
  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group, std::byte const*, std::size_t,
                                            std::size_t) const {
    return 0;
  }

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
  using word = typename block::word;
  using form = block_form<T>;
  using chunks = block_chunks<header, block>;
  template <class Group> using reader = typename chunks::template reader<Group>;

  HCOMP_HD static void read(T const* x, std::size_t n, block& v) {
    read_block(reinterpret_cast<word const*>(x), n, v.x);
  }
  HCOMP_HD static void add(block& v, block const& other) {
    for (std::size_t j = 0; j < block_values; ++j) v.x[j] = static_cast<word>(v.x[j] + other.x[j]);
  }

  static HCOMP_HD bool is_valid(std::byte const* chunk, std::size_t bytes, std::size_t n) {
    std::size_t const blocks = blocks_of<block_values>(n);
    if (bytes < blocks * sizeof(form)) return false;
    std::size_t left = bytes - blocks * sizeof(form);
    for (std::size_t k = 0; k < blocks; ++k) {
      auto const one = load<form>(chunk, k);
      if (!one.is_valid()) return false;
      std::size_t const these = one.payload_bytes(values_of_block<block_values>(k, n));
      if (these > left) return false;
      left -= these;
    }
    return left == 0;
  }
};

}  // namespace hcomp::detail::lossless_integers
