#pragma once
/// @file
/// The steps of THC on one transform: one definition for all groups. The fast paths of simd_group
/// are in simd.hpp.
///
/// Floats are converted to integers on a grid of 2^16 points per step of the table's grid. All
/// later steps use integers, and no product of floats is ever added to anything. Compilers, vector
/// widths and devices therefore all write the same bytes.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/thc/detail/hadamard.hpp>
#include <hcomp/codec/thc/detail/table.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <limits>

namespace hcomp::detail::thc {

// ---- Randomness

/// Identity of the draws: signs depend on key and place, rounding also on the rank.
struct draw_place {
  std::uint64_t key;
  std::uint32_t rank;
  std::uint32_t index;  ///< index of the block
};

/// Domain in the last word of the Philox counters. Masks (core/bernoulli.hpp) use 0.
inline constexpr std::uint32_t domain_of_signs = 1, domain_of_rounding = 2;

/// Signs of coordinates 64 w to 64 w + 63 of a block: bit j is set if coordinate 64 w + j is
/// negated. Eight counters give sixteen words: first those of their lower halves, then those of
/// their upper halves. Counter c gives word c / 8 * 16 + c % 8 and the word 8 places later.
HCOMP_HD inline std::array<std::uint64_t, 2> sign_words_of(draw_place const& place, unsigned c) {
  auto const draw = philox4x32({c, place.index, 0, domain_of_signs}, place.key);
  return {std::uint64_t{draw[1]} << 32 | draw[0], std::uint64_t{draw[3]} << 32 | draw[2]};
}
[[gnu::noinline]] HCOMP_HD inline std::uint64_t sign_word(draw_place const& place, unsigned w) {
  return sign_words_of(place, w / 16 * 8 + w % 8)[w / 8 % 2];
}

/// Counter number `q` of a block: 16-bit draws for eight coordinates.
HCOMP_HD inline philox_words<std::uint32_t> rounding_counter(draw_place const& place, unsigned q) {
  return {q, place.index, place.rank, domain_of_rounding};
}
[[gnu::noinline]] HCOMP_HD inline std::array<std::uint32_t, 4> rounding_draws(
    draw_place const& place, unsigned q) {
  philox_words<std::uint32_t> words[1] = {rounding_counter(place, q)};
  philox4x32(words, place.key);
  auto const& [c0, c1, c2, c3] = words[0];
  return {c0, c1, c2, c3};
}
/// The coordinate that uses draw k of counter q. The 64 coordinates of a tile form four rows of 16;
/// a counter serves two columns: word k / 2, half k % 2.
HCOMP_HD inline unsigned drawn_for(unsigned q, unsigned k) {
  unsigned const row = k / 4 * 2 + k % 2, column = q % 8 * 2 + k / 2 % 2;
  return q / 8 * 64 + row * 16 + column;
}

// ---- Values in, values out

/// Converts a value to a finite float: NaN and infinity become 0 and clear `finite`.
template <class V> HCOMP_HD float finite_float(V value, bool& finite) {
  if (!is_finite(value)) {
    finite = false;
    return 0;
  }
  if constexpr (sizeof(V) == sizeof(double)) {
    constexpr double most = std::numeric_limits<float>::max();
    return static_cast<float>(value > most ? most : value < -most ? -most : value);
  } else {
    return static_cast<float>(value);
  }
}

/// A factor as a float and a power of two, so that vectors of 1e-40 or 1e38 lose no extra
/// precision. The power is applied last: multiplication by it is exact, fused with an addition or
/// not.
struct float_scale {
  float factor = 0, power = 1;

  /// @param exponent  -126 to 127
  HCOMP_HD static float power_of_two(int exponent) {
    return same_bits<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  }
  HCOMP_HD explicit float_scale(double scale) {
    if (!(scale > 0)) return;
    auto exponent = static_cast<int>(same_bits<std::uint64_t>(scale) >> 52) - 1022;
    if (exponent > 126) exponent = 126;
    if (exponent < -126) exponent = -126;
    power = power_of_two(exponent);
    factor = static_cast<float>(scale * static_cast<double>(power_of_two(-exponent)));  // exact
  }
};

/// a b, rounded before any addition: products with a power of two may be denormal.
HCOMP_HD inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// One transform of a block.
struct transform_range {
  int first;  ///< of its values and of its coordinates, in the block
  int count;  ///< number of its values
  int size;   ///< number of its coordinates
};

/// Root of the mean, as the bits of a float.
HCOMP_HD inline std::uint32_t root_mean_bits(double sum, int size) {
  return same_bits<std::uint32_t>(static_cast<float>(std::sqrt(sum / size)));
}
/// Adds 16 sums of squares as a tree; returns the root of their mean.
HCOMP_HD inline std::uint32_t norm_of(double (&sums)[16], int size) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return root_mean_bits(sums[0], size);
}

/// The measured statistics of one transform.
struct measured_norm {
  std::uint32_t norm;  ///< bits of a float; non-negative floats keep their order
  float dominance;     ///< see report::dominance
};
/// The largest of 16 sums of squares as a fraction of all.
HCOMP_HD inline float share_of_largest(double largest, double all) {
  return all > 0 ? static_cast<float>(largest / all) : 0;
}
/// @param sums  overwritten by their tree sums
HCOMP_HD inline measured_norm measured(double (&sums)[16], int size) {
  double largest = sums[0];
  for (int i = 1; i < 16; ++i) largest = sums[i] > largest ? sums[i] : largest;
  std::uint32_t const norm = norm_of(sums, size);
  return {norm, share_of_largest(largest, sums[0])};
}

/// Root mean square of `count` values, padded with zeros to `size`: 16 partial sums in double, then
/// their tree. Every worker of a group computes the complete result.
template <class Group, class Source>
HCOMP_HD measured_norm root_mean_square(Group, Source const& x, transform_range range) {
  double sums[16] = {};
  bool finite = true;
  for (int i = 0; i < range.count; ++i) {
    double const value = finite_float(x[static_cast<std::size_t>(range.first + i)], finite);
    sums[i % 16] += value * value;  // exact products: fused or not, the sum is the same
  }
  return measured(sums, range.size);
}

// ---- Coordinates to levels

/// Lookup table of the levels. A value in grid steps, with 16 integer and 16 fractional bits,
/// selects the entry of its integer part. Bits 24 to 31 are the index of the level below, 16 to 23
/// that level, 8 to 15 the distance to the next level. Bits 0 to 7 are an offset that makes the
/// comparison with 65536 draws round down as often as up.
struct level_cells {
  std::array<std::uint32_t, 256> entries = {};

  level_cells() = default;
  explicit level_cells(thc_table const& table) {
    unsigned q = 0;
    unsigned const g = static_cast<unsigned>(table.granularity);
    unsigned const last = static_cast<unsigned>(table.size()) - 2;
    for (unsigned j = 0; j < 256; ++j) {
      while (q < last && table.levels[q + 1] <= j) ++q;
      unsigned const level = table.levels[q], width = table.levels[q + 1] - level;
      unsigned const shift = 2 * q < last ? (width - 1) / 2 : width / 2;
      entries[j] = q << 24 | level << 16 | (j <= g ? width : 0u) << 8 | (j <= g ? shift : 0u);
    }
  }
};

/// Clips the coordinate to the table's range and returns it in units of 2^-16 steps above the
/// lowest level.
/// @param limit  granularity * 2^15, exact
HCOMP_HD inline std::uint32_t fixed_point(float coordinate, float limit) {
#if defined(__CUDA_ARCH__)  // NaN becomes the limit, as on CPUs, and negatives become 0
  return __float2uint_rz(fminf(coordinate, limit) + (limit + 0.5f));
#else
  float c = coordinate < limit ? coordinate : limit;
  c = c > -limit ? c : -limit;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(c + (limit + 0.5f)));
#endif
}

/// Returns whether a 16-bit draw selects the level above.
/// @param below  the entry's level in bits 16 to 23, and its bits 0 to 7
/// @param width  the entry's distance to the level above
HCOMP_HD inline bool takes_upper(std::uint32_t fixed, std::uint32_t below, std::uint32_t width,
                                 std::uint32_t draw) {
  return static_cast<std::int32_t>(draw * width) < static_cast<std::int32_t>(fixed - below);
}
HCOMP_HD inline bool takes_upper(std::uint32_t fixed, std::uint32_t entry, std::uint32_t draw) {
  return takes_upper(fixed, entry & 0x00ff00ffu, entry >> 8 & 0xffu, draw);
}

/// Destination of rounded coordinates: level indices, one byte each, or weight times level in
/// lanes. One type for all three formats, so the rounding is compiled once.
struct level_sink {
  enum kind_of_lane : std::uint8_t { indices, lanes_8, lanes_16 };

  kind_of_lane kind;
  std::byte* out;
  std::uint32_t weight = 1;  ///< weight of the lanes

  HCOMP_HD std::uint32_t number(std::uint32_t entry, bool upper) const {
    if (kind == indices) return (entry >> 24) + upper;
    return ((entry >> 16 & 0xffu) + (upper ? entry >> 8 & 0xffu : 0u)) * weight;
  }
  HCOMP_HD void put(int i, std::uint32_t entry, bool upper) const {
    auto const at = static_cast<std::size_t>(i);
    if (kind == lanes_16)
      store_aligned(out, at, static_cast<std::uint16_t>(number(entry, upper)));
    else
      store_aligned(out, at, static_cast<std::uint8_t>(number(entry, upper)));
  }
};

/// Transforms values to coordinates: signs, scale, transform. Returns whether this worker met NaN
/// or infinity.
/// @param scratch  range.size floats, shared by the workers of the group
template <class Group, class Source>
HCOMP_HD bool rotate(Group group, float* scratch, Source const& x, transform_range range,
                     float_scale scale, draw_place const& place) {
  bool finite = true;
  auto const from = static_cast<unsigned>(range.first), size = static_cast<unsigned>(range.size);
  for (unsigned w = static_cast<unsigned>(group.worker()); w < size / 64; w += Group::workers) {
    std::uint64_t const negate = sign_word(place, from / 64 + w);
    for (unsigned j = 0; j < 64; ++j) {
      unsigned const i = w * 64 + j;
      float const value =
          i < static_cast<unsigned>(range.count)
              ? finite_float(x[static_cast<std::size_t>(from + i)], finite) * scale.factor
              : 0;
      scratch[i] = (negate >> j & 1 ? -value : value) * scale.power;
    }
  }
  group.sync();
  hadamard(group, scratch, range.size);
  return !finite;
}

/// Rounds coordinates to levels; coordinate i of the block is passed to sink.put(i, ...). The
/// source argument serves overloads that prefetch its next values.
template <class Group, class Source>
HCOMP_HD void round_to_levels(Group group, float const* scratch, Source const&,
                              transform_range range, float limit, level_cells const& cells,
                              draw_place const& place, level_sink const& sink) {
  auto const from = static_cast<unsigned>(range.first), size = static_cast<unsigned>(range.size);
  for (unsigned q = static_cast<unsigned>(group.worker()); q < size / 8; q += Group::workers) {
    auto const draws = rounding_draws(place, from / 8 + q);
    for (unsigned k = 0; k < 8; ++k) {
      unsigned const i = drawn_for(q, k);
      std::uint32_t const fixed = fixed_point(scratch[i], limit);
      std::uint32_t const entry = cells.entries[fixed >> 16];
      std::uint32_t const draw = draws[k / 2] >> 16 * (k % 2) & 0xffffu;
      sink.put(static_cast<int>(from + i), entry, takes_upper(fixed, entry, draw));
    }
  }
  group.sync();
}

/// Handles a transform of norm 0: all coordinates get the lowest level. Returns as rotate.
template <class Group, class Source>
HCOMP_HD bool round_zeros(Group group, Source const& x, transform_range range,
                          level_cells const& cells, level_sink const& sink) {
  bool finite = true;
  for (int i = group.worker(); i < range.size; i += Group::workers) {
    if (i < range.count) finite &= is_finite(x[static_cast<std::size_t>(range.first + i)]);
    sink.put(range.first + i, cells.entries[0], false);
  }
  group.sync();
  return !finite;
}

/// Transforms sums of levels to values without scale and signs: offset and transform. Exact for
/// 8-bit lanes: all numbers are integers below 2^24.
/// @param lanes    of the block, `Lane` each, at any address
/// @param offset   twice the sum that represents a coordinate of 0
/// @param scratch  range.size floats, shared by the workers of the group
template <class Lane, class Group, class Out>
HCOMP_HD void center_sums(Group group, float* scratch, std::byte const* lanes,
                          transform_range range, std::uint32_t offset, Out*) {
  for (int i = group.worker(); i < range.size; i += Group::workers) {
    std::uint32_t const sum = load_aligned<Lane>(lanes, static_cast<std::size_t>(range.first + i));
    scratch[i] = static_cast<float>(static_cast<std::int32_t>(2 * sum - offset));
  }
  group.sync();
  hadamard(group, scratch, range.size);
}

/// Applies scale and signs to the result of center_sums.
template <class Group, class Out>
HCOMP_HD void finish_values(Group group, float const* scratch, transform_range range,
                            float_scale scale, draw_place const& place, Out* x) {
  auto const from = static_cast<unsigned>(range.first), count = static_cast<unsigned>(range.count);
  for (unsigned w = static_cast<unsigned>(group.worker()); w * 64 < count; w += Group::workers) {
    std::uint64_t const negate = sign_word(place, from / 64 + w);
    for (unsigned i = w * 64; i < count && i < w * 64 + 64; ++i) {
      float const value = scratch[i] * scale.factor * scale.power;
      x[from + i] = static_cast<Out>(negate >> (i % 64) & 1 ? -value : value);
    }
  }
  group.sync();
}

/// Returns whether all values that this worker tests are finite as `T`.
template <class T, class Group>
HCOMP_HD bool values_are_finite(Group group, float const* scratch, transform_range range,
                                float_scale scale) {
  bool finite = true;
  for (int i = group.worker(); i < range.count; i += Group::workers)
    finite &= is_finite(static_cast<T>(scratch[i] * scale.factor * scale.power));
  group.sync();
  return finite;
}

/// Adds two words lane by lane; no lane carries into the next.
template <class Lane> HCOMP_HD constexpr std::uint64_t lane_sums(std::uint64_t a, std::uint64_t b) {
  constexpr int bits = 8 * sizeof(Lane);
  constexpr std::uint64_t highest = ~std::uint64_t{0} / ((std::uint64_t{1} << bits) - 1)
                                    << (bits - 1);
  return ((a & ~highest) + (b & ~highest)) ^ ((a ^ b) & highest);
}

/// acc += in, lane by lane.
/// @param count  lanes, a multiple of 64
template <class Lane, class Group>
HCOMP_HD void add_lanes(Group group, std::byte* acc, std::byte const* in, int count) {
  auto const words = static_cast<unsigned>(count) * sizeof(Lane) / 8;
  unsigned done = 0;
  if constexpr (HasWarps<Group>) {
    using two_words = adjacent<std::uint64_t, 2>;
    if (is_multiple_of(16, acc) && is_multiple_of(16, in)) {
      struct summands {
        two_words mine, other;
      };
      auto const at = [](unsigned i, unsigned k) {
        return 16 * (std::size_t{i} + k * Group::workers);
      };
      for_each_loaded<4>(
          group, words / 2,
          [&](unsigned i, unsigned k) {
            return summands{two_words::at(acc + at(i, k)), two_words::at(in + at(i, k))};
          },
          [&](unsigned i, unsigned k, summands const& both) {
            two_words{{lane_sums<Lane>(both.mine.values[0], both.other.values[0]),
                       lane_sums<Lane>(both.mine.values[1], both.other.values[1])}}
                .put(acc + at(i, k));
          });
      done = words / 2 * 2;
    }
  }
  for (std::size_t w = done + worker_of(group); w < words; w += Group::workers)
    store_word(acc, w, lane_sums<Lane>(load_word(acc, w), load_word(in, w)));
}

// ---- Lanes of one rank as level indices, which need fewer bits

/// Maps every lane of a word from its 8-bit number to other_of(number).
template <class Lane, class Other>
HCOMP_HD std::uint64_t exchanged_lanes(std::uint64_t w, Other const& other_of) {
  std::uint64_t result = 0;
  for (unsigned at = 0; at < 64; at += 8 * sizeof(Lane)) {
    std::uint32_t const other = other_of(static_cast<std::uint32_t>(w >> at & 0xffu));
    result |= std::uint64_t{other} << at;
  }
  return result;
}

/// Maps level indices to levels, or levels to indices, in lanes of narrow_lanes.
template <class Lane, bool ToNumbers> class level_numbers {
 public:
  /// @param levels  `size` levels, in memory for 256
  /// @param cells   entries of level_cells
  HCOMP_HD level_numbers(std::uint8_t const* levels, int size, std::uint32_t const* cells)
      : levels_(levels), cells_(cells), size_(size) {
#if !defined(__CUDA_ARCH__)
    for (unsigned i = 0; i < 32; ++i)
      few_[i] = static_cast<std::uint8_t>(ToNumbers ? number_of(i) : levels[i]);
#endif
  }

  HCOMP_HD std::uint32_t other_of(std::uint32_t given) const {
    return ToNumbers ? number_of(given) : levels_[given < static_cast<unsigned>(size_) ? given : 0];
  }
  /// The largest number in valid lanes.
  HCOMP_HD std::uint32_t last() const {
    return static_cast<std::uint32_t>(ToNumbers ? levels_[size_ - 1] : size_ - 1);
  }
  HCOMP_HD std::uint64_t word(std::uint64_t w) const {
    return exchanged_lanes<Lane>(w, [&](std::uint32_t given) { return other_of(given); });
  }

  /// Whether the table is small enough for the processor's lookup in registers.
  bool has_vectors() const { return size_ <= 16 && levels_[size_ - 1] < 32; }
  template <class Vector> void vector(Vector& w) const;  // in simd.hpp

 private:
  HCOMP_HD std::uint32_t number_of(std::uint32_t level) const {
    return (cells_[level] >> 24) + (level >= levels_[size_ - 1]);
  }

  std::uint8_t const* levels_;
  std::uint32_t const* cells_;
  int size_;
#if !defined(__CUDA_ARCH__)
  std::uint8_t few_[32];  ///< mapping of 0 to 31, for vectors
#endif
};

// ---- Distribution of transforms over workers

inline constexpr int largest_transform = 16384;
/// Floats in front of a transform, where workers in warps store entries of level_cells.
inline constexpr int shared_cells = 512;

/// Number of transforms that a group processes at once.
template <class Group> constexpr int teams_of_group() {
  if constexpr (HasTeams<Group>)
    return Group::teams;
  else
    return 1;
}
template <class Group> inline constexpr int teams_of = teams_of_group<Group>();

/// Transforms first to end - 1 of a block.
struct some_transforms {
  int first, end;
};

/// Calls f(group, scratch, k) for every transform k of `some`. If `group.scratch()` has space for a
/// transform (shared_bytes for groups with warps), the group processes one transform after the
/// other, and each team its own. Otherwise every worker processes its own transforms.
/// @param floats  of scratch that each team needs
template <class Group, class F>
HCOMP_HD void for_each_transform(Group group, some_transforms some,
                                 [[maybe_unused]] unsigned floats, F const& f) {
  if constexpr (HasTeams<Group>) {
    auto const team = group.own_team();
    int const number = group.team();
    float* const scratch = group.scratch() + shared_cells + static_cast<unsigned>(number) * floats;
    for (int k = some.first + number; k < some.end; k += Group::teams) f(team, scratch, k);
    group.sync();
  } else if constexpr (requires { group.scratch(); }) {
    float* const scratch = group.scratch() + (HasWarps<Group> ? shared_cells : 0);
    for (int k = some.first; k < some.end; ++k) f(group, scratch, k);
  } else {
    alignas(64) float scratch[largest_transform];
    for (int k = some.first + group.worker(); k < some.end; k += Group::workers) {
      if constexpr (Group::workers == 1)
        f(group, scratch, k);
      else
        f(serial_group{}, scratch, k);
    }
    group.sync();
  }
}

}  // namespace hcomp::detail::thc
