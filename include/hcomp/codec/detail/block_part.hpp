#pragma once
/// @file
/// Blocks of values that several lanes of a warp process together.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail {

/// Workers in warps that share memory: a thread block.
template <class Group>
concept WarpsShareMemory = HasWarps<Group> && SharesMemory<Group>;

/// Lane `part` of a block holds runs of 16 bytes of its values: its run r is run r * lanes + part
/// of the block. All lanes of a warp must call the functions that take the group. Results are equal
/// in all lanes of a block.
template <WarpsShareMemory Group, class T, std::size_t Values, std::size_t MostBlocks>
struct block_part {
  static constexpr unsigned lanes = Group::workers / MostBlocks;
  static constexpr unsigned own = Values / lanes;     ///< values per lane
  static constexpr unsigned in_run = 16 / sizeof(T);  ///< values per run
  static constexpr unsigned runs = own / in_run;
  static_assert(lanes > 0 && 32 % lanes == 0 && Group::workers % MostBlocks == 0);
  static_assert(Values % lanes == 0 && own % in_run == 0);

  unsigned lane;   ///< index in the warp
  unsigned block;  ///< index in the chunk
  unsigned n;      ///< values of the block; 0: there is none

  /// @param values  number of values in the chunk
  HCOMP_HD block_part(Group group, std::size_t values)
      : lane(worker_of(group) % 32), block(worker_of(group) / lanes) {
    auto const before = block * unsigned{Values}, all = static_cast<unsigned>(values);
    unsigned const left = before < all ? all - before : 0;
    n = left < Values ? left : unsigned{Values};
  }
  HCOMP_HD unsigned part() const { return lane % lanes; }
  /// Index in the block of the lane's value j.
  HCOMP_HD unsigned number(unsigned j) const {
    return ((j / in_run) * lanes + part()) * in_run + j % in_run;
  }

  template <class Word> HCOMP_HD static Word or_of(Group group, Word bits) {
    HCOMP_UNROLL
    for (unsigned distance = 1; distance < lanes; distance *= 2)
      bits |= group.xor_shuffle(bits, static_cast<int>(distance));
    return bits;
  }
  template <class Word> HCOMP_HD static Word least_of(Group group, Word number) {
    HCOMP_UNROLL
    for (unsigned distance = 1; distance < lanes; distance *= 2) {
      Word const other = group.xor_shuffle(number, static_cast<int>(distance));
      number = other < number ? other : number;
    }
    return number;
  }
  /// Broadcasts the value of the block's first lane.
  template <class Value> HCOMP_HD Value of_first(Group group, Value value) const {
    return group.lane_value(value, static_cast<int>(lane - part()));
  }
  /// The last value of the run before the lane's run r; unspecified for the block's first run.
  HCOMP_HD T value_before(Group group, T const (&x)[own], unsigned r) const {
    bool const is_last = part() == lanes - 1;
    T const last = x[r * in_run + in_run - 1], above = r > 0 ? x[r * in_run - 1] : last;
    return group.lane_value(is_last ? above : last,
                            static_cast<int>(part() == 0 ? lane + lanes - 1 : lane - 1));
  }
  /// Replaces the numbers by their inclusive prefix sums, in the order of the values.
  template <class Word> HCOMP_HD void add_up(Group group, Word (&numbers)[own]) const {
    Word before = 0;  // total of the previous runs
    HCOMP_UNROLL
    for (unsigned r = 0; r < runs; ++r) {
      HCOMP_UNROLL
      for (unsigned j = 1; j < in_run; ++j) numbers[r * in_run + j] += numbers[r * in_run + j - 1];
      Word const mine = numbers[r * in_run + in_run - 1];
      Word through = mine;
      HCOMP_UNROLL
      for (unsigned distance = 1; distance < lanes; distance *= 2) {
        Word const below = group.lane_value(through, static_cast<int>((lane - distance) % 32));
        through += part() >= distance ? below : Word{0};
      }
      HCOMP_UNROLL
      for (unsigned j = 0; j < in_run; ++j) numbers[r * in_run + j] += before + (through - mine);
      before += group.lane_value(through, static_cast<int>(lane - part() + lanes - 1));
    }
  }

  /// Loads the lane's values of a chunk at x; values behind the last one are zero.
  HCOMP_HD void load(T const* x, T (&to)[own]) const {
    T const* const from = x + block * Values;
    if (is_whole(x)) {
      HCOMP_UNROLL
      for (unsigned r = 0; r < runs; ++r) {
        auto const one = run::at(from + number(r * in_run));
        HCOMP_UNROLL
        for (unsigned e = 0; e < in_run; ++e) to[r * in_run + e] = one.values[e];
      }
    } else {
      HCOMP_UNROLL
      for (unsigned j = 0; j < own; ++j) to[j] = number(j) < n ? from[number(j)] : T{0};
    }
  }
  HCOMP_HD void store(T const (&from)[own], T* x) const {
    T* const to = x + block * Values;
    if (is_whole(x)) {
      HCOMP_UNROLL
      for (unsigned r = 0; r < runs; ++r) {
        run one;
        HCOMP_UNROLL
        for (unsigned e = 0; e < in_run; ++e) one.values[e] = from[r * in_run + e];
        put_at_once(one, to + number(r * in_run));
      }
    } else {
      HCOMP_UNROLL
      for (unsigned j = 0; j < own; ++j)
        if (number(j) < n) to[number(j)] = from[j];
    }
  }

 private:
  using run = adjacent<T, static_cast<int>(in_run)>;

  HCOMP_HD bool is_whole(T const* x) const { return n == Values && is_multiple_of(16, x); }
};

}  // namespace hcomp::detail
