#pragma once
/// @file
/// The steps of THC on one transform for workers in warps that share memory: the same bytes as in
/// kernels.hpp. Neighbouring workers access neighbouring values. Each value passes through shared
/// memory as rarely as registers allow. A worker holds 32 values at once: first 32 neighbours, then
/// 32 values at a distance of 32, then those of four draw counters.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/thc/detail/hadamard.hpp>
#include <hcomp/codec/thc/detail/kernels.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/four_values.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <type_traits>

namespace hcomp::detail::thc {

// ---- Shared memory: the cells, a transform in its places, and its signs, 32 per word

/// An entry of level_cells and the sink's numbers for its two levels, in a layout that takes few
/// instructions to decode.
struct alignas(8) shared_cell {
  std::uint32_t upper;  ///< number in bits 16 to 31, width in 8 to 15, shift in 0 to 7
  std::uint32_t lower;  ///< number in bits 16 to 31, level in 0 to 7

  HCOMP_HD static shared_cell of(std::uint32_t entry, level_sink const& sink) {
    return {sink.number(entry, true) << 16 | (entry & 0xffffu),
            sink.number(entry, false) << 16 | (entry >> 16 & 0xffu)};
  }
  /// Returns the number of the selected level, in bits 16 to 31.
  HCOMP_HD std::uint32_t round(std::uint32_t fixed, std::uint32_t draw) const {
    std::uint32_t const below = pick_bytes(upper, lower, 0x5450),
                        width = pick_bytes(upper, lower, 0x5551);
    return takes_upper(fixed, below, width, draw) ? upper : lower;
  }
};

/// Copies of the source values follow a transform and its signs, at a multiple of 16 bytes, if
/// residuals are tracked. Larger transforms have no space for copies.
inline constexpr unsigned largest_kept = 4096;
HCOMP_HD constexpr unsigned place_of_kept(unsigned size) {
  return (place_of(size) + size / 32 + 3) / 4 * 4;
}
/// Floats of shared memory for a transform, its signs and the copies of its values.
/// @param value_bytes  size of a copied value; 0: no copies
HCOMP_HD constexpr unsigned shared_floats(int transform, std::size_t value_bytes = 0) {
  auto const floats = [&](unsigned size, std::size_t kept) {
    return place_of_kept(size) + static_cast<unsigned>(kept) * size / 4;
  };
  auto const size = static_cast<unsigned>(transform);
  if (size <= largest_kept) return floats(size, value_bytes);
  unsigned const all = floats(size, 0), kept = floats(largest_kept, value_bytes);
  return kept > all ? kept : all;
}
/// @param teams  number of teams, each with its own transform
constexpr std::size_t shared_bytes(int transform, std::size_t value_bytes = 0, unsigned teams = 1) {
  return sizeof(float) * (shared_cells + teams * shared_floats(transform, value_bytes));
}

/// Location of the copied values of a transform: in shared memory, or at their residuals for a
/// larger transform. Null for a source that does not track residuals.
template <class Source>
HCOMP_HD auto kept_values([[maybe_unused]] float* scratch, [[maybe_unused]] Source const& x,
                          [[maybe_unused]] transform_range range) {
  if constexpr (TracksResidual<Source>) {
    auto* const losses = x.losses + range.first;
    auto const size = static_cast<unsigned>(range.size);
    if (size > largest_kept) return losses;
    return reinterpret_cast<decltype(+losses)>(scratch + place_of_kept(size));
  } else {
    return nullptr;
  }
}

/// Copies the cells up to number `granularity` to shared memory. In kernel arguments, workers that
/// look up different entries are serialized.
template <HasWarps Group>
HCOMP_HD shared_cell const* share_cells(Group group, level_cells const& cells, int granularity,
                                        level_sink const& sink) {
  auto* const shared = reinterpret_cast<shared_cell*>(group.scratch());
  for (int i = group.worker(); i <= granularity; i += Group::workers)
    shared[i] = shared_cell::of(cells.entries[static_cast<std::size_t>(i)], sink);
  group.sync();
  return shared;
}

/// level_numbers in shared memory, one byte each.
template <class Lane> struct shared_numbers {
  std::uint8_t const* others;
  std::uint32_t last;

  HCOMP_HD std::uint64_t word(std::uint64_t w) const {
    return exchanged_lanes<Lane>(
        w, [&](std::uint32_t given) { return others[given < last ? given : last]; });
  }
};
inline constexpr std::size_t shared_numbers_bytes = 256;
/// Copies the numbers of valid lanes to shared memory. In kernel arguments, workers that look up
/// different entries are serialized.
template <HasWarps Group, class Lane, bool ToNumbers>
HCOMP_HD shared_numbers<Lane> share_numbers(Group group,
                                            level_numbers<Lane, ToNumbers> const& all) {
  auto* const others = reinterpret_cast<std::uint8_t*>(group.scratch());
  for (unsigned i = worker_of(group); i <= all.last(); i += Group::workers)
    others[i] = static_cast<std::uint8_t>(all.other_of(i));
  group.sync();
  return {others, all.last()};
}

/// The signs of a transform.
class shared_signs {
 public:
  /// Refers to signs that were already written and not yet overwritten.
  HCOMP_HD shared_signs(float* scratch, transform_range range)
      : words_(
            reinterpret_cast<std::byte*>(scratch + place_of(static_cast<unsigned>(range.size)))) {}

  /// Writes the signs. The group must sync before it reads them.
  /// @param scratch  the transform, with space for the signs behind it
  template <HasWarps Group>
  HCOMP_HD shared_signs(Group group, float* scratch, transform_range range, draw_place const& place)
      : shared_signs(scratch, range) {
    unsigned const first = static_cast<unsigned>(range.first) / 64,
                   words = static_cast<unsigned>(range.size) / 64;
    for (unsigned c = first / 16 * 8 + worker_of(group); c < (first + words + 15) / 16 * 8;
         c += Group::workers) {
      auto const two = sign_words_of(place, c);
      unsigned const w = c / 8 * 16 + c % 8 - first;  // may lie before the first: wraps to more
                                                      // than `words`
      if (w < words) store_aligned(words_, static_cast<std::size_t>(w), two[0]);
      if (w + 8 < words) store_aligned(words_, static_cast<std::size_t>(w + 8), two[1]);
    }
  }

  /// Signs of the 32 values that include value i of the transform: bit j is set if the value at
  /// position j is negated.
  HCOMP_HD std::uint32_t from(unsigned i) const {
    return load_aligned<std::uint32_t>(words_, static_cast<std::size_t>(i / 32));
  }

 private:
  std::byte* words_;
};

// ---- Memory

/// Whether source values are copied.
template <class Kept> inline constexpr bool keeps = !std::is_null_pointer_v<Kept>;

/// place_of(in_one * (i + k * Group::workers))
template <class Group> HCOMP_HD unsigned place_in_turn(unsigned i, unsigned k, unsigned in_one) {
  return place_of(in_one * i) + k * place_of(in_one * Group::workers);
}

/// bring_values for `count` values, a multiple of 4.
template <HasWarps Group, class Source, class Kept>
HCOMP_HD bool bring_by_four(Group group, float* scratch, Source const& x, unsigned count,
                            [[maybe_unused]] Kept kept) {
  float zero = 0;  // becomes NaN at the first NaN or infinity
  for_each_loaded(
      group, count / 4,
      [&](unsigned i, unsigned k) {
        auto const four = four_of(x + 4 * static_cast<std::size_t>(i), k * Group::workers);
        return four_values<float>::of([&](int j) { return four[j]; });
      },
      [&](unsigned i, unsigned k, four_values<float> const& four) {
        four.put(scratch + place_in_turn<Group>(i, k, 4));
        if constexpr (keeps<Kept>) four.put(kept + 4 * (i + k * Group::workers));
        HCOMP_UNROLL_ON_DEVICE
        for (int j = 0; j < 4; ++j) zero += four[j] * 0;
      });
  bool finite = true;
  if (!is_finite(zero))
    for (unsigned i = worker_of(group); i < count / 4; i += Group::workers)
      for (unsigned j = 0; j < 4; ++j) {
        float& value = scratch[place_of(4 * i) + j];
        value = finite_float(value, finite);
      }
  return finite;
}

/// Copies finite values to their places and pads with zeros. Returns whether all values of this
/// worker are finite.
/// @param kept  kept_values: receives the unchanged values
template <HasWarps Group, class Source, class Kept>
HCOMP_HD bool bring_values(Group group, float* scratch, Source const& x, transform_range range,
                           Kept kept) {
  bool finite = true, is_done = false;
  auto const count = static_cast<unsigned>(range.count), size = static_cast<unsigned>(range.size);
  auto const from = x + static_cast<std::size_t>(range.first);
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(from[0])>, float>) {
    is_done = count == size && has_fours(from) && four_values<float>::can_be_at(kept);
    if (is_done) finite = bring_by_four(group, scratch, from, count, kept);
  }
  if (!is_done) {
    for_each_loaded(
        group, count,
        [&](unsigned i, unsigned k) {
          return (from + static_cast<std::size_t>(i))[k * Group::workers];
        },
        [&](unsigned i, unsigned k, auto value) {
          scratch[place_in_turn<Group>(i, k, 1)] = finite_float(value, finite);
          if constexpr (keeps<Kept>) kept[i + k * Group::workers] = value;
        });
    for (unsigned i = count + worker_of(group); i < size; i += Group::workers)
      scratch[place_of(i)] = 0;
  }
  group.sync();
  return finite;
}

/// Four rows of two values at a distance of 16 in a transform.
template <class V> using value_rows = V[4][2];

/// Whether all of them are below `whole`, starting at value i. A single test for all avoids
/// branches between the accesses.
HCOMP_HD constexpr bool has_rows(int i, int whole) { return i + 3 * 16 + 1 < whole; }

/// Stores the rows from x[i] on, limited to `count` values.
/// @param whole  `count` if x is at a multiple of two values, otherwise 0
template <class Out, class V>
HCOMP_HD void put_rows(Out* x, int i, int count, int whole, value_rows<V> const& rows) {
  if constexpr (std::is_same_v<Out, V>)
    if (has_rows(i, whole)) {
      HCOMP_UNROLL_ON_DEVICE
      for (int r = 0; r < 4; ++r) adjacent<V, 2>{{rows[r][0], rows[r][1]}}.put(x + i + 16 * r);
      return;
    }
  HCOMP_UNROLL_ON_DEVICE
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 2; ++k)
      if (i + 16 * r + k < count) x[i + 16 * r + k] = static_cast<Out>(rows[r][k]);
}
/// Loads the rows from x[i] on, with zeros behind `count`.
template <class V>
HCOMP_HD void bring_rows(V const* x, int i, int count, int whole, value_rows<V>& rows) {
  if (has_rows(i, whole)) {
    HCOMP_UNROLL_ON_DEVICE
    for (int r = 0; r < 4; ++r) {
      auto const two = adjacent<V, 2>::at(x + i + 16 * r);
      rows[r][0] = two.values[0];
      rows[r][1] = two.values[1];
    }
    return;
  }
  HCOMP_UNROLL_ON_DEVICE
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 2; ++k) rows[r][k] = i + 16 * r + k < count ? x[i + 16 * r + k] : V{0};
}

// ---- The last stages: a worker holds the eight coordinates of a draw counter, or of four counters

/// hadamard_first and hadamard_middle compute the strides below `end`.
HCOMP_HD constexpr unsigned end_of_middle(unsigned size) { return size < 256 ? size : size / 4; }

/// Computes the stages between `Radix` parts of a transform. Then calls use(q, values), with
/// coordinate drawn_for(q + r * size / 8 / Radix, k) in values[r][k].
template <int Radix, HasWarps Group, class Use>
HCOMP_HD void hadamard_last(Group group, float const* x, unsigned size, Use const& use) {
  unsigned const apart = place_of(size / Radix), count = size / Radix / 8;
  for (unsigned i = worker_of(group); i < count; i += Group::workers) {
    // Eight neighbouring counters use 16 neighbouring banks; the eight counters 128 coordinates
    // further on use the other 16. A half-warp has these two groups.
    unsigned const q = count < 32 ? i : (i & ~24u) | (i & 8u) << 1 | (i & 16u) >> 1;
    float const* const at = x + place_of(drawn_for(q, 0));
    float values[Radix][8];
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Radix; ++r) {
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned row = 0; row < 4; ++row) {
        auto const two = adjacent<float, 2>::at(at + r * apart + place_of(16 * row));
        unsigned const k = row / 2 * 4 + row % 2;
        values[r][k] = two.values[0];
        values[r][k + 2] = two.values[1];
      }
    }
    hadamard_of_rows(values);
    use(q, values);
  }
  group.sync();
}
template <HasWarps Group, class Use>
HCOMP_HD void with_coordinates(Group group, float const* x, unsigned size, Use const& use) {
  if (end_of_middle(size) < size)
    hadamard_last<4>(group, x, size, use);
  else
    hadamard_last<1>(group, x, size, use);
}

// ---- The steps of encoding and decoding. A transform lacks its last stages between rotate and
// round_to_levels, and after center_sums.

/// Every half-warp has its own 16 partial sums, and may have a different range.
template <HasWarps Group, class Source>
HCOMP_HD measured_norm root_mean_square(Group group, Source const& x, transform_range range) {
  constexpr int at_once = 16, apart = 16;  // values loaded before the first is added
  using value_type = std::remove_cvref_t<decltype(x[0])>;
  double sum = 0;
  bool finite = true;
  auto const from = x + static_cast<std::size_t>(range.first);
  auto const add = [&](auto given) {
    double const value = finite_float(given, finite);
    sum += value * value;
  };
  int i = group.worker() % apart;
  for (; i + (at_once - 1) * apart < range.count; i += at_once * apart) {
    auto const next = from + static_cast<std::size_t>(i);
    value_type loaded[at_once];
    HCOMP_UNROLL
    for (int k = 0; k < at_once; ++k) loaded[k] = next[static_cast<std::size_t>(k * apart)];
    float zero = 0;  // NaN if one of them is NaN or infinity
    if constexpr (std::is_same_v<value_type, float>) {
      HCOMP_UNROLL
      for (int k = 0; k < at_once; ++k) zero += loaded[k] * 0;
    }
    if (std::is_same_v<value_type, float> && is_finite(zero)) {
      HCOMP_UNROLL
      for (int k = 0; k < at_once; ++k) {
        double const value = static_cast<double>(loaded[k]);
        sum += value * value;
      }
    } else {
      HCOMP_UNROLL
      for (int k = 0; k < at_once; ++k) add(loaded[k]);
    }
  }
  for (; i < range.count; i += apart) add(from[static_cast<std::size_t>(i)]);
  double largest = sum;
  for (int half = 8; half > 0; half /= 2) {
    double const other = group.xor_shuffle(largest, half);
    largest = other > largest ? other : largest;
    sum += group.xor_shuffle(sum, half);
  }
  return {root_mean_bits(sum, range.size), share_of_largest(largest, sum)};
}

template <HasWarps Group, class Source>
HCOMP_HD bool rotate(Group group, float* scratch, Source const& x, transform_range range,
                     float_scale scale, draw_place const& place) {
  shared_signs const negate(group, scratch, range, place);
  bool const finite = bring_values(group, scratch, x, range, kept_values(scratch, x, range));
  auto const size = static_cast<unsigned>(range.size);
  hadamard_first(group, scratch, size, [&](unsigned i, float(&values)[32][1]) {
    std::uint32_t const negated = negate.from(i);
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned j = 0; j < 32; ++j)
      values[j][0] = values[j][0] * (negated >> j & 1 ? -scale.factor : scale.factor) * scale.power;
  });
  hadamard_middle(group, scratch, size, end_of_middle(size));
  return !finite;
}

/// Distance of twice a sum of levels from the centre of the grid.
HCOMP_HD inline float centered(std::uint32_t sum, std::uint32_t offset) {
  return static_cast<float>(static_cast<std::int32_t>(2 * sum - offset));
}

/// round_to_levels for 8-bit or 16-bit numbers.
/// @param center  center(number) replaces the coordinate in scratch; null: scratch is unchanged
template <class Number, HasWarps Group, class Center>
HCOMP_HD void round_to_numbers(Group group, float* scratch, transform_range range, float limit,
                               shared_cell const* cells, draw_place const& place, std::byte* out,
                               [[maybe_unused]] Center const& center) {
  auto const from = static_cast<unsigned>(range.first), size = static_cast<unsigned>(range.size);
  auto const round = [&]<int Radix>(unsigned q, float(&values)[Radix][8]) {
    philox_words<std::uint32_t> draws[Radix];
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Radix; ++r)
      draws[r] = rounding_counter(place, from / 8 + q + r * (size / Radix / 8));
    philox4x32(draws, place.key);
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Radix; ++r) {
      auto const& [c0, c1, c2, c3] = draws[r];
      std::uint32_t const words[4] = {c0, c1, c2, c3};
      std::size_t const first = from + drawn_for(q, 0) + r * (size / Radix);
      std::byte* const to = out + first * sizeof(Number);
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned row = 0; row < 4; ++row) {
        std::uint32_t numbers[2];
        HCOMP_UNROLL_ON_DEVICE
        for (unsigned column = 0; column < 2; ++column) {
          unsigned const k = row / 2 * 4 + column * 2 + row % 2;
          std::uint32_t const fixed = fixed_point(values[r][k], limit);
          numbers[column] = cells[fixed >> 16].round(fixed, words[k / 2] >> 16 * (k % 2) & 0xffffu);
        }
        if constexpr (sizeof(Number) == 1)
          store_aligned(to, 8 * row,
                        static_cast<std::uint16_t>(pick_bytes(numbers[0], numbers[1], 0x62)));
        else
          store_aligned(to, 8 * row, pick_bytes(numbers[0], numbers[1], 0x7632));
        if constexpr (!std::is_null_pointer_v<Center>) {
          auto const at = [&](unsigned column) {
            return center(static_cast<Number>(numbers[column] >> 16));
          };
          adjacent<float, 2>{{at(0), at(1)}}.put(scratch + place_of(drawn_for(q, 0)) +
                                                 r * place_of(size / Radix) + place_of(16 * row));
        }
      }
    }
  };
  with_coordinates(group, scratch, size, round);
}

/// On devices the sink's memory must begin at an even address, for 16-bit lanes at a multiple of 4.
/// If the source TracksResidual, scratch receives the lanes in the form with which center_sums
/// begins.
template <HasWarps Group, class Source>
HCOMP_HD void round_to_levels(Group group, float* scratch, Source const&, transform_range range,
                              float limit, shared_cell const* cells, draw_place const& place,
                              level_sink const& sink) {
  auto const round = [&](auto const& center) {
    if (sink.kind == level_sink::lanes_16)
      round_to_numbers<std::uint16_t>(group, scratch, range, limit, cells, place, sink.out, center);
    else
      round_to_numbers<std::uint8_t>(group, scratch, range, limit, cells, place, sink.out, center);
  };
  if constexpr (TracksResidual<Source>) {
    std::uint32_t const offset = (static_cast<std::uint32_t>(limit) >> 15) * sink.weight;
    round([&](std::uint32_t number) { return centered(number, offset); });
  } else {
    round(nullptr);
  }
}

/// Computes all but the last stages of centered sums in their places.
template <HasWarps Group> HCOMP_HD void transform_sums(Group group, float* scratch, unsigned size) {
  hadamard_first(group, scratch, size, [](unsigned, auto const&) {});
  hadamard_middle(group, scratch, size, end_of_middle(size));
}

template <class Lane, HasWarps Group, class Out>
HCOMP_HD void center_sums(Group group, float* scratch, std::byte const* lanes,
                          transform_range range, std::uint32_t offset, Out*) {
  constexpr unsigned in_word = 4 / sizeof(Lane);
  auto const size = static_cast<unsigned>(range.size);
  std::byte const* const from = lanes + static_cast<std::size_t>(range.first) * sizeof(Lane);
  for_each_loaded(
      group, size / in_word,
      [&](unsigned w, unsigned k) {
        return load_aligned<std::uint32_t>(from + 4 * static_cast<std::size_t>(w),
                                           k * Group::workers);
      },
      [&](unsigned w, unsigned k, std::uint32_t word) {
        adjacent<float, in_word> some;
        HCOMP_UNROLL_ON_DEVICE
        for (unsigned j = 0; j < in_word; ++j) {
          some.values[j] = centered(static_cast<Lane>(word >> 8 * sizeof(Lane) * j), offset);
        }
        some.put(scratch + place_in_turn<Group>(w, k, in_word));
      });
  group.sync();
  transform_sums(group, scratch, size);
}

/// Calls put(i, rows) for all values of the transform, padding included. Row r of four holds the
/// values i + 16 r and i + 16 r + 1.
template <HasWarps Group, class Put>
HCOMP_HD void finish_by_rows(Group group, float const* scratch, transform_range range,
                             float_scale scale, shared_signs const& negate, Put const& put) {
  auto const size = static_cast<unsigned>(range.size);
  auto const finish = [&]<int Radix>(unsigned q, float(&values)[Radix][8]) {
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Radix; ++r) {
      unsigned const first = drawn_for(q, 0) + r * (size / Radix);
      float rows[4][2];
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned pair = 0; pair < 2; ++pair) {
        std::uint32_t const negated = negate.from(first + 32 * pair) >> first % 16;
        HCOMP_UNROLL_ON_DEVICE
        for (unsigned k = 0; k < 4; ++k) {
          unsigned const row = k % 2, column = k / 2;
          float const factor = negated >> (row * 16 + column) & 1 ? -scale.factor : scale.factor;
          rows[2 * pair + row][column] = product(values[r][4 * pair + k] * factor, scale.power);
        }
      }
      put(static_cast<int>(first), rows);
    }
  };
  with_coordinates(group, scratch, size, finish);
}

template <HasWarps Group, class Out>
HCOMP_HD void finish_values(Group group, float* scratch, transform_range range, float_scale scale,
                            draw_place const& place, Out* x) {
  shared_signs const negate(group, scratch, range, place);
  group.sync();
  Out* const to = x + range.first;
  int const whole = is_multiple_of(2 * sizeof(Out), to) ? range.count : 0;
  finish_by_rows(group, scratch, range, scale, negate, [&](int first, float const(&rows)[4][2]) {
    put_rows(to, first, range.count, whole, rows);
  });
}

/// Writes x.losses for the values of a rounded transform.
template <HasWarps Group, TracksResidual Source>
HCOMP_HD void note_losses(Group group, float* scratch, Source const& x, transform_range range,
                          float_scale scale) {
  using value = std::remove_cvref_t<decltype(x[0])>;
  transform_sums(group, scratch, static_cast<unsigned>(range.size));
  value* const to = x.losses + range.first;
  value const* const kept = kept_values(scratch, x, range);
  int const count = range.count, whole = is_multiple_of(2 * sizeof(value), to) ? count : 0;
  auto const note = [&](int first, float const(&rows)[4][2]) {
    value_rows<value> lost;  // all are fetched before the first is stored
    bring_rows(kept, first, count, whole, lost);
    HCOMP_UNROLL_ON_DEVICE
    for (int r = 0; r < 4; ++r)
      for (int k = 0; k < 2; ++k) lost[r][k] -= static_cast<value>(rows[r][k]);
    put_rows(to, first, count, whole, lost);
  };
  finish_by_rows(group, scratch, range, scale, shared_signs(scratch, range), note);
}

template <class T, HasWarps Group>
HCOMP_HD bool values_are_finite(Group group, float const* scratch, transform_range range,
                                float_scale scale) {
  auto const size = static_cast<unsigned>(range.size), count = static_cast<unsigned>(range.count);
  bool finite = true;
  auto const look = [&]<int Radix>(unsigned q, float(&values)[Radix][8]) {
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Radix; ++r) {
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned k = 0; k < 8; ++k)
        if (drawn_for(q, k) + r * (size / Radix) < count)
          finite &= is_finite(static_cast<T>(values[r][k] * scale.factor * scale.power));
    }
  };
  with_coordinates(group, scratch, size, look);
  return finite;
}

}  // namespace hcomp::detail::thc
