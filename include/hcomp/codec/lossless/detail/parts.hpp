#pragma once
/// @file
/// Blocks of lossless that several lanes of a warp process together.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_part.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::lossless {

/// The values of a block that one lane holds. Payloads are those of value_block.
/// @tparam Place  block_part
template <class T, class Place> struct value_part {
  using block = value_block<T>;
  using form = block_form<T>;
  using word = typename block::word;
  static constexpr unsigned own = Place::own;
  static constexpr int value_bits = block::value_bits;

  T x[own];      ///< +0 after the last value
  word least{};  ///< smallest nonzero magnitude of the block, or 0; set by look
  T first{};     ///< first value of the block; set by look

  /// Returns the shortest form.
  template <class Group> HCOMP_HD form look(Group group, Place const& mine) {
    enum : std::uint32_t { negative = 1, positive = 2, zero = 4, other = 8, negative_zero = 16 };
    std::uint32_t kinds = 0;
    word low = ~word{0};
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) {
      auto const one = static_cast<word>(block::magnitude(x[j]));
      bool const is_negative = block::is_negative(x[j]);
      std::uint32_t const kind =
          (is_negative ? negative : positive) | (one != 0      ? other
                                                 : is_negative ? zero | negative_zero
                                                               : zero);
      kinds |= mine.number(j) < mine.n ? kind : 0;
      low = one != 0 && one < low ? one : low;
    }
    kinds = mine.or_of(group, kinds);
    low = mine.least_of(group, low);
    least = (kinds & other) != 0 ? low : word{0};
    first = mine.of_first(group, x[0]);

    word offsets = 0, steps = 0, zigzags = 0, beyond = 0;
    for_steps(group, mine, [&](unsigned j, word step, word is_beyond) {
      auto const one = static_cast<word>(block::magnitude(x[j]));
      offsets |= one == 0 ? word{0} : static_cast<word>(one - least);
      steps |= step;
      zigzags |= step << 1 ^ (word{0} - (step >> (value_bits - 1)));
      beyond |= is_beyond;
    });
    offsets = mine.or_of(group, offsets);
    steps = mine.or_of(group, steps);
    zigzags = mine.or_of(group, zigzags);
    beyond = mine.or_of(group, beyond);
    int const step_bits = beyond != 0 ? value_bits + 1 : bit_length(zigzags);
    using range = typename block::bit_range;
    return block::shortest_form(
        {(kinds & negative) != 0, (kinds & positive) != 0, (kinds & zero) != 0,
         (kinds & other) == 0, (kinds & negative_zero) != 0},
        offsets != 0 ? range{lowest_one(offsets), bit_length(offsets)} : range{},
        steps != 0 ? range{lowest_one(steps), step_bits} : range{}, mine.n);
  }

  /// Writes the payload from bit `at` of the chunk on.
  /// @param f  result of look
  template <class Group>
  HCOMP_HD void put(Group group, Place const& mine, form f, std::byte* chunk,
                    std::uint32_t at) const {
    word q[own] = {};
    int const width = f.is_plain() ? value_bits : f.width(), behind = f.left_out();
    for_steps(group, mine, [&](unsigned j, word step, word) {
      q[j] = static_cast<word>(without_sign(static_cast<std::int64_t>(step >> behind), width));
    });
    if (f.is_zeros() || mine.n == 0) return;
    if (f.is_plain()) {
      HCOMP_UNROLL
      for (unsigned j = 0; j < own; ++j) q[j] = same_bits<word>(x[j]);
    } else {
      bool const has_steps = f.has_differences();
      if (mine.part() == 0)
        put_bits(group, chunk, at, has_steps ? static_cast<word>(block::ordered(first)) : least,
                 value_bits);
      at += value_bits;
      if (f.has_signs())
        at = put_marks(group, mine, chunk, at, [](T value) { return block::is_negative(value); });
      if (!has_steps) {
        if (f.has_zeros())
          at = put_marks(group, mine, chunk, at,
                         [](T value) { return block::magnitude(value) == 0; });
        HCOMP_UNROLL
        for (unsigned j = 0; j < own; ++j) {
          auto const offset = static_cast<std::int64_t>((block::magnitude(x[j]) - least) >> behind);
          q[j] = mine.number(j) < mine.n ? static_cast<word>(without_sign(offset, width)) : 0;
        }
      }
    }
    if (width > 0) put_numbers(group, mine, q, width, chunk, at);
  }

  /// Reads the payload of a validated chunk.
  /// @param at  first bit of the payload in the chunk
  template <class Group>
  HCOMP_HD void take(Group group, Place const& mine, form f, std::byte const* chunk,
                     std::uint32_t at) {
    bool const is_word = f.is_zeros() || f.is_plain(), has_steps = !is_word && f.has_differences();
    int const width = f.is_zeros() ? 0 : f.is_plain() ? value_bits : f.width();
    int const behind = is_word ? 0 : f.left_out();
    bool const has_signs = !is_word && f.has_signs(), has_zeros = !is_word && f.has_zeros();
    std::uint32_t const signs_at = at + value_bits, zeros_at = signs_at + (has_signs ? 64 : 0),
                        integers = is_word ? at : zeros_at + (has_zeros ? 64 : 0);
    word q[own], steps[own];
    HCOMP_UNROLL
    for (unsigned j = 0; j < own; ++j) {
      unsigned const i = mine.number(j);
      q[j] = 0;
      if (i < mine.n)
        q[j] = bits_of_chunk<word>(chunk, integers + i * static_cast<unsigned>(width), width);
      steps[j] = has_steps ? static_cast<word>(static_cast<std::uint64_t>(with_sign(q[j], width))
                                               << behind)
                           : word{0};
    }
    if (group.vote(has_steps) != 0) mine.add_up(group, steps);
    word const front =
        is_word || mine.n == 0 ? word{0} : bits_of_chunk<word>(chunk, at, value_bits);
    HCOMP_UNROLL
    for (unsigned r = 0; r < Place::runs; ++r) {
      unsigned const i = mine.number(r * Place::in_run);
      auto const marks = [&](std::uint32_t from) {
        return bits_of_chunk<std::uint32_t>(chunk, from + i, static_cast<int>(Place::in_run));
      };
      std::uint32_t const zeros = has_zeros ? marks(zeros_at) : 0,
                          negative = has_signs          ? marks(signs_at)
                                     : f.all_negative() ? ~0u
                                                        : 0;
      HCOMP_UNROLL
      for (unsigned e = 0; e < Place::in_run; ++e) {
        unsigned const j = r * Place::in_run + e;
        word const size =
            (zeros >> e & 1) != 0 ? word{0} : static_cast<word>(front + (q[j] << behind));
        T value = block::value_of(size, (negative >> e & 1) != 0);
        if (has_steps) value = block::value_of(static_cast<word>(front + steps[j]));
        if (is_word) value = same_bits<T>(q[j]);
        x[j] = i + e < mine.n ? value : T{0};
      }
    }
  }

 private:
  /// Calls f(j, step, beyond) for each own value. The step is ordered(value) minus ordered() of its
  /// predecessor; 0 for the first value and after the last. A step of floats may need one bit more
  /// than a word: then `beyond` is not 0.
  template <class Group, class F>
  HCOMP_HD void for_steps(Group group, Place const& mine, F const& f) const {
    HCOMP_UNROLL
    for (unsigned r = 0; r < Place::runs; ++r) {
      T before = mine.value_before(group, x, r);
      HCOMP_UNROLL
      for (unsigned e = 0; e < Place::in_run; ++e) {
        unsigned const j = r * Place::in_run + e, i = mine.number(j);
        bool const has_step = i > 0 && i < mine.n;
        auto const from = static_cast<word>(block::ordered(before)),
                   to = static_cast<word>(block::ordered(x[j]));
        word const step = has_step ? to - from : word{0};
        word const carry = (to ^ from) & (to ^ step) & block::sign;
        f(j, step, sizeof(T) == 4 && has_step ? carry : word{0});
        before = x[j];
      }
    }
  }
  /// Writes one bit per value of the block; returns the bit after them.
  template <class Group, class Is>
  HCOMP_HD std::uint32_t put_marks(Group group, Place const& mine, std::byte* chunk,
                                   std::uint32_t at, Is const& is) const {
    HCOMP_UNROLL
    for (unsigned r = 0; r < Place::runs; ++r) {
      std::uint32_t marks = 0;
      HCOMP_UNROLL
      for (unsigned e = 0; e < Place::in_run; ++e) {
        unsigned const j = r * Place::in_run + e;
        if (mine.number(j) < mine.n && is(x[j])) marks |= std::uint32_t{1} << e;
      }
      put_bits(group, chunk, at + mine.number(r * Place::in_run), marks,
               static_cast<int>(Place::in_run));
    }
    return at + 64;
  }
};

}  // namespace hcomp::detail::lossless
