// error_bounded on one thread, against reading the same values from memory:
//
//   encode   asked of fp32: 2 GB/s, 0.50 * 10^9 values per second; of doubles: 4.0 times as long
//            as reading
//   decode   asked: 3 GB/s, 0.75 * 10^9 values; 2.9 times as long
//   merge    two codes of one rank each -> their sum. Asked: 3 GB/s, 0.75 * 10^9 values; 3.3 times
//   hop      of a ring: code + values -> code
//
// on a gradient (Laplace), a smooth vector and one of which 1 % is not 0, at the bounds of one rank
// that ZCCL was measured with. Last, how many times smaller codes are than the vectors, of one
// rank and of the sum of two, and the same of ZCCL's format.
//
//   bench_error_bounded --benchmark_repetitions=5 --benchmark_min_time=0.05

#include <cstddef>
#include <cstdio>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <memory>
#include <span>
#include <string>
#include <support/error_bounded.hpp>
#include <utility>
#include <vector>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

constexpr std::size_t values = std::size_t{1} << 22;
constexpr bench::extent in_memory{"memory", values, std::size_t{1} << 18, 1};

template <class T> std::vector<T> as(std::vector<float> const& x) { return {x.begin(), x.end()}; }

template <class T> struct state {
  bounded_values::input input, another;
  hcomp::error_bounded<T> codec{{.bound = 2 * input.bound, .ranks = 2}};
  std::vector<T> x = as<T>(input.x), other = as<T>(another.x);
  std::size_t slice = 0;  ///< values of one code
  std::vector<T> y = std::vector<T>(values);
  std::vector<std::byte> mine = {}, others = {}, out = {};
  double ratio = 0, ratio_of_sum = 0;  ///< bytes of the vector / bytes of the codes

  std::span<T const> of_x(std::size_t first) const { return std::span(x).subspan(first, slice); }
  std::span<T> of_y(std::size_t first) { return std::span(y).subspan(first, slice); }
  /// The code that begins with value `first`, with room for any of its length.
  std::span<std::byte> code(std::vector<std::byte>& from, std::size_t first) const {
    std::size_t const room = codec.capacity(slice);
    return std::span(from).subspan(first / slice * room, room);
  }
  void prepare(std::size_t extent) {
    std::size_t const wanted = extent == values ? in_memory.slice : bench::in_cache.slice;
    if (wanted == slice) return;
    slice = wanted;
    std::size_t const room = values / slice * codec.capacity(slice);
    mine.resize(room);
    others.resize(room);
    out.assign(room, std::byte{1});
    std::size_t alone = 0, sum = 0;
    for (std::size_t first = 0; first < extent; first += slice) {
      alone += codec.encode(of_x(first), code(mine, first));
      codec.encode(std::span<T const>(other).subspan(first, slice), code(others, first));
      sum += codec.merge(code(mine, first), code(others, first), code(out, first));
    }
    double const all = static_cast<double>(extent * sizeof(T));
    if (extent != values) return;
    ratio = all / static_cast<double>(alone);
    ratio_of_sum = all / static_cast<double>(sum);
  }
};

template <class T>
void add(std::shared_ptr<state<T>> const& s, hcomp::error_bounded<T> const& codec,
         std::string const& level) {
  // which reads floats
  constexpr std::size_t each = sizeof(T) / sizeof(float);
  auto* const as_floats = reinterpret_cast<float const*>(s->x.data());
  auto const read = bench::fastest_read(as_floats, nullptr, each * values);
  auto const contest = [&](char const* figure, bench::work const& kernel) {
    bench::contest one{std::string(figure) + " " + s->input.name, level, 0, kernel,
                       [=](std::size_t first, std::size_t n, int) {
                         read(as_floats + each * first, nullptr, each * n);
                       }};
    one.prepare = [s](std::size_t extent) { s->prepare(extent); };
    one.extents = {in_memory, bench::in_cache};
    bench::add(one);
  };
  contest("encode", [s, codec](std::size_t first, std::size_t, int) {
    codec.encode(s->of_x(first), s->code(s->out, first));
    benchmark::ClobberMemory();
  });
  contest("decode", [s, codec](std::size_t first, std::size_t, int) {
    codec.decode(s->code(s->mine, first), s->of_y(first));
    benchmark::ClobberMemory();
  });
  contest("merge", [s, codec](std::size_t first, std::size_t, int) {
    codec.merge(s->code(s->mine, first), s->code(s->others, first), s->code(s->out, first));
    benchmark::ClobberMemory();
  });
  contest("hop", [s, codec](std::size_t first, std::size_t, int) {
    codec.decode_add_encode(s->code(s->others, first), s->of_x(first), s->code(s->out, first));
    benchmark::ClobberMemory();
  });
}

template <class T> using states = std::vector<std::shared_ptr<state<T>>>;

template <class T> states<T> of_three_kinds() {
  states<T> all;
  for (auto* const make :
       {bounded_values::gradient, bounded_values::smooth, bounded_values::sparse})
    all.push_back(std::make_shared<state<T>>(state<T>{make(values, 1), make(values, 2)}));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  auto const all = of_three_kinds<float>();
  auto const doubles = of_three_kinds<double>();
  std::pair<char const*, hcomp::simd_level> const levels[] = {
      {"baseline", hcomp::simd_level::baseline},
      {"avx2", hcomp::simd_level::avx2},
      {"avx512", hcomp::simd_level::avx512}};
  for (auto const& [name, level] : levels)
    if (level <= hcomp::best_simd_level())
      for (auto const& s : all) add(s, hcomp::error_bounded(s->codec.options(), level), name);
  for (auto const& s : doubles) add(s, s->codec, "doubles");
  int const failed =
      bench::run(argc, argv, "Time of error_bounded / time of reading; values per second");
  for (auto const& s : all)
    if (s->ratio > 0)
      std::printf("%-27s%6.2f times smaller, the sum of two%6.2f; ZCCL's format%6.2f\n",
                  s->input.name.c_str(), s->ratio, s->ratio_of_sum,
                  bounded_values::ratio_of_fz_light(s->input.x, s->input.bound));
  for (auto const& s : doubles)
    if (s->ratio > 0)
      std::printf("%-27s%6.2f times smaller, the sum of two%6.2f\n",
                  (s->input.name + ", doubles").c_str(), s->ratio, s->ratio_of_sum);
  return failed;
}
