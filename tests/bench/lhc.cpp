// Reductions of sparse vectors on one thread, compared with the speed of memory. Times are relative
// to reading the whole vector, zeros included:
//
//   mark        the index of a vector                              target: together with pack 1.67
//   pack        its nonzero values; unpack: back, zeros included
//   plan        checks on the index whether the sketch can be decoded; 1.3 cells per value
//   sketch      values into cells; recover: back
//   merge       adds the cells, or packed values, of one rank to those of another
//
// Densities are 0.1, 1 and 5 %. Last, the same for lhc and sparse_union in nanoseconds per nonzero
// value, with their shares of the total, and the bytes that a rank passes to MPI with each
// strategy.
//
//   bench_lhc --benchmark_repetitions=5 --benchmark_min_time=0.05

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/union.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

/// Vectors are processed in slices, each a vector of its own.
constexpr bench::extent slices{"memory", std::size_t{1} << 23, std::size_t{1} << 21, 1};

template <class Lane> struct state {
  double density;
  std::vector<float> x = std::vector<float>(slices.values), y = x;
  hcomp::sparse_union<Lane> packed{{.ranks = 4}}, marking{{.ranks = 4}};
  hcomp::lhc<Lane> sketched{{.ranks = 4}};
  std::vector<Lane> values, cells, sum;

  explicit state(double share) : density(share) {
    auto const limit = static_cast<std::uint64_t>(density * 0x1p53);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::uint64_t const draw = hcomp::mix(i + 1); draw >> 11 < limit)
        x[i] = static_cast<float>(static_cast<std::int32_t>(hcomp::mix(draw)) | 1) * 0x1p-31f;
    prepare();
  }
  std::span<float const> slice(std::size_t first) const {
    return std::span(x).subspan(first, slices.slice);
  }
  std::span<float> result(std::size_t first) { return std::span(y).subspan(first, slices.slice); }
  /// Prepares the first slice; the remaining slices have nearly the same number of values.
  void prepare() {
    packed.mark(slice(0));
    packed.unite();
    sketched.mark(slice(0));
    sketched.unite(1);
    values.resize(packed.lanes(slices.slice));
    cells.resize(sketched.lanes(slices.slice));
    packed.encode_lanes(slice(0), values);
    sketched.encode_lanes(slice(0), cells);
    sum = cells;
  }
};

template <class Lane> void add(double density, char const* lanes) {
  auto const s = std::make_shared<state<Lane>>(density);
  char level[16];
  std::snprintf(level, sizeof level, "%g %%", 100 * density);
  auto const read = bench::fastest_read(s->x.data(), nullptr, s->x.size());
  auto const reading = [s, read](std::size_t first, std::size_t n, int) {
    read(s->x.data() + first, nullptr, n);
  };
  auto const contest = [&](std::string const& metric, bench::work const& work, double asked = 0) {
    bench::contest one{metric + " " + lanes, level, asked, work, reading};
    one.extents = {slices};
    bench::add(one);
  };
  contest("mark", [s](std::size_t first, std::size_t, int) {
    auto const words = s->marking.mark(s->slice(first));
    benchmark::DoNotOptimize(words.data());
  });
  contest(
      "mark + pack",
      [s](std::size_t first, std::size_t, int) {
        s->marking.mark(s->slice(first));
        s->marking.unite();
        s->sum.resize(s->marking.lanes(slices.slice));
        s->marking.encode_lanes(s->slice(first), s->sum);
      },
      std::is_same_v<Lane, float> && density == 0.05 ? 1 / 0.6 : 0);
  contest("unpack", [s](std::size_t first, std::size_t, int) {
    s->packed.decode_lanes(s->values, s->result(first));
  });
  contest("plan", [s](std::size_t, std::size_t, int) { s->sketched.plan_for(1); });
  contest("sketch",
          [s](std::size_t, std::size_t, int) { s->sketched.encode_lanes(s->slice(0), s->cells); });
  contest("recover", [s](std::size_t first, std::size_t, int) {
    s->sketched.decode_lanes(s->cells, s->result(first));
  });
  contest("merge cells", [s](std::size_t, std::size_t, int) {
    s->sum.resize(s->cells.size());
    for (std::size_t i = 0; i < s->cells.size(); ++i) s->sum[i] += s->cells[i];
    benchmark::DoNotOptimize(s->sum.data());
  });
  contest("merge packed", [s](std::size_t, std::size_t, int) {
    s->sum.resize(s->cells.size());
    for (std::size_t i = 0; i < s->values.size(); ++i) s->sum[i] += s->values[i];
    benchmark::DoNotOptimize(s->sum.data());
  });
}

/// Seconds of `work`: the minimum of some turns.
template <class Work> double seconds_of(Work const& work) {
  double least = 1;
  for (int turn = 0; turn < 9; ++turn) {
    double const start = bench::cpu_seconds();
    work();
    least = std::min(least, bench::cpu_seconds() - start);
  }
  return least;
}

/// Costs of one reduction on a rank, step by step.
void print_costs() {
  std::printf("\n%9s  %-12s   ns per value that is not zero (share of all steps)\n", "", "");
  for (double const density : {0.001, 0.01, 0.05}) {
    state<float> s(density);
    auto const print = [&](char const* name, auto const&... step) {
      double const seconds[] = {seconds_of(step.second)...};
      char const* const steps[] = {step.first...};
      double all = 0;
      for (double const one : seconds) all += one;
      std::printf("%7g %%  %-12s", 100 * density, name);
      for (std::size_t i = 0; i < sizeof...(step); ++i)
        std::printf("   %s %.1f (%.0f %%)", steps[i],
                    seconds[i] * 1e9 / static_cast<double>(s.values.size()),
                    100 * seconds[i] / all);
      std::printf("\n");
    };
    auto const mark = std::pair("mark", [&] { s.marking.mark(s.slice(0)); });
    print("sparse_union", mark,
          std::pair("pack", [&] { s.packed.encode_lanes(s.slice(0), s.values); }),
          std::pair("unpack", [&] { s.packed.decode_lanes(s.values, s.result(0)); }));
    print("lhc", mark, std::pair("peel", [&] { s.sketched.plan_for(1); }),
          std::pair("sketch", [&] { s.sketched.encode_lanes(s.slice(0), s.cells); }),
          std::pair("recover", [&] { s.sketched.decode_lanes(s.cells, s.result(0)); }));
  }
}

/// Bytes that a rank passes to MPI, with each strategy.
void print_bytes() {
  std::printf("\n%9s%12s%12s%14s%12s   bytes of %zu values on one rank, index included\n", "",
              "dense", "index", "sparse_union", "lhc", slices.slice);
  for (double const density : {0.001, 0.01, 0.05}) {
    state<float> const s(density);
    hcomp::sparse_sum<> sum;
    sum.mark(s.slice(0));
    sum.unite(1);
    auto const& bytes = sum.choice();
    std::printf("%7g %%%12zu%12zu%14zu%12zu   %s\n", 100 * density, bytes.dense_bytes,
                bytes.index_bytes, bytes.index_bytes + bytes.packed_bytes,
                bytes.index_bytes + bytes.sketched_bytes, hcomp::to_text(bytes.strategy));
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (double const density : {0.001, 0.01, 0.05}) add<float>(density, "float");
  add<std::uint32_t>(0.05, "fixed");
  int const status = bench::run(
      argc, argv, "Time / time of reading the whole vector; values (zeros too) per second");
  print_costs();
  print_bytes();
  return status;
}
