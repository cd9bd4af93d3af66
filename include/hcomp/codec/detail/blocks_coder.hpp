#pragma once
/// @file
/// Coder of lossless chunks that consist of blocks of values, for any group.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_chunks.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail {

/// A coder as in VariableRate.
/// @tparam Format  as in blocks_header. Its block has the values `x`, and `sum(a, b)` adds two
///                 values. `look(n)` returns the front of the shortest payload of the first n
///                 values, which begins with the `form`; `put(front, n, out)` writes this payload.
///                 `form.is_valid()` validates a received form.
template <class Format> struct blocks_coder {
  using value_type = typename Format::value_type;
  using header = blocks_header<Format>;
  /// Encoding a chunk gives no information for `finish`.
  struct note {};
  /// Result of encoding a vector.
  struct outcome {
    std::uint64_t bytes;
  };

  /// Workers with shared memory stage chunks there, because payloads are at odd addresses.
  static constexpr std::size_t scratch_bytes(int inputs) {
    return chunks::parts_bytes(static_cast<std::size_t>(inputs));
  }

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_chunk(Group group, encoded_sources<value_type> const& from,
                                    std::size_t i, Out const& out, std::size_t, note&) const {
    if constexpr (has_parts<Group>) return encode_parts(group, from, i, out);
    std::size_t const n = values_of_chunk<header>(i, from.values),
                      blocks = blocks_of<block::values>(n);
    typename chunks::template sources<reader<Group>> inputs(group, from, i);
    std::byte* const chunk = area_for(group, out, chunks::staging_of(group, inputs.areas));
    std::size_t at = blocks * sizeof(form);
    for (std::size_t begin = 0; begin < blocks; begin += Group::workers) {
      auto const now = chunks::blocks_at(group, i, n, begin);
      std::size_t const k = now.block, count = now.n;
      bool const has_block = k < blocks;
      block v, other;
      if (from.a)
        inputs.a.take(group, k, v);
      else if (has_block)
        read_block(from.x + now.first, count, v.x);
      if (from.b) {
        inputs.b.take(group, k, other);
        if (has_block) add(v, other);
      }
      auto const front = has_block ? v.look(count) : typename block::front{};
      std::size_t const mine = has_block ? front.form.payload_bytes(count) : 0;
      auto const bytes = group.running_sum(mine);
      if (has_block) {
        store(chunk, k, front.form);
        v.put(front, count, chunk + at + bytes.before);
      }
      at += bytes.all;
    }
    if constexpr (SharesMemory<Group>) send_chunk(group, out, chunk, chunk + at);
    return at;
  }

  /// Integers are not divided: plans reduce them only with reduce_op::sum.
  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             value_type const* addends, value_type divided_by,
                             value_type* out) const {
    if constexpr (has_parts<Group>)
      return decode_parts(group, in, i, values, addends, divided_by, out);
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      if (at.n == 0) return;
      block sum = v;
      if (addends) {
        block mine;
        read_block(addends + at.first, at.n, mine.x);
        add(sum, mine);
      }
      if constexpr (std::floating_point<value_type>)
        if (divided_by != 0)
          for (auto& value : sum.x) value = divided(value, divided_by);
      write_block(sum.x, at.n, out + at.first);
    });
  }

  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group group, std::byte const* in, std::size_t i,
                                            std::size_t values) const {
    if constexpr (std::integral<value_type>) {
      return 0;
    } else {
      std::uint64_t mine = 0;
      chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
        bool finite = true;
        for (std::size_t j = 0; j < at.n; ++j) finite &= is_finite(v.x[j]);
        if (!finite) mine |= std::uint64_t{1} << at.block;
      });
      return group.sum(mine);  // every bit belongs to a single worker
    }
  }

  template <class Group>
  HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes,
                         std::size_t n) const {
    // the position of a block depends on the blocks before it
    return !group.any(group.worker() == 0 && !is_valid(chunk, bytes, n));
  }

  template <class Group>
  HCOMP_HD void finish(Group group, encoded_sources<value_type> const&, note const*, std::size_t,
                       std::uint64_t bytes, std::byte*, outcome& made) const {
    if (group.worker() == 0) made = {bytes};
  }

 protected:
  using block = typename Format::block;
  using form = typename block::mode;
  using chunks = block_chunks<header, block>;

  HCOMP_HD static void add(block& v, block const& other) {
    for (std::size_t j = 0; j < block::values; ++j) v.x[j] = block::sum(v.x[j], other.x[j]);
  }

 private:
  template <class Group> using reader = typename chunks::template reader<Group>;

  // ---- Warps with shared memory, several lanes per block

  template <class Group> static constexpr bool has_parts = WarpsShareMemory<Group>&& requires {
    typename Format::template part<typename chunks::template part<Group>>;
  };

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_parts(Group group, encoded_sources<value_type> const& from,
                                    std::size_t i, Out const& out) const {
    using place = typename chunks::template part<Group>;
    auto const n = static_cast<unsigned>(values_of_chunk<header>(i, from.values));
    place const mine(group, n);
    typename Format::template part<place> v{}, other;
    if (!from.a) mine.load(from.x + i * header::chunk_values, v.x);
    typename chunks::template part_sources<Group> const inputs(group, from, i);
    group.sync();
    auto const take = [&](auto const& of, auto& to) {
      to.take(group, mine, mine.n > 0 ? of.mode_of(mine.block) : form{}, of.area,
              of.find(group, mine, n).own);
    };
    if (from.a) take(inputs.a, v);
    if (from.b) {
      take(inputs.b, other);
      HCOMP_UNROLL
      for (unsigned j = 0; j < mine.own; ++j) v.x[j] = block::sum(v.x[j], other.x[j]);
    }
    form const f = v.look(group, mine);
    inputs.lengths.say(mine, f.payload_bytes(mine.n));
    group.sync();
    constexpr unsigned form_bits = 8 * sizeof(form);
    auto const at = inputs.lengths.find(
        group, mine, form_bits * static_cast<unsigned>(blocks_of<block::values>(n)));
    if (mine.part() == 0 && mine.n > 0)
      put_bits(group, inputs.chunk, mine.block * form_bits,
               std::uint32_t{
                   same_bits<std::conditional_t<form_bits == 8, std::uint8_t, std::uint16_t>>(f)},
               form_bits);
    unsigned const end = at.end / 8;
    announce_bytes(out, end);
    v.put(group, mine, f, inputs.chunk, at.own);
    group.sync();
    return send_whole(group, out, inputs.chunk, end);
  }

  template <class Group>
  HCOMP_HD void decode_parts(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             value_type const* addends, value_type divided_by,
                             value_type* out) const {
    using place = typename chunks::template part<Group>;
    auto const n = static_cast<unsigned>(values_of_chunk<header>(i, values));
    std::size_t const first = i * header::chunk_values;
    place const mine(group, n);
    typename Format::template part<place> v;
    value_type added[place::own];
    if (addends) mine.load(addends + first, added);
    typename chunks::template part_reader<Group> const from(group, in, i, values,
                                                            chunks::staging_of(group, 0));
    group.sync();
    v.take(group, mine, mine.n > 0 ? from.mode_of(mine.block) : form{}, from.area,
           from.find(group, mine, n).own);
    HCOMP_UNROLL
    for (unsigned j = 0; j < place::own; ++j) {
      if (addends) v.x[j] = block::sum(v.x[j], added[j]);
      if constexpr (std::floating_point<value_type>)
        if (divided_by != 0) v.x[j] = divided(v.x[j], divided_by);
    }
    mine.store(v.x, out + first);
  }

  /// Reads no payload.
  static HCOMP_HD bool is_valid(std::byte const* chunk, std::size_t bytes, std::size_t n) {
    std::size_t const blocks = blocks_of<block::values>(n), whole = n / block::values;
    if (bytes < blocks * sizeof(form)) return false;
    std::size_t all = blocks * sizeof(form);
    bool are_valid = true;
    auto const add = [&](std::size_t k, std::size_t values) {
      auto const one = load<form>(chunk, k);
      are_valid &= one.is_valid();
      all += one.payload_bytes(values);
    };
    for (std::size_t k = 0; k < whole; ++k) add(k, block::values);
    if (whole < blocks) add(whole, n % block::values);
    return are_valid && all == bytes;
  }
};

}  // namespace hcomp::detail
