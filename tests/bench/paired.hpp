#pragma once
/// @file
/// Benchmarks relative to a reference in the same run. A kernel and its reference alternate on
/// slices of the same arrays. Other load on the machine slows both, so the ratio of their times is
/// meaningful where the times are not.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <hcomp/core/simd_level.hpp>
#include <map>
#include <string>
#include <vector>

namespace bench {

/// CPU seconds of this thread.
inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Wall-clock seconds.
inline double wall_seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Amount of work: an array far beyond all caches, or one block repeatedly.
struct extent {
  char const* name;
  std::size_t values;
  std::size_t slice;  ///< values per turn
  int repeats;        ///< repetitions of each turn
};
#if defined(HCOMP_BENCH_BRIEF)
inline constexpr bool is_brief = true;  ///< built to check that it works, not for measurements
#else
inline constexpr bool is_brief = false;
#endif
inline constexpr extent in_memory{"memory", std::size_t{1} << (is_brief ? 22 : 26),
                                  std::size_t{1} << 20, 1};
inline constexpr extent in_cache{"cache", 32768, 32768, 32};

/// Processes `values` values from value `first` on, for the `repeat`-th time.
using work = std::function<void(std::size_t first, std::size_t values, int repeat)>;

struct contest {
  std::string metric;  ///< measured operation, e.g. "merge 1:2"
  std::string level;   ///< SIMD level, e.g. "avx2"
  double asked;        ///< limit of time / time of the reference; 0: none
  work kernel, reference;
  std::function<void(std::size_t values)> prepare = {};  ///< before every pass, not measured
  double (*seconds)() = cpu_seconds;
  std::vector<extent> extents = {in_memory, in_cache};
};

namespace detail {

inline std::vector<contest>& contests() {
  static std::vector<contest> all;
  return all;
}
inline void race(benchmark::State& state, contest const& c, extent const& e) {
  double kernel = 0, reference = 0;
  for (auto _ : state) {
    if (c.prepare) c.prepare(e.values);
    double pass = 0;
    for (std::size_t first = 0; first < e.values; first += e.slice) {
      std::size_t const opposite = (first + e.values / 2) % e.values / e.slice * e.slice;
      double const start = c.seconds();
      for (int r = 0; r < e.repeats; ++r) c.kernel(first, e.slice, r);
      double const middle = c.seconds();
      for (int r = 0; r < e.repeats; ++r) c.reference(opposite, e.slice, r);
      double const end = c.seconds();
      pass += middle - start;
      reference += end - middle;
    }
    kernel += pass;
    state.SetIterationTime(pass);
  }
  auto const values =
      static_cast<double>(state.iterations()) * static_cast<double>(e.values) * e.repeats;
  state.counters["ratio"] = kernel / reference;
  state.counters["values_per_s"] = values / kernel;
  state.counters["reference_values_per_s"] = values / reference;
}

/// Keeps the results of every repetition; a final table replaces the line per run.
class collector : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(std::vector<Run> const& runs) override {
    for (auto const& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      auto const& name = run.run_name.function_name;
      ratios[name].push_back(run.counters.at("ratio").value);
      speeds[name].push_back(run.counters.at("values_per_s").value);
    }
  }
  std::map<std::string, std::vector<double>> ratios, speeds;  ///< by name
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

inline std::string name_of(contest const& c, extent const& e) {
  return c.metric + "/" + c.level + "/" + e.name;
}

}  // namespace detail

inline void add(contest c) { detail::contests().push_back(std::move(c)); }

/// Runs all contests. Prints the best SIMD level and one line per contest: medians over the
/// repetitions, and the smallest ratio.
inline int run(int argc, char** argv, char const* title) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  try {
    hcomp::best_simd_level();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  for (auto const& c : detail::contests())
    for (auto const& e : c.extents)
      benchmark::RegisterBenchmark(detail::name_of(c, e).c_str(),
                                   [&c, &e](benchmark::State& state) { detail::race(state, c, e); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  detail::collector seen;
  benchmark::RunSpecifiedBenchmarks(&seen);

  std::printf("\n%s; at most %s%s\n%-27s%-9s%6s%9s%8s%9s%11s%9s\n", title,
              hcomp::name_of(hcomp::best_simd_level()),
              is_brief ? "; a brief build, no results to quote" : "", "", "", "asked", "measured",
              "least", "10^9/s", "in cache", "10^9/s");
  for (auto const& c : detail::contests()) {
    auto const& ratios = seen.ratios[detail::name_of(c, in_memory)];
    if (ratios.empty()) continue;
    double const ratio = detail::median(ratios);
    char asked[16] = "", cached[32] = "";
    if (c.asked > 0) std::snprintf(asked, sizeof asked, "%.2f", c.asked);
    auto const name = detail::name_of(c, in_cache);
    if (!seen.ratios[name].empty())
      std::snprintf(cached, sizeof cached, "%11.2f%9.2f", detail::median(seen.ratios[name]),
                    1e-9 * detail::median(seen.speeds[name]));
    std::printf("%-27s%-9s%6s%9.2f%8.2f%9.2f%s%s\n", c.metric.c_str(), c.level.c_str(), asked,
                ratio, *std::min_element(ratios.begin(), ratios.end()),
                1e-9 * detail::median(seen.speeds[detail::name_of(c, in_memory)]), cached,
                c.asked > 0 && ratio > c.asked ? "  missed" : "");
  }
  return 0;
}

}  // namespace bench
