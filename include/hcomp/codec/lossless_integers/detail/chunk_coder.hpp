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
#include <hcomp/codec/lossless_integers/detail/format.hpp>
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
        bring_values(group, words_of(from.x), now.first, now.count, here,
                     words_of(chunks::values_room(group, rooms + 1)), v.x);
      if (from.b) {
        of_b.take(group, k, other);
        if (is_here) add(v, other);
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

  /// Integers are not divided: plans refuse means.
  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             T const* addends, T, T* out) const {
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      word* const room = words_of(chunks::values_room(group, 1));
      block sum = v;
      if (addends) {
        block mine;
        bring_values(group, words_of(addends), at.first, at.count, at.n, room, mine.x);
        if (at.n > 0) add(sum, mine);
      }
      take_values(group, sum.x, at.first, at.count, at.n, room, words_of(out));
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

  HCOMP_HD static word const* words_of(T const* x) { return reinterpret_cast<word const*>(x); }
  HCOMP_HD static word* words_of(T* x) { return reinterpret_cast<word*>(x); }
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
