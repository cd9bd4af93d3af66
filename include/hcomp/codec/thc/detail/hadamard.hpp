#pragma once
/// @file
/// The in-place, unnormalized Walsh-Hadamard transform: x = H x with entries +1 and -1.
///
/// Its stages have strides 1, 2, 4, ... Each value of a stage is one addition of two values of the
/// previous stage, so the number of workers, passes and registers does not change the result.

#include <bit>
#include <cstddef>
#include <cstring>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <utility>

namespace hcomp::detail::thc {

/// Transforms `size` values of x in place.
/// @param x     shared by the workers of the group
/// @param size  a power of two
template <class Group> HCOMP_HD void hadamard(Group group, float* x, int size) {
  for (int stride = 1; stride < size; stride *= 2) {
    for (int i = group.worker(); i < size / 2; i += Group::workers) {
      int const low = 2 * i - (i & (stride - 1));
      float const a = x[low], b = x[low + stride];
      x[low] = a + b;
      x[low + stride] = a - b;
    }
    group.sync();
  }
}

// ---- Workers with shared memory: several stages per pass, limited by registers

/// Position of value i of a transform in shared memory. Four positions are unused behind every 32
/// values, so workers with 32 neighbours each access different banks. For a multiple d of 32,
/// place_of(d) is also the distance of values whose indices differ by d.
HCOMP_HD constexpr unsigned place_of(unsigned i) { return i + i / 32 * 4; }

/// The stages between `Radix` rows of values in the worker's registers.
template <int Radix, int Columns>
HCOMP_HD inline void hadamard_of_rows(float (&rows)[Radix][Columns]) {
  HCOMP_UNROLL_ON_DEVICE
  for (int across = 1; across < Radix; across *= 2) {
    HCOMP_UNROLL_ON_DEVICE
    for (int k = 0; k < Radix / 2; ++k) {
      int const low = 2 * k - (k & (across - 1));
      HCOMP_UNROLL_ON_DEVICE
      for (int column = 0; column < Columns; ++column) {
        float const first = rows[low][column], second = rows[low + across][column];
        rows[low][column] = first + second;
        rows[low + across][column] = first - second;
      }
    }
  }
}

/// The first five stages, strides 1 to 16, in shared memory: each worker has 32 neighbouring
/// values.
/// @param change  change(i, values) is called first, for the 32 values from index i on
template <class Group, class Change>
HCOMP_HD void hadamard_first(Group group, float* x, unsigned size, Change const& change) {
  for (unsigned i = 32 * worker_of(group); i < size; i += 32 * Group::workers) {
    float* const at = x + place_of(i);
    float values[32][1];
    HCOMP_UNROLL_ON_DEVICE
    for (int k = 0; k < 8; ++k) {
      auto const four = adjacent<float, 4>::at(at + 4 * k);
      HCOMP_UNROLL_ON_DEVICE
      for (int j = 0; j < 4; ++j) values[4 * k + j][0] = four.values[j];
    }
    change(i, values);
    hadamard_of_rows(values);
    HCOMP_UNROLL_ON_DEVICE
    for (int k = 0; k < 8; ++k) {
      adjacent<float, 4> four;
      HCOMP_UNROLL_ON_DEVICE
      for (int j = 0; j < 4; ++j) four.values[j] = values[4 * k + j][0];
      four.put(at + 4 * k);
    }
  }
  group.sync();
}

/// The next log2(Radix) stages, starting at `stride`, a multiple of 32.
template <int Radix, class Group>
HCOMP_HD void hadamard_pass(Group group, float* x, unsigned size, unsigned stride) {
  unsigned const apart = place_of(stride);
  for (unsigned b = worker_of(group); b < size / Radix; b += Group::workers) {
    unsigned const inside = b & (stride - 1);
    float* const at = x + place_of((b - inside) * Radix + inside);
    float values[Radix][1];
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned k = 0; k < Radix; ++k) values[k][0] = at[k * apart];
    hadamard_of_rows(values);
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned k = 0; k < Radix; ++k) at[k * apart] = values[k][0];
  }
  group.sync();
}

/// The stages after the first five, up to strides below `end`.
template <class Group>
HCOMP_HD void hadamard_middle(Group group, float* x, unsigned size, unsigned end) {
  unsigned stride = 32;
  if (end >= 1024) {
    hadamard_pass<32>(group, x, size, 32);
    stride = 1024;
  }
  for (; stride * 4 <= end; stride *= 4) hadamard_pass<4>(group, x, size, stride);
  if (stride * 2 <= end) hadamard_pass<2>(group, x, size, stride);
}

#if !defined(__CUDA_ARCH__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// The transform on vectors of `Lanes` values, with the fewest passes over memory that the
/// registers allow.
template <int Lanes> struct hadamard_by {
  using values = typename aligned_vector<float, Lanes>::type;

  /// Vectors in registers at once.
  static constexpr int radix = Lanes == 16 ? 16 : 8;

  /// The first stages, in a single pass.
  /// @param x     aligned to whole vectors; holds the transform after `end`
  /// @param size  a power of two, at least 4 * Lanes
  /// @param load  load(v, i) gives the values from index i on; called once for each
  template <class Load>
  [[gnu::always_inline]] static void begin(float* x, int size, Load const& load) {
    if (size >= Lanes * radix)
      first_pass<radix>(x, size, load);
    else if (size == Lanes * radix / 2)
      first_pass<radix / 2>(x, size, load);
    else
      first_pass<radix / 4>(x, size, load);
  }
  /// The remaining stages.
  [[gnu::always_inline]] static void end(float* x, int size) {
    int stride = Lanes * radix;
    for (; stride * radix <= size; stride *= radix) pass<radix>(x, size, stride);
    if (stride * 8 == size) pass<8>(x, size, stride);
    if (stride * 4 == size) pass<4>(x, size, stride);
    if (stride * 2 == size) pass<2>(x, size, stride);
  }

 private:
  /// Strides inside a vector, and those of `Radix` consecutive vectors.
  template <int Radix, class Load>
  [[gnu::always_inline]] static void first_pass(float* x, int size, Load const& load) {
    for (int i = 0; i < size; i += Radix * Lanes) {
      values v[Radix];
      [&]<int... K>(std::integer_sequence<int, K...>) __attribute__((always_inline)) {
        (load(v[K], i + K * Lanes), ...);
        (inside<1>(v[K]), ...);
      }
      (std::make_integer_sequence<int, Radix>{});
      across<1>(v);
      std::memcpy(x + i, v, sizeof(v));
    }
  }
  /// The next log2(Radix) strides, starting at `stride`.
  template <int Radix> [[gnu::always_inline]] static void pass(float* x, int size, int stride) {
    for (int i = 0; i < size; i += Radix * stride)
      for (float* at = x + i; at < x + i + stride; at += Lanes) {
        values v[Radix];
        [&]<int... K>(std::integer_sequence<int, K...>) __attribute__((always_inline)) {
          (std::memcpy(&v[K], at + K * stride, sizeof(values)), ...);
          across<1>(v);
          (std::memcpy(at + K * stride, &v[K], sizeof(values)), ...);
        }
        (std::make_integer_sequence<int, Radix>{});
      }
  }

  template <int Stride, int Radix> [[gnu::always_inline]] static void across(values (&v)[Radix]) {
    if constexpr (Stride < Radix) {
      [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
        (butterfly(v[2 * I - (I & (Stride - 1))], v[2 * I - (I & (Stride - 1)) + Stride]), ...);
      }
      (std::make_integer_sequence<int, Radix / 2>{});
      across<2 * Stride>(v);
    }
  }
  [[gnu::always_inline]] static void butterfly(values& a, values& b) {
    values const difference = a - b;
    a += b;
    b = difference;
  }

  template <int Stride> [[gnu::always_inline]] static void inside(values& v) {
    if constexpr (Stride < Lanes) {
      [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
        values const partner = {v[I ^ Stride]...};
        values const sign = {(I & Stride ? -1.0f : 1.0f)...};
        v = partner + v * sign;  // products with 1 are exact: fused or not, the bits are the same
      }
      (std::make_integer_sequence<int, Lanes>{});
      inside<2 * Stride>(v);
    }
  }
};

#pragma GCC diagnostic pop

#endif

}  // namespace hcomp::detail::thc
