// Codec inceptionn on one thread, compared with reading the same fp32 values from memory:
//
//   encode              target: 2.0, half of the speed of reading
//   decode              target: 2.0
//   decode-add-encode   target: 2.86, a hop of a ring: encoded + fp32 -> encoded
//
// The inputs are normal values, E = 10: nearly all in 8 bits (sigma 0.01), or 8 and 16 mixed (0.1).
//
//   bench_inceptionn --benchmark_repetitions=5 --benchmark_min_time=0.05
//   bench_inceptionn --sweep      all 2^32 floats: class, error, sign, idempotence; half a minute

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

constexpr std::size_t values = std::size_t{1} << (bench::is_brief ? 21 : 25);
constexpr bench::extent in_memory{"memory", values, std::size_t{1} << 19, 1};

struct state {
  std::vector<float> x = std::vector<float>(values), y = x;
  std::size_t slice = 0;  ///< values of one encoded vector
  std::vector<std::byte> encodings, out;

  explicit state(double sigma) {
    for (std::size_t i = 0; i < values; ++i) {
      double sum = -2;  // sum of four uniform values: close enough to normal
      for (std::size_t k = 0; k < 4; ++k)
        sum += static_cast<double>(hcomp::mix(4 * i + k + 1) >> 11) * 0x1p-53;
      x[i] = static_cast<float>(sigma * std::sqrt(3.0) * sum);
    }
  }
  std::span<float> of_x(std::size_t first) { return std::span(x).subspan(first, slice); }
  std::span<float> of_y(std::size_t first) { return std::span(y).subspan(first, slice); }
  /// The encoded vector that begins with value `first`, with capacity for any length.
  std::span<std::byte> encoded(std::vector<std::byte>& from, std::size_t first) const {
    std::size_t const slice_bytes = hcomp::inceptionn::capacity(slice);
    return std::span(from).subspan(first / slice * slice_bytes, slice_bytes);
  }
  void prepare(std::size_t extent) {
    std::size_t const wanted = extent == values ? in_memory.slice : bench::in_cache.slice;
    if (wanted == slice) return;
    slice = wanted;
    std::size_t const bytes = values / slice * hcomp::inceptionn::capacity(slice);
    encodings.resize(bytes);
    out.assign(bytes, std::byte{1});
    for (std::size_t first = 0; first < extent; first += slice)
      hcomp::inceptionn().encode(of_x(first), encoded(encodings, first));
  }
};

void add(std::shared_ptr<state> const& s, std::string const& level, hcomp::inceptionn const& codec,
         bool asked) {
  auto const read = bench::fastest_read(s->x.data(), nullptr, values);
  auto const contest = [&](char const* metric, double limit, bench::work const& kernel) {
    bench::contest one{metric, level, asked ? limit : 0, kernel,
                       [s, read](std::size_t first, std::size_t n, int) {
                         read(s->x.data() + first, nullptr, n);
                       }};
    one.prepare = [s](std::size_t extent) { s->prepare(extent); };
    one.extents = {in_memory, bench::in_cache};
    bench::add(one);
  };
  contest("encode", 2, [s, codec](std::size_t first, std::size_t, int) {
    codec.encode(s->of_x(first), s->encoded(s->out, first));
    benchmark::ClobberMemory();
  });
  // both roundings decode alike
  if (codec.options().rounding == hcomp::inceptionn_rounding::nearest) return;
  contest("decode", 2, [s, codec](std::size_t first, std::size_t, int) {
    codec.decode(s->encoded(s->encodings, first), s->of_y(first));
    benchmark::ClobberMemory();
  });
  contest("decode-add", 0, [s, codec](std::size_t first, std::size_t, int) {
    codec.decode_add(s->encoded(s->encodings, first), s->of_y(first));
    benchmark::ClobberMemory();
  });
  contest("decode-add-encode", 1 / 0.35, [s, codec](std::size_t first, std::size_t, int) {
    codec.decode_add_encode(s->encoded(s->encodings, first), s->of_x(first),
                            s->encoded(s->out, first));
    benchmark::ClobberMemory();
  });
}

// ---- All floats

struct findings {
  std::array<std::uint64_t, 4> of_tag{};
  std::array<double, 4> largest{};  ///< errors
  std::uint64_t wrong_tag = 0, sign = 0, grown = 0, twice = 0;

  void add(findings const& other) {
    for (std::size_t tag = 0; tag < 4; ++tag) {
      of_tag[tag] += other.of_tag[tag];
      largest[tag] = std::max(largest[tag], other.largest[tag]);
    }
    wrong_tag += other.wrong_tag;
    sign += other.sign;
    grown += other.grown;
    twice += other.twice;
  }
};

constexpr std::size_t chunk = hcomp::inceptionn::chunk_values;

/// Checks the floats with upper 22 bits `upper`.
void check(hcomp::detail::inceptionn::cpu_coder const& coder, std::uint32_t upper,
           findings& found) {
  std::array<float, chunk> x, y, again;
  std::array<std::byte, hcomp::detail::inceptionn::chunk_capacity> coded{};
  for (std::uint32_t i = 0; i < chunk; ++i) x[i] = hcomp::same_bits<float>(upper << 10 | i);
  auto const decode = [&](std::array<float, chunk>& to) {
    hcomp::detail::inceptionn::decode_values(coder.rule, coded.data(), coded.data() + chunk / 4,
                                             chunk, nullptr, to.data(), coder.level);
  };
  coder.encode_coded(x.data(), chunk, coded.data());
  decode(y);
  for (std::size_t i = 0; i < chunk; ++i) {
    float const magnitude = std::fabs(x[i]);
    unsigned const tag = magnitude < 0x1p-10f ? 0 : magnitude < 0x1p-5f ? 1 : magnitude < 1 ? 2 : 3;
    found.wrong_tag += (static_cast<unsigned>(coded[i / 4]) >> 2 * (i % 4) & 3u) != tag;
    ++found.of_tag[tag];
    double const error = tag < 3 ? std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]))
                                 : std::memcmp(&x[i], &y[i], sizeof(float)) != 0;
    found.largest[tag] = std::max(found.largest[tag], error);
    found.sign += tag > 0 && std::signbit(x[i]) != std::signbit(y[i]);
    found.grown += std::fabs(y[i]) > magnitude;
  }
  coder.encode_coded(y.data(), chunk, coded.data());
  decode(again);
  found.twice += std::memcmp(y.data(), again.data(), sizeof(y)) != 0;
}

/// Prints its verdict; returns 0 if all floats are right.
int sweep() {
  hcomp::detail::inceptionn::cpu_coder const coder{hcomp::detail::inceptionn::rule_of({}),
                                                   hcomp::best_simd_level()};
  std::atomic<std::uint32_t> next{0};
  auto const threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<findings> found(threads);
  std::vector<std::thread> workers;
  for (auto& mine : found)
    workers.emplace_back([&coder, &next, &mine] {
      findings local;  // per thread, to avoid shared cache lines
      for (std::uint32_t first; (first = next.fetch_add(1024)) < 1u << 22;)
        for (std::uint32_t upper = first; upper < first + 1024; ++upper) check(coder, upper, local);
      mine = local;
    });
  for (auto& worker : workers) worker.join();
  findings all;
  for (auto const& one : found) all.add(one);

  std::array<double, 4> const bounds{0x1p-10, 0x1p-12, 0x1p-15, 0x1p-149};
  bool right = all.wrong_tag + all.sign + all.grown + all.twice == 0;
  std::uint64_t seen = 0;
  std::printf("all floats, within_bound, E = 10, truncated\n%4s%14s%16s%16s\n", "tag", "values",
              "largest error", "to be below");
  for (std::size_t tag = 0; tag < 4; ++tag) {
    std::printf("%4zu%14llu%16.8g%16.8g\n", tag, static_cast<unsigned long long>(all.of_tag[tag]),
                all.largest[tag], bounds[tag]);
    right = right && all.largest[tag] < bounds[tag];
    seen += all.of_tag[tag];
  }
  right = right && seen == std::uint64_t{1} << 32;
  std::printf(
      "wrong tags %llu, other sign %llu, grown %llu, chunks that change when encoded again "
      "%llu\n%s\n",
      static_cast<unsigned long long>(all.wrong_tag), static_cast<unsigned long long>(all.sign),
      static_cast<unsigned long long>(all.grown), static_cast<unsigned long long>(all.twice),
      right ? "all right" : "WRONG");
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--sweep") == 0) return sweep();
  auto const best = hcomp::best_simd_level();
  auto const narrow = std::make_shared<state>(0.01), wide = std::make_shared<state>(0.1);
  for (auto const level :
       {hcomp::simd_level::baseline, hcomp::simd_level::avx2, hcomp::simd_level::avx512})
    if (level <= best) add(narrow, name_of(level), hcomp::inceptionn({}, level), level == best);
  add(narrow, "nearest", hcomp::inceptionn({.rounding = hcomp::inceptionn_rounding::nearest}),
      false);
  add(wide, "sigma .1", hcomp::inceptionn(), true);
  return bench::run(argc, argv,
                    "Time of INCEPTIONN's codec / time of reading fp32; values per second");
}
