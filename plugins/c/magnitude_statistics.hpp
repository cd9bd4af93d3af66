#pragma once
/// @file
/// Statistics of the magnitudes of a vector, in host or in device memory. Same bits on both.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <limits>

namespace hcomp::drop_in {

/// They determine the magnitude that a sign stands for: the mean of all ranks.
struct magnitude_statistics {
  double sum = 0;      ///< of all magnitudes
  double typical = 0;  ///< geometric mean of the nonzero magnitudes, within a factor of 2
};

namespace detail {

/// Partial sums. A lane has every 32nd value of a block; a block has 4,096 values of the vector.
struct magnitude_sums {
  static constexpr int lanes = 32;
  static constexpr std::size_t block = 4096;

  double sum = 0;
  std::int64_t exponents = 0, count = 0;  ///< of the nonzero magnitudes

  HCOMP_HD void add(double value) {
    double const magnitude = std::fabs(value);
    auto const exponent =
        static_cast<std::int64_t>(same_bits<std::uint64_t>(magnitude) >> 52) - 1023;
    std::int64_t const is_counted = magnitude != 0;
    sum += magnitude;
    exponents += exponent & -is_counted;
    count += is_counted;
  }
  HCOMP_HD friend magnitude_sums operator+(magnitude_sums const& a, magnitude_sums const& b) {
    return {a.sum + b.sum, a.exponents + b.exponents, a.count + b.count};
  }
};

/// Measures one block. Any number of workers adds in the same order.
/// @param x  [i] is value i of the block, 0 <= i < values
template <class Source>
[[gnu::always_inline]] inline magnitude_sums sums_of_block(Source const& x, std::size_t values) {
  constexpr int lanes = magnitude_sums::lanes;
  double sums[lanes] = {};
  std::int64_t exponents[lanes] = {}, counts[lanes] = {};
  auto const add = [&](std::size_t i, int lane) __attribute__((always_inline)) {
    magnitude_sums one{sums[lane], exponents[lane], counts[lane]};
    one.add(static_cast<double>(x[i]));
    sums[lane] = one.sum;
    exponents[lane] = one.exponents;
    counts[lane] = one.count;
  };
  std::size_t const whole = values / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) add(i + static_cast<std::size_t>(lane), lane);
  for (std::size_t i = whole; i < values; ++i) add(i, static_cast<int>(i - whole));
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) {
      sums[lane] += sums[lane + half];
      exponents[lane] += exponents[lane + half];
      counts[lane] += counts[lane + half];
    }
  return {sums[0], exponents[0], counts[0]};
}
/// The same by the warp of a device.
template <class Warp, class Source>
HCOMP_HD magnitude_sums sums_of_block(Warp warp, int lane, Source const& x, std::size_t values) {
  magnitude_sums own;
  for (auto i = static_cast<std::size_t>(lane); i < values; i += magnitude_sums::lanes)
    own.add(static_cast<double>(x[i]));
  for (int half = magnitude_sums::lanes / 2; half > 0; half /= 2)
    own =
        own + magnitude_sums{warp.xor_shuffle(own.sum, half), warp.xor_shuffle(own.exponents, half),
                             warp.xor_shuffle(own.count, half)};
  return own;
}

/// Kernel for run_at.
template <class Source> struct block_on_cpu {
  Source x;
  std::size_t values;

  template <int> [[gnu::always_inline]] magnitude_sums run() const {
    return sums_of_block(x, values);
  }
};
/// Work of an executor: measures blocks 4i to 4i + 3.
template <class Source> struct magnitudes_of_blocks {
  static constexpr int workers = 128;
  static constexpr std::size_t at_once = 4;

  Source x;
  std::size_t values;
  magnitude_sums* of_block;

  template <HasWarps Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    constexpr int lanes = magnitude_sums::lanes;
    int const lane = group.worker() % lanes;
    for (auto b = static_cast<std::size_t>(group.worker() / lanes); b < at_once;
         b += static_cast<std::size_t>(Group::workers / lanes)) {
      auto const block = part(i * at_once + b);
      if (block.values == 0) return;
      auto const found = sums_of_block(group, lane, x + block.first, block.values);
      if (lane == 0) of_block[i * at_once + b] = found;
    }
  }
  template <class Group> void operator()(Group, std::size_t i) const {
    for (std::size_t b = i * at_once; b < (i + 1) * at_once; ++b) {
      auto const block = part(b);
      if (block.values == 0) return;
      of_block[b] = run_at(best_simd_level(), block_on_cpu<Source>{x + block.first, block.values});
    }
  }

 private:
  struct range {
    std::size_t first, values;
  };
  HCOMP_HD range part(std::size_t block) const {
    std::size_t const first = block * magnitude_sums::block;
    if (first >= values) return {first, 0};
    std::size_t const rest = values - first;
    return {first, rest < magnitude_sums::block ? rest : magnitude_sums::block};
  }
};

/// 2^exponent, for the exponents that magnitude_sums counts: a denormal one is -1023.
HCOMP_HD inline double power_of_two(std::int64_t exponent) {
  return same_bits<double>(exponent < -1022 ? std::uint64_t{1} << 51
                                            : static_cast<std::uint64_t>(exponent + 1023) << 52);
}
/// The statistics of all blocks, added in their order.
HCOMP_HD inline magnitude_statistics statistics_of(magnitude_sums const* of_block,
                                                   std::size_t blocks) {
  magnitude_sums all;
  for (std::size_t i = 0; i < blocks; ++i) all = all + of_block[i];
  return {all.sum, all.count > 0 ? power_of_two(all.exponents / all.count) : 0};
}
/// Work of an executor: statistics_of for one vector.
struct put_statistics {
  magnitude_sums const* of_block;
  std::size_t blocks;
  magnitude_statistics* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0) *out = statistics_of(of_block, blocks);
  }
};
/// What a sign of a vector stands for on all ranks.
struct magnitude_of_ranks {
  double mean;     ///< of all magnitudes
  double typical;  ///< the largest of all ranks

  HCOMP_HD bool is_finite() const { return mean < std::numeric_limits<double>::infinity(); }
  /// Whether few values make up the mean, which would spoil all values and their residuals.
  HCOMP_HD bool is_of_few() const { return mean > typical * power_of_two(40); }
};
/// @param of_ranks  those of rank r at [r * stride]
/// @param values    of the vector, on every rank
HCOMP_HD inline magnitude_of_ranks magnitude_of(magnitude_statistics const* of_ranks,
                                                std::size_t stride, int ranks, std::size_t values) {
  double total = 0, typical = 0;
  for (int r = 0; r < ranks; ++r) {
    auto const& one = of_ranks[static_cast<std::size_t>(r) * stride];
    total += one.sum;
    if (typical < one.typical) typical = one.typical;
  }
  return {total / (static_cast<double>(values) * ranks), typical};
}
/// Work of an executor: the magnitude of the signs of vector i, from the statistics of all ranks.
/// NaN where a plan throws: a value is NaN or infinite, or few values make up the mean.
struct put_magnitudes {
  magnitude_statistics const* of_ranks;  ///< those of vector i of rank r at [r * vectors + i]
  std::size_t vectors;
  int ranks;
  std::uint64_t const* values;  ///< of each vector
  float* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (group.worker() != 0) return;
    auto const all = magnitude_of(of_ranks + i, vectors, ranks, values[i]);
    bool const is_usable = values[i] == 0 || (all.is_finite() && !all.is_of_few());
    auto const rounded = static_cast<float>(all.mean);
    constexpr float least = std::numeric_limits<float>::min();
    out[i] = !is_usable         ? std::numeric_limits<float>::quiet_NaN()
             : rounded >= least ? rounded
                                : least;
  }
};

}  // namespace detail

/// Measures vectors of up to `most` values in the executor's memory space. Allocates only in the
/// constructor: 24 bytes per 4,096 values, on both sides of a device.
template <Executor E> class magnitude_meter {
 public:
  explicit magnitude_meter(std::size_t most) : found_(blocks_of(most)) {}

  /// Waits for the executor.
  /// @param x  a pointer, or compensated: [i] is value i, `+ n` begins n values later
  template <class Source>
  magnitude_statistics measure(E& executor, Source const& x, std::size_t values) {
    std::size_t const blocks = blocks_of(values);
    start(executor, x, values);
    found_.fetch(executor, blocks);
    return detail::statistics_of(found_.for_host(), blocks);
  }
  /// Enqueues the same; the result is in the executor's memory.
  template <class Source>
  void enqueue(E& executor, Source const& x, std::size_t values, magnitude_statistics* out) {
    start(executor, x, values);
    executor.for_each_block(1, detail::put_statistics{found_.for_work(), blocks_of(values), out});
  }

 private:
  template <class Source> void start(E& executor, Source const& x, std::size_t values) {
    using work = detail::magnitudes_of_blocks<Source>;
    executor.for_each_block((blocks_of(values) + work::at_once - 1) / work::at_once,
                            work{x, values, found_.for_work()});
  }
  static std::size_t blocks_of(std::size_t values) {
    return (values + detail::magnitude_sums::block - 1) / detail::magnitude_sums::block;
  }

  mirror<detail::magnitude_sums, E> found_;
};

}  // namespace hcomp::drop_in
