// Codec `thc` on one thread, at every SIMD level, compared with the speed of memory:
//
//   encode      signs, transforms of 4096, rounding, lanes of 8 bits: time of reading the values
//               target: at most 1 / 0.35 = 2.86 times
//   decode      time of reading the values                          target: at most 2.86 times
//   measure     the norms: the same; encode needs them first
//   merge       time of reading the 3 bytes per value that it reads and writes      at most 1.25
//
//   narrow, widen   one rank's levels to 4 bits and a sum's to 7, and back, for the best level:
//               time of reading the bytes that they read and write. The same for a sum of 256
//               ranks, in lanes of 16 bits: to 12 bits, and rounded to 8
//   transform   only the 12 additions per value, in cache: a lower bound for encode and decode
//   draws       only the 16 random bits per value: the additional cost in encode
//
//   bench_thc --benchmark_repetitions=7 --benchmark_min_time=0.1

#include <cstring>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encoded_layout.hpp>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

using hcomp::simd_level;
namespace kernels = hcomp::detail::thc;

constexpr std::size_t values = bench::in_memory.values;
constexpr std::size_t block = hcomp::thc<>::block_values;
constexpr std::size_t transform = 4096;
constexpr float limit = 17 << 15;

/// Values, their lanes, and those of another rank.
struct arrays {
  hcomp::host_buffer x_bytes{values * 4}, lane_bytes{values}, other_bytes{values};
  float* x = reinterpret_cast<float*>(x_bytes.data());
  std::byte* lanes = lane_bytes.data();
  std::byte* other = other_bytes.data();
  hcomp::thc<> codec;
  kernels::level_cells cells{codec.table()};

  arrays() {
    for (std::size_t i = 0; i < values; ++i) {
      std::uint64_t const bits = hcomp::mix(i);
      x[i] = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
      lanes[i] = other[i] = static_cast<std::byte>(bits >> 60);
    }
  }
};

/// Calls f(first) for every transform.
template <class F> void for_transforms(std::size_t first, std::size_t n, F const& f) {
  for (std::size_t at = first; at < first + n; at += transform) f(at);
}
kernels::draw_place place_of(std::size_t at) {
  return {1, 0, static_cast<std::uint32_t>(at / block)};
}
/// The transform's range in its block, with pointers to the start of the block.
kernels::transform_range part_of(std::size_t at) {
  return {static_cast<int>(at % block), transform, transform};
}
alignas(64) float scratch[kernels::largest_transform];

bench::work reading(arrays const& a) {
  auto const read = bench::fastest_read(a.x, nullptr, values);
  return [&a, read](std::size_t first, std::size_t n, int) { read(a.x + first, nullptr, n); };
}

void add_encoding(arrays const& a, simd_level level) {
  bench::add(
      {"encode", name_of(level), level == hcomp::best_simd_level() ? 2.86 : 0,
       [&a, level](std::size_t first, std::size_t n, int) {
         kernels::float_scale const scale(limit / (2.154 * 0.577 * 64));
         for_transforms(first, n, [&](std::size_t at) {
           float const* const x = a.x + at;
           auto const place = place_of(at);
           kernels::level_sink const sink{kernels::level_sink::lanes_8,
                                          a.lanes + at / block * block};
           bool const nonfinite = hcomp::run_at(
               level, kernels::rotate_vectors<float const*>{scratch, x, part_of(at), scale, place});
           hcomp::run_at(level, kernels::hadamard_rest{scratch, transform});
           hcomp::run_at(level, kernels::round_vectors{
                                    scratch, part_of(at), limit, a.cells, place, sink,
                                    kernels::fetch_ahead(a.x, static_cast<int>(at + transform))});
           benchmark::DoNotOptimize(nonfinite);
         });
       },
       reading(a)});
}

void add_decoding(arrays const& a, simd_level level) {
  bench::add(
      {"decode", name_of(level), level == hcomp::best_simd_level() ? 2.86 : 0,
       [&a, level](std::size_t first, std::size_t n, int) {
         kernels::float_scale const scale(0.001);
         for_transforms(first, n, [&](std::size_t at) {
           float* const x = a.x + at / block * block;
           auto const place = place_of(at);
           hcomp::run_at(level, kernels::center_vectors<std::uint8_t>{
                                    scratch, a.other + at / block * block, part_of(at), 17,
                                    kernels::fetch_ahead(a.x, static_cast<int>(at))});
           hcomp::run_at(level, kernels::hadamard_rest{scratch, transform});
           hcomp::run_at(level, kernels::finish_vectors{scratch, part_of(at), scale, place, x});
         });
       },
       reading(a)});
}

void add_measuring(arrays const& a, simd_level level) {
  bench::add({"measure", name_of(level), 0,
              [&a, level](std::size_t first, std::size_t n, int) {
                for_transforms(first, n, [&](std::size_t at) {
                  double sums[16];
                  float const* const x = a.x + at;
                  hcomp::run_at(level, kernels::norm_vectors<float const*>{x, transform, sums});
                  auto const norm = kernels::measured(sums, transform);
                  benchmark::DoNotOptimize(norm);
                });
              },
              reading(a)});
}

void add_merging(arrays const& a, simd_level level) {
  // Merging moves three bytes per value, two reads and a write: compared with reading 3/4 of a
  // float.
  auto const read = bench::fastest_read(a.x, nullptr, values);
  bench::add({"merge", name_of(level), level == hcomp::best_simd_level() ? 1.25 : 0,
              [&a, level](std::size_t first, std::size_t n, int) {
                hcomp::run_at(
                    level, kernels::add_vectors<std::uint8_t>{a.lanes + first, a.other + first, n});
              },
              [&a, read](std::size_t first, std::size_t n, int) {
                read(a.x + first, nullptr, n / 4 * 3);
              }});
}

/// Packs one rank's levels in 4 bits, or a sum's lanes in 7 bits, block by block.
void add_narrowing(arrays const& a, bool sum) {
  std::size_t const bits = sum ? 7 : 4;
  auto const read = bench::fastest_read(a.x, nullptr, values);
  auto const reading_both = [&a, read, bits](std::size_t first, std::size_t n, int) {
    read(a.x + first, nullptr, n / 32 * (8 + bits));
  };
  auto const for_blocks = [](std::size_t first, std::size_t n, auto const& f) {
    for (std::size_t at = first; at < first + n; at += block) f(at);
  };
  auto const levels = a.codec.levels();
  int const size = static_cast<int>(levels.size());
  bench::add(
      {sum ? "narrow a sum" : "narrow one", "best", 0,
       [&a, for_blocks, levels, size, sum](std::size_t first, std::size_t n, int) {
         for_blocks(first, n, [&](std::size_t at) {
           std::byte* const out = a.other + at;
           if (sum)
             kernels::narrow_lanes<std::uint8_t>(hcomp::simd_group{}, a.lanes + at, block, 7, out);
           else
             kernels::narrow_lanes<std::uint8_t>(hcomp::simd_group{}, a.lanes + at, block, 4, out,
                                                 kernels::level_numbers<std::uint8_t, true>(
                                                     levels.data(), size, a.cells.entries.data()));
         });
       },
       reading_both});
  bench::add(
      {sum ? "widen a sum" : "widen one", "best", 0,
       [&a, for_blocks, levels, size, sum](std::size_t first, std::size_t n, int) {
         for_blocks(first, n, [&](std::size_t at) {
           std::byte* const out = a.lanes + at;
           if (sum)
             kernels::widen_lanes<std::uint8_t>(hcomp::simd_group{}, a.other + at, block, 7, out);
           else
             kernels::widen_lanes<std::uint8_t>(hcomp::simd_group{}, a.other + at, block, 4, out,
                                                kernels::level_numbers<std::uint8_t, false>(
                                                    levels.data(), size, a.cells.entries.data()));
         });
       },
       reading_both});
}

/// Packs the sum of 256 ranks in lanes of 16 bits in 12 bits, or rounded to 8.
void add_narrowing_of_256(arrays const& a, bool rounds) {
  static hcomp::host_buffer const wide(2 * values), narrow(2 * values);
  if (!rounds)
    for (std::size_t i = 0; i < values; ++i)
      hcomp::store(wide.data(), i, static_cast<std::uint16_t>(hcomp::mix(i) % 3841));
  std::size_t const bits = rounds ? 8 : 12;
  auto const read = bench::fastest_read(a.x, nullptr, values);
  auto const reading_both = [&a, read, bits](std::size_t first, std::size_t n, int) {
    read(a.x + first, nullptr, n / 32 * (16 + bits));
  };
  auto const change = [rounds]<bool Narrow>(std::size_t first, std::size_t n) {
    for (std::size_t at = first; at < first + n; at += block) {
      hcomp::block_header header;
      header.weight = 256;
      header.index = static_cast<std::uint32_t>(at / block);
      std::byte* const lanes = wide.data() + 2 * at;
      std::byte* const out = narrow.data() + 2 * at;
      if (!rounds && Narrow)
        kernels::narrow_lanes<std::uint16_t>(hcomp::simd_group{}, lanes, block, 12, out);
      else if (!rounds)
        kernels::widen_lanes<std::uint16_t>(hcomp::simd_group{}, out, block, 12, lanes);
      else
        kernels::hop_rounding<Narrow ? kernels::hop_step::narrow : kernels::hop_step::widen>(
            {8, 3840}, header, Narrow ? lanes : out, Narrow ? out : lanes, block)
            .by(hcomp::simd_group{});
    }
  };
  bench::add({rounds ? "narrow, rounded" : "narrow 256", "best", 0,
              [change](std::size_t first, std::size_t n, int) {
                change.template operator()<true>(first, n);
              },
              reading_both});
  bench::add({rounds ? "widen, rounded" : "widen 256", "best", 0,
              [change](std::size_t first, std::size_t n, int) {
                change.template operator()<false>(first, n);
              },
              reading_both});
}

struct transform_only {
  float const* x;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vectors = kernels::hadamard_by<Lanes>;
    vectors::begin(
        scratch, transform, [&](auto& v, int i) __attribute__((always_inline)) {
          std::memcpy(&v, x + i, sizeof(v));
        });
    vectors::end(scratch, transform);
    return true;
  }
};
void add_transforming(arrays const& a, simd_level level) {
  bench::add({"transform", name_of(level), 0,
              [&a, level](std::size_t first, std::size_t n, int) {
                for_transforms(first, n, [&](std::size_t at) {
                  hcomp::run_at(level, transform_only{a.x + at});
                  benchmark::ClobberMemory();
                });
              },
              reading(a)});
}

/// One Philox call per eight values.
struct draws_only {
  unsigned first;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using word = typename kernels::vector_types<Lanes>::word;
    word seen{}, at{};
    hcomp::count_from(at, first);
    for (int i = 0; i < static_cast<int>(transform); i += 4 * Lanes) {
      hcomp::philox_words<word> draws[1] = {{at, word{}, word{}, word{}}};
      hcomp::philox4x32(draws, 1);
      seen |= draws[0].c0 ^ draws[0].c1 ^ draws[0].c2 ^ draws[0].c3;
      at += Lanes / 2;
    }
    return hcomp::any_bit(seen);
  }
};
void add_drawing(arrays const& a, simd_level level) {
  bench::add({"draws", name_of(level), 0,
              [level](std::size_t first, std::size_t n, int) {
                for_transforms(first, n, [&](std::size_t at) {
                  bool const any = hcomp::run_at(level, draws_only{static_cast<unsigned>(at)});
                  benchmark::DoNotOptimize(any);
                });
              },
              reading(a)});
}

}  // namespace

int main(int argc, char** argv) {
  static arrays const a;
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
    if (level > hcomp::best_simd_level()) continue;
    add_measuring(a, level);
    add_encoding(a, level);
    add_merging(a, level);
    add_decoding(a, level);
    add_transforming(a, level);
    add_drawing(a, level);
  }
  add_narrowing(a, false);
  add_narrowing(a, true);
  add_narrowing_of_256(a, false);
  add_narrowing_of_256(a, true);
  return bench::run(argc, argv,
                    "Time of THC's kernels / time of their memory accesses; values per second");
}
