// error_bounded on one thread, against reading the same fp32 values from memory:
//
//   encode              asked: 2 GB/s of fp32, 0.50 * 10^9 values per second
//   decode              asked: 3 GB/s, 0.75
//   merge               asked: 3 GB/s, 0.75: two codes of one rank each -> their sum
//   decode-add-encode   a hop of a ring: code + fp32 -> code
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

struct state {
  bounded_values::input input, other;
  hcomp::error_bounded codec{{.bound = 2 * input.bound, .ranks = 2}};
  std::size_t slice = 0;  ///< values of one code
  std::vector<float> y = std::vector<float>(values);
  std::vector<std::byte> mine = {}, others = {}, out = {};
  double ratio = 0, ratio_of_sum = 0;  ///< bytes of the vector / bytes of the codes

  std::span<float const> of_x(std::size_t first) const {
    return std::span(input.x).subspan(first, slice);
  }
  std::span<float> of_y(std::size_t first) { return std::span(y).subspan(first, slice); }
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
      codec.encode(std::span(other.x).subspan(first, slice), code(others, first));
      sum += codec.merge(code(mine, first), code(others, first), code(out, first));
    }
    double const all = static_cast<double>(extent * sizeof(float));
    if (extent != values) return;
    ratio = all / static_cast<double>(alone);
    ratio_of_sum = all / static_cast<double>(sum);
  }
};

void add(std::shared_ptr<state> const& s, std::string const& level, hcomp::simd_level at) {
  auto const read = bench::fastest_read(s->input.x.data(), nullptr, values);
  hcomp::error_bounded const codec(s->codec.options(), at);
  auto const contest = [&](char const* figure, bench::work const& kernel) {
    bench::contest one{std::string(figure) + " " + s->input.name, level, 0, kernel,
                       [s, read](std::size_t first, std::size_t n, int) {
                         read(s->input.x.data() + first, nullptr, n);
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

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::shared_ptr<state>> all;
  for (auto* const make :
       {bounded_values::gradient, bounded_values::smooth, bounded_values::sparse})
    all.push_back(std::make_shared<state>(state{make(values, 1), make(values, 2)}));
  std::pair<char const*, hcomp::simd_level> const levels[] = {
      {"baseline", hcomp::simd_level::baseline},
      {"avx2", hcomp::simd_level::avx2},
      {"avx512", hcomp::simd_level::avx512}};
  for (auto const& [name, level] : levels)
    if (level <= hcomp::best_simd_level())
      for (auto const& s : all) add(s, name, level);
  int const failed =
      bench::run(argc, argv, "Time of error_bounded / time of reading; values per second");
  for (auto const& s : all)
    if (s->ratio > 0)
      std::printf("%-27s%6.2f times smaller, the sum of two%6.2f; ZCCL's format%6.2f\n",
                  s->input.name.c_str(), s->ratio, s->ratio_of_sum,
                  bounded_values::ratio_of_fz_light(s->input.x, s->input.bound));
  return failed;
}
