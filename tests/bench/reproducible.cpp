// Codec `reproducible` on one thread, at the processor's best SIMD level, relative to:
//
//   encode, merge, decode   reading the values from memory, or from the cache, where the number of
//                           values is that of a plan's segment
//                           target: at most 1 / 0.4 = 2.5 times
//
//   ... per byte            reading the number of bytes that they read and write
//
// The inputs are values of one magnitude, as neighbours in a field have, and values spread over 80
// powers of two, whose sums drop bins at every merge. Last, the errors of results of 64 summands:
// of floats added in order, and of this codec, in units of half the last place of the largest
// summand. The exact result uses compensated long doubles.
//
//   bench_reproducible --benchmark_repetitions=5 --benchmark_min_time=0.1

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encode.hpp>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

constexpr std::size_t values = std::size_t{1} << 21;
constexpr std::size_t block = hcomp::reproducible<>::block_values;
constexpr bench::extent in_memory{"memory", values, std::size_t{1} << 18, 1};
/// The encoded blocks are about a segment of 256 KiB, as plans send it.
constexpr bench::extent in_cache{"cache", 4 * block, 4 * block, 16};

template <class T> std::vector<T> numbers(std::size_t count, int powers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> x(count);
  for (T& value : x) {
    double const fraction = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    int const power = powers == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(powers));
    value = static_cast<T>(std::ldexp(random() % 2 ? fraction : -fraction, power - powers / 2));
  }
  return x;
}

template <class T> struct arrays {
  explicit arrays(int powers)
      : x(numbers<T>(values, powers, 1)),
        y(values),
        mine(encoded_by(x, 0)),
        others(encoded_by(numbers<T>(values, powers, 2), 1)) {}

  hcomp::reproducible<T> codec;
  std::vector<T> x, y;
  hcomp::host_buffer mine, others;  // aligned to 64 bytes, as in plans

  std::byte* encoded(std::size_t first) {
    return mine.data() + first / block * codec.block_bytes();
  }
  hcomp::host_buffer encoded_by(std::vector<T> const& of, int rank) const {
    auto const encoded = hcomp::encode(codec, std::span<T const>(of), {.rank = rank});
    hcomp::host_buffer aligned(encoded.size());
    std::copy(encoded.begin(), encoded.end(), aligned.data());
    return aligned;
  }
  /// Calls f(value, block) for every block.
  template <class F> void for_blocks(std::size_t first, std::size_t count, F const& f) {
    for (std::size_t at = first; at < first + count; at += block) f(at, encoded(at));
  }
};

void read_values(bench::read_function read, void const* from, std::size_t bytes) {
  read(static_cast<float const*>(from), nullptr, bytes / sizeof(float));
}

template <class T> void add(char const* what, int powers) {
  auto const a = std::make_shared<arrays<T>>(powers);
  auto const read = bench::fastest_read(reinterpret_cast<float const*>(a->x.data()), nullptr,
                                        values * sizeof(T) / sizeof(float));
  std::size_t const of_sum = a->codec.block_bytes() / block;
  auto const contest = [&](char const* metric, std::size_t bytes, bench::work const& kernel) {
    for (bool const per_byte : {false, true}) {
      bench::contest one{std::string(metric) + " " + what, per_byte ? "per byte" : "", 2.5, kernel,
                         [a, read](std::size_t first, std::size_t n, int) {
                           read_values(read, a->x.data() + first, n * sizeof(T));
                         }};
      if (per_byte)  // encoded blocks are long, so the kernels pass over them two or three times
        one.reference = [a, read, bytes, of_sum](std::size_t first, std::size_t n, int) {
          for (std::size_t left = bytes; left > 0; left -= std::min(left, of_sum))
            read_values(read, a->others.data() + first * of_sum, n * std::min(left, of_sum));
        };
      one.extents = {in_memory, in_cache};
      bench::add(one);
    }
  };
  contest("encode", sizeof(T) + of_sum, [a](std::size_t first, std::size_t n, int) {
    a->for_blocks(first, n, [&](std::size_t at, std::byte* encoded) {
      T const* const x = a->x.data() + at;
      a->codec.encode_block(
          hcomp::simd_group{}, x, block, encoded,
          {.key = hcomp::philox_key({}), .index = static_cast<std::uint32_t>(at / block)});
    });
    benchmark::ClobberMemory();
  });
  contest("merge", 3 * of_sum, [a](std::size_t first, std::size_t n, int) {
    a->for_blocks(first, n, [&](std::size_t at, std::byte* encoded) {
      auto header = hcomp::load<hcomp::block_header>(encoded);
      header.weight = 1;
      hcomp::store(encoded, 0, header);
      a->codec.merge_block(hcomp::simd_group{}, encoded,
                           a->others.data() + at / block * a->codec.block_bytes());
    });
    benchmark::ClobberMemory();
  });
  contest("decode", sizeof(T) + of_sum, [a](std::size_t first, std::size_t n, int) {
    a->for_blocks(first, n, [&](std::size_t at, std::byte* encoded) {
      a->codec.decode_block(hcomp::simd_group{}, encoded, block, a->y.data() + at,
                            hcomp::reduce_op::sum);
    });
    benchmark::ClobberMemory();
  });
}

/// Largest and average error of the sum of 64 vectors, added in order and by the codec.
template <class T> void errors(char const* what, int powers) {
  constexpr std::size_t count = 2 * block;
  constexpr int summands = 64;
  hcomp::reproducible<T> const codec;
  std::vector<T> plain(count), largest(count), found(count);
  std::vector<long double> exact(count), lost(count);
  std::vector<std::byte> sum;
  for (int rank = 0; rank < summands; ++rank) {
    auto const x = numbers<T>(count, powers, 100 + static_cast<unsigned>(rank));
    auto const encoded = hcomp::encode(codec, std::span<T const>(x), {.rank = rank});
    if (rank == 0) sum = encoded;
    for (std::size_t b = 0; rank > 0 && b < count / block; ++b)
      codec.merge_block(hcomp::simd_group{}, sum.data() + b * codec.block_bytes(),
                        encoded.data() + b * codec.block_bytes());
    for (std::size_t i = 0; i < count; ++i) {
      plain[i] += x[i];
      largest[i] = std::max(largest[i], std::fabs(x[i]));
      long double const next = exact[i] + x[i], part = next - exact[i];
      lost[i] += (exact[i] - (next - part)) + (static_cast<long double>(x[i]) - part);
      exact[i] = next;
    }
  }
  hcomp::decode(codec, sum, std::span<T>(found), {.weight = summands});
  double most[2] = {}, average[2] = {};
  for (std::size_t i = 0; i < count; ++i) {
    int power = 0;
    std::frexp(largest[i], &power);
    double const unit = std::ldexp(1.0, power - std::numeric_limits<T>::digits - 1);
    int k = 0;
    for (T const value : {plain[i], found[i]}) {
      auto const off = std::fabs(static_cast<double>((value - exact[i]) - lost[i])) / unit;
      most[k] = std::max(most[k], off);
      average[k++] += off / count;
    }
  }
  std::printf("%-7s%-22s%11.3f%9.2f%14.3f%9.2f\n", sizeof(T) == 4 ? "float" : "double", what,
              average[0], most[0], average[1], most[1]);
}

}  // namespace

int main(int argc, char** argv) {
  add<float>("float", 0);
  add<float>("float, spread", 80);
  add<double>("double", 0);
  add<double>("double, spread", 80);
  int const failed =
      bench::run(argc, argv, "Time of reproducible / time of reading; values per second");
  std::printf(
      "\nError of sums of 64, in half units in the last place of the largest summand\n"
      "%-29s%11s%9s%14s%9s\n",
      "", "one by one", "largest", "reproducible", "largest");
  for (int const powers : {0, 10, 40, 80}) {
    auto const what =
        powers == 0 ? std::string("of one size") : "spread over 2^" + std::to_string(powers);
    errors<float>(what.c_str(), powers);
    errors<double>(what.c_str(), powers);
  }
  return failed;
}
