// error_bounded on one thread, compared with reading the same values from memory:
//
//   encode   target for fp32: 2 GB/s, 0.50 * 10^9 values per second; for doubles: 4.0 times the
//            time of reading
//   decode   target: 3 GB/s, 0.75 * 10^9 values; 2.9 times
//
//   merge    two encoded vectors of one rank each -> their sum. Target: 3 GB/s, 0.75 * 10^9 values;
//            3.3 times
//   hop      of a ring: encoded vector + values -> encoded vector
//
// The inputs are a gradient (Laplace), a smooth vector, and a vector with 1 % nonzero values, at
// the error bounds of one rank in ZCCL's measurements. Floats also use error_bounded_fallback
// ("fine"). Last, the compression ratios, of one rank and of the sum of two, and the same for
// ZCCL's format.
//
//   bench_error_bounded --benchmark_repetitions=5 --benchmark_min_time=0.05

#include <cstdio>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <memory>
#include <string>
#include <support/error_bounded.hpp>
#include <vector>

#include "coded_vectors.hpp"
#include "paired.hpp"

namespace {

template <class C> struct state : bench::coded_vectors<C> { bounded_values::input input; };
template <class C> using states = std::vector<std::shared_ptr<state<C>>>;

template <class T> std::vector<T> as(std::vector<float> const& x) { return {x.begin(), x.end()}; }

template <class C> states<C> of_three_kinds() {
  using T = typename C::value_type;
  states<C> all;
  for (auto* const make :
       {bounded_values::gradient, bounded_values::smooth, bounded_values::sparse}) {
    auto const input = make(bench::values, 1);
    C const codec({.bound = 2 * input.bound, .ranks = 2});
    all.push_back(std::make_shared<state<C>>(
        state<C>{{input.name, codec, as<T>(input.x), as<T>(make(bench::values, 2).x)}, input}));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  auto const all = of_three_kinds<hcomp::error_bounded<>>();
  auto const fallback = of_three_kinds<hcomp::error_bounded_fallback<>>();
  auto const doubles = of_three_kinds<hcomp::error_bounded<double>>();
  for (auto const level :
       {hcomp::simd_level::baseline, hcomp::simd_level::avx2, hcomp::simd_level::avx512})
    if (level <= hcomp::best_simd_level())
      for (auto const& s : all)
        bench::add_coding<hcomp::error_bounded<>>(
            s, hcomp::error_bounded(s->codec.options(), level), name_of(level));
  for (auto const& s : fallback)
    bench::add_coding<hcomp::error_bounded_fallback<>>(s, s->codec, "fallback");
  for (auto const& s : doubles)
    bench::add_coding<hcomp::error_bounded<double>>(s, s->codec, "doubles");
  int const failed =
      bench::run(argc, argv, "Time of error_bounded / time of reading; values per second");
  for (auto const& s : all)
    if (s->ratio > 0)
      std::printf("%-27s%6.2f times smaller, the sum of two%6.2f; ZCCL's format%6.2f\n",
                  s->name.c_str(), s->ratio, s->ratio_of_sum,
                  bounded_values::ratio_of_fz_light(s->input.x, s->input.bound));
  for (auto const& s : doubles)
    if (s->ratio > 0)
      std::printf("%-27s%6.2f times smaller, the sum of two%6.2f\n",
                  (s->name + ", doubles").c_str(), s->ratio, s->ratio_of_sum);
  return failed;
}
