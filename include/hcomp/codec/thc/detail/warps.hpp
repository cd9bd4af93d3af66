#pragma once
/// @file
/// What THC does to one transform, by workers in warps that share memory: the same bytes as in
/// kernels.hpp. Neighbouring workers touch neighbouring values, and each value goes through
/// shared memory as rarely as registers allow.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/thc/detail/hadamard.hpp>
#include <hcomp/codec/thc/detail/kernels.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::thc {

// ---- What the workers share: the cells, a transform, and its signs, 32 to a word

constexpr std::size_t shared_bytes(int transform) {
  return sizeof(float) * static_cast<std::size_t>(shared_cells + transform + transform / 32);
}

template <HasWarps Group> HCOMP_HD void share_cells(Group group, level_cells const& cells) {
  auto* const shared = reinterpret_cast<std::byte*>(group.scratch());
  for (auto i = static_cast<std::size_t>(group.worker()); i < shared_cells; i += Group::workers)
    store_aligned(shared, i, cells.entries[i]);
  group.sync();
}

/// Levels and cells in memory that the workers share: in a kernel's arguments, workers that look up
/// different entries wait for each other.
struct shared_table {
  std::uint8_t const* levels;
  std::uint32_t const* cells;
};
template <HasWarps Group>
HCOMP_HD shared_table share_table(Group group, thc_table const& table, level_cells const& cells) {
  float* const scratch = group.scratch();
  share_cells(group, cells);
  auto* const levels = reinterpret_cast<std::uint8_t*>(scratch + shared_cells);
  for (int i = group.worker(); i < table.size(); i += Group::workers)
    levels[i] = table.levels[static_cast<std::size_t>(i)];
  group.sync();
  return {levels, reinterpret_cast<std::uint32_t const*>(scratch)};
}

/// The signs of a transform.
class shared_signs {
 public:
  /// @param scratch  the transform, behind which there is room
  template <HasWarps Group>
  HCOMP_HD shared_signs(Group group, float* scratch, transform_range range, draw_place const& place)
      : words_(reinterpret_cast<std::byte*>(scratch + range.size)) {
    auto const first = static_cast<unsigned>(range.first / 64);
    for (int w = group.worker(); w < range.size / 64; w += Group::workers)
      store_aligned(words_, static_cast<std::size_t>(w),
                    sign_word(place, first + static_cast<unsigned>(w)));
    group.sync();
  }

  /// Whether value i of the transform is negated.
  HCOMP_HD bool operator[](int i) const {
    return (load_aligned<std::uint32_t>(words_, static_cast<std::size_t>(i / 32)) >> i % 32 & 1) !=
           0;
  }

 private:
  std::byte* words_;
};

// ---- The transform

/// x = H (load(0), load(1), ...).
template <HasWarps Group, class Load>
HCOMP_HD void hadamard_of(Group group, float* x, int size, Load const& load) {
  constexpr int at_once = 4;  // memory is far away
  int const worker = group.worker();
  for (int first = worker; first < size; first += at_once * Group::workers) {
    float values[at_once];
    HCOMP_UNROLL
    for (int k = 0; k < at_once; ++k) {
      int const i = first + k * Group::workers;
      values[k] = i < size ? load(i) : 0;
    }
    HCOMP_UNROLL
    for (int k = 0; k < at_once; ++k) {
      int const i = first + k * Group::workers;
      float value = values[k];
      HCOMP_UNROLL
      for (int stride = 1; stride < 32; stride *= 2) {
        float const other = group.xor_shuffle(value, stride);
        value = worker & stride ? other - value : value + other;
      }
      if (i < size) x[i] = value;
    }
  }
  group.sync();
  hadamard_from(group, x, size, 32);
}

// ---- The steps of encoding and decoding

/// Every half of a warp has all 16 sums, and may have another range.
template <HasWarps Group, class Source>
HCOMP_HD measured_norm root_mean_square(Group group, Source const& x, transform_range range) {
  double sum = 0;
  bool finite = true;
  for (int i = group.worker() % 16; i < range.count; i += 16) {
    double const value = finite_float(x[static_cast<std::size_t>(range.first + i)], finite);
    sum += value * value;
  }
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
  bool finite = true;
  hadamard_of(group, scratch, range.size, [&](int i) {
    float const value =
        i < range.count
            ? finite_float(x[static_cast<std::size_t>(range.first + i)], finite) * scale.factor
            : 0;
    return (negate[i] ? -value : value) * scale.power;
  });
  return !finite;
}

/// The cells are those that were shared.
template <HasWarps Group, class Source>
HCOMP_HD void round_to_levels(Group group, float const* scratch, Source const&,
                              transform_range range, float limit, level_cells const&,
                              draw_place const& place, level_sink const& sink) {
  struct alignas(8) two_values {
    float values[2];
  };
  auto const* const cells = reinterpret_cast<std::byte const*>(scratch - shared_cells);
  auto const from = static_cast<unsigned>(range.first), size = static_cast<unsigned>(range.size);
  for (unsigned q = static_cast<unsigned>(group.worker()); q < size / 8; q += Group::workers) {
    auto const draws = rounding_draws(place, from / 8 + q);
    // As drawn_for has them. Every other 64 coordinates change rows in pairs, so that half a
    // warp reads from all banks of shared memory.
    unsigned const swapped = q / 8 % 2;
    HCOMP_UNROLL
    for (unsigned pair = 0; pair < 2; ++pair) {
      HCOMP_UNROLL
      for (unsigned turn = 0; turn < 2; ++turn) {
        unsigned const odd = turn ^ swapped;
        unsigned const i = q / 8 * 64 + (pair * 2 + odd) * 16 + q % 8 * 2;
        auto const two = *reinterpret_cast<two_values const*>(scratch + i);
        std::uint32_t numbers[2];
        HCOMP_UNROLL
        for (unsigned column = 0; column < 2; ++column) {
          std::uint32_t const fixed = fixed_point(two.values[column], limit);
          auto const entry = load_aligned<std::uint32_t>(cells, fixed >> 16);
          std::uint32_t const draw = draws[pair * 2 + column] >> 16 * odd & 0xffffu;
          numbers[column] = sink.number(entry, takes_upper(fixed, entry, draw));
        }
        sink.put_two(static_cast<int>(from + i), numbers);
      }
    }
  }
  group.sync();
}

template <class Lane, HasWarps Group, class Out>
HCOMP_HD void center_sums(Group group, float* scratch, std::byte const* lanes,
                          transform_range range, std::uint32_t offset, Out*) {
  hadamard_of(group, scratch, range.size, [&](int i) {
    std::uint32_t const sum = load_aligned<Lane>(lanes, static_cast<std::size_t>(range.first + i));
    return static_cast<float>(static_cast<std::int32_t>(2 * sum - offset));
  });
}

template <HasWarps Group, class Out>
HCOMP_HD void finish_values(Group group, float* scratch, transform_range range, float_scale scale,
                            draw_place const& place, Out* x) {
  shared_signs const negate(group, scratch, range, place);
  for (int i = group.worker(); i < range.count; i += Group::workers) {
    float const value = scratch[i] * scale.factor * scale.power;
    x[range.first + i] = static_cast<Out>(negate[i] ? -value : value);
  }
  group.sync();
}

}  // namespace hcomp::detail::thc
