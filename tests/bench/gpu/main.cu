/// @file
/// Measures plans relative to a GPU's memory rate, and their alternatives, in one run.
///
/// The alternatives are fixed-length encoding, casts and cub::DeviceSelect. Shares are relative to
/// the rate of a device copy (read + write), times the bytes that the kernel must move: values
/// once, encoded vectors once. The program compares the device's results with the host's.
///
///     bench_gpu --values 1048576 --json gpu.json
///     bench_gpu --report gpu.json               the table of kernels/README.md

#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <map>
#include <optional>
#include <string>
#include <support/work_of_plans.hpp>
#include <vector>

#include "measure.cuh"
#include "stats.hpp"

namespace {

using namespace gpu_bench;

void measure_plans(table& stats, std::size_t turns, bool compare) {
  std::size_t const values = stats.found().values;
  auto const expected = compare ? made_by_host(values) : std::map<std::string, std::uint64_t>{};
  hcomp::gpu::stream_executor executor;
  auto const add = [&](auto const& work) {
    double const took = seconds(turns, work.run, work.prepare);
    auto const bytes = static_cast<double>(work.least());
    std::optional<bool> is_as_on_host;
    auto const made = work.result();
    if (compare && !made.empty()) {
      std::vector<std::byte> here(made.size());
      HCOMP_CUDA_TRY(cudaMemcpy(here.data(), made.data(), made.size(), cudaMemcpyDefault));
      is_as_on_host = print_of(here) == expected.at(work.name);
    }
    stats.add(work.name, took, bytes, is_as_on_host);
  };
  hcomp::testing::work_of_plans(executor, values, add).all();
}

double copy_seconds(std::size_t turns, vectors const& v) {
  HCOMP_CUDA_TRY(cudaMemset(v.x.data(), 1, v.x.size()));
  return seconds(turns, [&] {
    HCOMP_CUDA_TRY(cudaMemcpyAsync(v.y.data(), v.x.data(), v.x.size(), cudaMemcpyDeviceToDevice));
  });
}

device_stats about_device(std::size_t turns) {
  cudaDeviceProp device{};
  device_stats all{};
  int clock_kHz = 0;
  HCOMP_CUDA_TRY(cudaGetDeviceProperties(&device, 0));
  HCOMP_CUDA_TRY(cudaDriverGetVersion(&all.driver));
  HCOMP_CUDA_TRY(cudaRuntimeGetVersion(&all.runtime));
  HCOMP_CUDA_TRY(cudaDeviceGetAttribute(&clock_kHz, cudaDevAttrClockRate, 0));
  all.device = device.name;
  all.is_gpu = std::getenv("HCOMP_PTX_MACHINE") == nullptr;
  all.multiprocessors = device.multiProcessorCount;
  all.clock_GHz = 1e-6 * clock_kHz;
  all.turns = turns;
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Work of plans on a GPU against the rate at which it copies");
  std::vector<std::size_t> sizes{std::size_t{1} << 20, std::size_t{1} << 24, std::size_t{1} << 26};
  std::size_t turns = 21;
  double share = 0.05;
  bool only_plans = false, uncompared = false;
  std::string json, label, page = "kernels/README.md";
  std::vector<std::string> reported;
  app.add_option("--values", sizes, "floats, one size or several")->check(CLI::Range(1, 1 << 30));
  app.add_option("--turns", turns, "measurements, of which the median is printed")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--share", share, "of values that are not zero, for selecting them")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--only-plans", only_plans, "leave out the kernels for comparison, and all-reduces");
  app.add_flag("--uncompared", uncompared, "do not compare with what the host makes");
  app.add_option("--json", json, "a file for the results");
  app.add_option("--label", label, "of a variant, kept with the results");
  app.add_option("--report", reported,
                 "print the results of such files as a table, and do no more");
  app.add_option("--page", page, "with the counts of ptx.per_value, for --report");
  CLI11_PARSE(app, argc, argv);
  if (!reported.empty()) {
    print_report(reported, page);
    return 0;
  }
  if (hcomp::gpu::device_count() == 0) {
    std::puts("Skipped: there is no GPU");
    return 77;
  }
  auto all = about_device(turns);
  all.label = label;
  bool is_right = true;
  for (std::size_t const values : sizes) {
    std::printf("%s, %zu floats, medians of %zu\n", all.device.c_str(), values, turns);
    vectors const v(values);
    double const bytes = 2 * static_cast<double>(v.x.size()), copy = copy_seconds(turns, v);
    table stats(values, bytes / copy);
    stats.add("copy", copy, bytes);
    measure_plans(stats, turns, !uncompared);
    if (!only_plans) {
      measure_others(stats, turns, v, share);
      measure_reductions(stats, turns);
    }
    for (auto const& one : stats.found().works) is_right &= one.is_as_on_host.value_or(true);
    all.sizes.push_back(stats.found());
    // saves results so far, in case the next size takes too long
    if (!json.empty()) write_json(all, json);
  }
  return is_right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_gpu: %s\n", error.what());
  return 1;
}
